"""Sampled decisions: which are drawn, and what is tried at each."""

import numpy as np

from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.questions.decisions import both_branches, every_instance, sample

SMALL = {"instances": 2, "warm_up_s": 60.0, "window_s": 180.0, "load": 1.5}
HOW = {"kinds": ["FIRST_TURN", "STICK"], "each": 2, "horizon": {"stretch_s": 20.0, "settle_s": 20.0, "futures": 2}}


def test_every_kind_is_drawn_alike_and_never_twice():
    kinds = np.array([0] * 50 + [1] * 40 + [2] * 3)
    allowed = np.ones(93, dtype=bool)
    allowed[50:60] = False
    drawn = sample(kinds, allowed, 5, seed=0)
    assert len(set(drawn)) == len(drawn) and (kinds[drawn] == 1).sum() == 5 and (kinds[drawn] == 2).sum() == 3
    assert not (drawn < 60).any() and (np.diff(drawn) > 0).all()
    assert not np.array_equal(drawn, sample(kinds, allowed, 5, seed=1))
    assert len(sample(kinds, np.zeros(93, dtype=bool), 5, seed=0)) == 0


def test_both_branches_of_follow_ups():
    rows = both_branches(compose([], SMALL), HOW | {"kinds": ["STICK"]})
    assert [row["kind"] for row in rows] == ["STICK"] * 2
    for row in rows:
        assert row["same"] == ("stick_tokens" not in row)
        if not row["same"]:
            assert len(row["stick_tokens"]) == len(row["leave_ttft_s"]) == 2


def test_every_instance_is_tried_and_every_policy_asked():
    found = every_instance(compose([], SMALL), HOW | {"policies": ["smetric", "load_balance"]})
    assert found["counts"]["STICK"] > found["counts"]["FIRST_TURN"] > 2 and len(found["rows"]) == 4
    for row in found["rows"]:
        assert np.shape(row["tokens"]) == np.shape(row["ttft_s"]) == (2, 2)
        assert set(row["choices"]) == {"smetric", "load_balance"} and set(row["choices"].values()) <= {0, 1}
