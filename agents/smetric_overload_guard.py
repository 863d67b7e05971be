"""SMetric with its overload guard only: a session stays until its instance is overloaded, evicted or not.

Source: the paper's Figure 13 without ``session_not_evicted``. OVERLOAD = 2 as in Figure 14.
"""

from __future__ import annotations

from typing import NamedTuple

from smetric_gym.agents.load import REQUESTS, load_of
from smetric_gym.agents.memory import FIRST_TURN, HIT_CURSOR, OVERLOAD, REASON, STICK
from smetric_gym.agents.smetric import not_overloaded
from smetric_gym.agents.ties import ROUND_ROBIN, argmin, most_hits


class Params(NamedTuple):
    """Parameters of SMetric with the overload guard."""

    overload: float = 2.0
    """times the mean load that an instance may have; more than 0, or inf"""
    load: int = REQUESTS
    ties: int = ROUND_ROBIN


def smetric_overload_guard(view, request, memory, params):
    """Route one request; see the module."""
    load = load_of(view, params.load)
    turn = memory[HIT_CURSOR]
    s = most_hits(load, view, memory, params.ties)
    if request.messages == 0:
        memory[REASON] = FIRST_TURN
    elif not not_overloaded(s, load, view, params.overload):
        memory[REASON] = OVERLOAD
    else:
        memory[REASON] = STICK
        return s
    memory[HIT_CURSOR] = turn
    return argmin(load, view, memory, params.ties)
