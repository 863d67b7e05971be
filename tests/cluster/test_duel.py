"""The compiled event loop equals the reference simulator to the last tick, on clusters chosen to hurt."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smetric_gym.cluster import engine
from smetric_gym.cluster.duel import differences


@settings(max_examples=250, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**40))
def test_event_loop_equals_reference(seed):
    assert differences(seed) == []


@pytest.mark.parametrize("seed", range(25))
def test_event_loop_keeps_its_invariants_after_every_event(seed):
    assert differences(seed, debug=True) == []


def test_a_wrong_event_loop_is_found(monkeypatch):
    """The duel can lose: with one tick more between router and engine, nearly every case differs."""
    from smetric_gym.cluster import cluster as module

    build = module._instances

    def late(config, times):
        instances = build(config, times)
        instances["api"] += 1
        return instances

    monkeypatch.setattr(module, "_instances", late)
    assert sum(bool(differences(seed)) for seed in range(5)) >= 4


def test_the_heap_pops_in_order():
    from smetric_gym.cluster.state import CLUSTER, EVENT

    random = np.random.default_rng(0)
    cluster, events = np.zeros(1, dtype=CLUSTER), np.zeros(600, dtype=EVENT)
    pushed = []
    for _ in range(500):
        event = (int(random.integers(20)), int(random.integers(5)), int(random.integers(50)))
        engine.push(events, cluster[0], *event, 0)
        pushed.append(event)
    popped = []
    while cluster["heap_size"][0]:
        first = events[0]
        popped.append((int(first["time"]), int(first["key"]) >> 40, int(first["key"]) & (2**40 - 1)))
        engine.pop(events, cluster[0])
    assert popped == sorted(pushed)
