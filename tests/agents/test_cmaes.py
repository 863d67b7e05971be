"""The search finds an optimum, and goes on where it was from what it was told."""

import sys

import numpy as np
import pytest

from smetric_gym.agents.cmaes import Search
from smetric_gym.errors import SmetricError

pytest.importorskip("cma", reason="needs the package cma")
GOAL = np.array([1.0, -2.0, 0.5])


def searched(generations, told=()):
    search = Search(np.zeros(3), step=0.5, population=10, seed=3)
    search.replay(told)
    for _ in range(generations):
        np.random.rand()  # NumPy's global state is no part of it
        search.tell(-((search.ask() - GOAL) ** 2).sum(axis=1))
    return search


def test_it_maximises_and_a_replay_leads_to_the_same_place():
    whole = searched(40)
    np.testing.assert_allclose(whole.mean, GOAL, atol=0.05)
    assert whole.step < 0.2 and len(whole.told) == 40
    again = searched(25, whole.told[:15])
    np.testing.assert_array_equal(again.mean, whole.mean)
    assert again.told == whole.told


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cma", None)
    with pytest.raises(SmetricError, match="needs the package cma"):
        searched(1)
