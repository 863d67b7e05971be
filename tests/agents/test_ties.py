"""Who wins among equals."""

import numpy as np
from policy_views import make_view

from smetric_gym.agents.memory import new_memory
from smetric_gym.agents.ties import FIRST, LEAST_LOADED, LEAST_ROUTED, RANDOM, ROUND_ROBIN, argmin, most_hits


def choices(score, view, ties, count=6, seed=0):
    memory = new_memory(0, seed)
    return [argmin(np.array(score, dtype=float), view, memory, ties) for _ in range(count)]


def test_rules():
    view = make_view(4, in_flight=[3, 1, 1, 0], routed=[5, 9, 8, 0])
    score = [1, 1, 1, 2]
    assert choices(score, view, FIRST) == [0] * 6
    assert choices(score, view, ROUND_ROBIN) == [0, 1, 2, 0, 1, 2]
    assert choices(score, view, LEAST_LOADED) == [1, 2] * 3
    assert choices(score, view, LEAST_ROUTED) == [0] * 6
    drawn = choices(score, view, RANDOM, 300)
    assert set(drawn) == {0, 1, 2} and min(np.bincount(drawn)) > 70
    assert drawn != choices(score, view, RANDOM, 300, seed=1)


def test_dead_instances_and_infinite_scores():
    view = make_view(3, alive=[0, 1, 1])
    assert choices([0, 5, 5], view, ROUND_ROBIN, 4) == [1, 2, 1, 2]
    assert choices([0, np.inf, np.inf], view, FIRST, 1) == [1]
    assert choices([0, np.nan, 7], view, FIRST, 1) == [2]
    assert choices([0, np.nan, np.nan], view, FIRST, 1) == [-1]


def test_a_clear_winner_does_not_move_the_rotation():
    # else the idle instance next to a busy session's would get every tie
    view, memory = make_view(3), new_memory(0)
    tied, clear = np.array([0.0, 0, 1]), np.array([1.0, 1, 0])
    seen = [argmin(score, view, memory, ROUND_ROBIN) for _ in range(3) for score in (tied, clear)]
    assert seen == [0, 2, 1, 2, 0, 2]


def test_most_hits_prefers_the_lower_load_and_has_a_rotation_of_its_own():
    view, memory = make_view(4, local_hit_tokens=[96, 96, 96, 0]), new_memory(0)
    load = np.array([2.0, 1, 1, 0])
    assert [most_hits(load, view, memory, ROUND_ROBIN) for _ in range(4)] == [1, 2, 1, 2]
    assert most_hits(load, view, memory, FIRST) == 0
    assert argmin(np.zeros(4), view, memory, ROUND_ROBIN) == 0
