"""The later SMetric with the load guard of the first one: the step before its SLO-aware migration.

The reading notes say that the later version replaced "load-aware filter" by "SLO-aware migration" and what that
gained. This is the later policy with the first version's filter put back: a follow-up leaves the instance with the
hits when that has more than ``overload`` times the mean load. Everything else is `smetric_gym.agents.smetric_v2`.
"""

from __future__ import annotations

from typing import NamedTuple

from smetric_gym.agents.load import REQUESTS, load_of
from smetric_gym.agents.memory import EVICTED, FIRST_TURN, HIT_CURSOR, OVERLOAD, REASON, STICK
from smetric_gym.agents.smetric import not_overloaded, session_not_evicted
from smetric_gym.agents.smetric_v2 import estimate_load
from smetric_gym.agents.ties import ROUND_ROBIN, argmin, most_hits


class Params(NamedTuple):
    """Parameters: of the load guard, and of the later SMetric."""

    overload: float = 2.0
    """times the mean load that the instance may have; more than 0, or inf"""
    hit_ratio: float = 0.5
    """share of the carried history that must still be cached; 0 or more, below 1"""
    global_hits: int = 0
    """1: tokens in the global tier need no prefill"""
    load: int = REQUESTS
    ties: int = ROUND_ROBIN


def smetric_v2_overload(view, request, memory, params):
    """Route one request; see the module."""
    load = load_of(view, params.load)
    seconds = estimate_load(view, request, params.global_hits)
    turn = memory[HIT_CURSOR]
    s = most_hits(seconds, view, memory, params.ties)
    if request.messages == 0:
        memory[REASON] = FIRST_TURN
    elif not not_overloaded(s, load, view, params.overload):
        memory[REASON] = OVERLOAD
    elif not session_not_evicted(request, s, view.local_hit_tokens, params.hit_ratio):
        memory[REASON] = EVICTED
    else:
        memory[REASON] = STICK
        return s
    memory[HIT_CURSOR] = turn
    return argmin(seconds, view, memory, params.ties)
