"""SMetric with its eviction guard only: a session stays as long as its KV cache does, at any load.

Source: the paper's Figure 13 without ``not_overloaded``. HIT_RATIO = 0.5 is ours; the paper states none.
"""

from __future__ import annotations

from typing import NamedTuple

from smetric_gym.agents.load import REQUESTS, load_of
from smetric_gym.agents.memory import EVICTED, FIRST_TURN, HIT_CURSOR, REASON, STICK
from smetric_gym.agents.smetric import session_not_evicted
from smetric_gym.agents.ties import ROUND_ROBIN, argmin, most_hits


class Params(NamedTuple):
    """Parameters of SMetric with the eviction guard."""

    hit_ratio: float = 0.5
    """share of the carried history that must still be cached; 0 or more, below 1"""
    load: int = REQUESTS
    ties: int = ROUND_ROBIN


def smetric_eviction_guard(view, request, memory, params):
    """Route one request; see the module."""
    load = load_of(view, params.load)
    turn = memory[HIT_CURSOR]
    s = most_hits(load, view, memory, params.ties)
    if request.messages == 0:
        memory[REASON] = FIRST_TURN
    elif not session_not_evicted(request, s, view.local_hit_tokens, params.hit_ratio):
        memory[REASON] = EVICTED
    else:
        memory[REASON] = STICK
        return s
    memory[HIT_CURSOR] = turn
    return argmin(load, view, memory, params.ties)
