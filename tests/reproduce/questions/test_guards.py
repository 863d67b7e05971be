"""Question 1: what replays of guards say, and the study from end to end."""

import numpy as np
import pytest

from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.questions.guards import _judge, question_1
from smetric_gym.reproduce.study import Work


def decision(kind="OVERLOAD", stick=(0, 0), leave=(0, 0), ttft=(1.0, 1.0)):
    return {"kind": kind, "same": False, "stick_tokens": list(stick), "leave_tokens": list(leave),
            "stick_ttft_s": [ttft[0]] * 2, "leave_ttft_s": [ttft[1]] * 2}  # fmt: skip


def test_leaving_is_right_where_it_serves_more():
    found = _judge("OVERLOAD", [[decision(stick=(5, 5), leave=(9, 7))]])
    assert (found["tokens"], found["right"], found["wrong"]) == (3, 1, 0)
    assert _judge("STICK", [[decision("STICK", stick=(5, 5), leave=(9, 7))]])["tokens"] == -3
    assert np.isnan(found["tokens_low"])  # one seed has no interval


def test_a_wrong_migration_is_measured_in_the_other_half():
    found = _judge("OVERLOAD", [[decision(stick=(10, 10), leave=(0, 12))]])
    assert (found["right"], found["wrong"]) == (0, 0)  # the halves do not agree
    assert found["tokens_lost_if_wrong"] == -2  # called wrong by the first, measured in the second
    found = _judge("OVERLOAD", [[decision(stick=(10, 10), leave=(4, 7))]])
    assert found["wrong"] == 1 and found["tokens_lost_if_wrong"] == pytest.approx(4.5)


def test_own_ttft_and_the_same_instance():
    rows = [decision(ttft=(1.0, 4.0)), decision(ttft=(3.0, 1.0)), {"kind": "OVERLOAD", "same": True}]
    found = _judge("OVERLOAD", [rows])
    assert found["decisions"] == 3 and found["same_instance"] == pytest.approx(1 / 3)
    assert found["ttft_s"] == pytest.approx(0.5) and found["ttft_longer"] == 0.5 and found["s_lost_if_longer"] == 3


def test_seeds_weigh_alike_and_kinds_without_decisions_say_so():
    found = _judge("EVICTED", [[decision("EVICTED", leave=(6, 6))] * 3, [decision("EVICTED")]])
    assert found["tokens"] == 3
    empty = _judge("EVICTED", [[], []])
    assert empty["decisions"] == 0 and np.isnan(empty["tokens"]) and np.isnan(empty["right"])


def test_the_study_of_a_small_cluster(tmp_path):
    changes = {"instances": 2, "warm_up_s": 60.0, "window_s": 120.0, "loads": [1.0, 1.5], "force": False}
    settings = compose(["experiment=q1"], changes) | {"sizes": {"quick": [0]}}
    settings["vary"] = {"cluster.global_tier": [0.0, 3.2]}
    horizon = {"stretch_s": 20.0, "settle_s": 20.0, "futures": 2}
    settings["replay"] = {"global_tiers": [3.2], "loads": [1.5], "each": 1, "horizon": horizon}
    outcome = question_1(Work(settings, 1, tmp_path))
    assert len(outcome.table) == 8 and len(outcome.more["fires"]) == 4 and len(outcome.more["replays"]) == 3
    both = [row for row in outcome.table if row["guards"] == "SMetric"]
    assert all(row["to_both"] == 0 for row in both)
    assert outcome.picture is not None and len(outcome.words) >= 5
    again = question_1(Work(settings, 1, tmp_path))
    assert again.words == outcome.words and str(again.more) == str(outcome.more)  # as text: nan is not nan
