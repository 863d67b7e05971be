"""Question 7: what a decision lost, and the study from end to end."""

import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.questions.bound import _lost, _regret, question_7
from smetric_gym.reproduce.study import Work


def decision(kind="STICK", chosen=0):
    return {"kind": kind, "choices": {"smetric": chosen}, "tokens": [[1, 1], [9, 2], [3, 8]],
            "ttft_s": [[2.0, 4.0], [1.0, 1.0], [5.0, 5.0]]}  # fmt: skip


def test_what_a_decision_lost():
    hindsight, crossed, over_random, ttft_s = _lost(decision(), "smetric")
    assert (hindsight, over_random, ttft_s) == (4.5, 1 - 4, 2.0)
    assert crossed == ((2 - 1) + (3 - 1)) / 2  # picked in one half of the futures, measured in the other
    assert _lost(decision(chosen=1), "smetric")[3] == 0


def test_kinds_weigh_as_often_as_they_happen():
    piece = {"counts": {"STICK": 9, "FIRST_TURN": 1}, "rows": [decision(chosen=1), decision("FIRST_TURN", chosen=0)]}
    assert _regret("smetric", "all", "smetric", [piece])["ttft_s"] == pytest.approx(0.2)
    assert _regret("smetric", "FIRST_TURN", "smetric", [piece])["ttft_s"] == 2
    assert _regret("smetric", "EVICTED", "smetric", [piece])["decisions"] == 0


def small(**replay):
    changes = {"instances": 2, "warm_up_s": 60.0, "window_s": 120.0, "loads": [1.0], "policies": ["lmetric", "smetric"]}
    settings = compose(["experiment=q7"], changes) | {"sizes": {"quick": [0]}}
    horizon = {"stretch_s": 20.0, "settle_s": 20.0, "futures": 2}
    usual = {"bases": ["smetric"], "load": 1.5, "instances": 2, "each": 1, "horizon": horizon}
    return settings | {"replay": usual | replay}


def test_the_study_of_a_small_cluster(tmp_path):
    outcome = question_7(Work(small(), 1, tmp_path))
    assert len(outcome.table) == 6 and len(outcome.more["regrets"]) == 10
    own = next(row for row in outcome.more["regrets"] if (row["kind"], row["policy"]) == ("all", "SMetric"))
    assert own["decisions"] >= 2 and own["hindsight_tokens"] >= own["tokens"] and own["ttft_s"] >= 0
    assert outcome.picture is not None and len(outcome.words) == 5


def test_bases_are_policies_of_the_study(tmp_path):
    with pytest.raises(SmetricError, match="replay.bases is 'bailian'"):
        question_7(Work(small(bases=["bailian"]), 1, tmp_path))
