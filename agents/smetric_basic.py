"""SMetric without its guards: follow-ups go to the most hits, first turns to the least load.

Source: "SMetric (basic)" of the paper's ablation, Figure 13 without ``not_overloaded`` and
``session_not_evicted``; measured there as P90 TTFT 16.1 s against 12.1 s with the guards.
"""

from __future__ import annotations

from typing import NamedTuple

from smetric_gym.agents.load import REQUESTS, load_of
from smetric_gym.agents.memory import FIRST_TURN, REASON, STICK
from smetric_gym.agents.ties import ROUND_ROBIN, argmin, most_hits


class Params(NamedTuple):
    """Parameters of SMetric without guards."""

    load: int = REQUESTS
    ties: int = ROUND_ROBIN


def smetric_basic(view, request, memory, params):
    """Route one request; see the module."""
    load = load_of(view, params.load)
    if request.messages == 0:
        memory[REASON] = FIRST_TURN
        return argmin(load, view, memory, params.ties)
    memory[REASON] = STICK
    return most_hits(load, view, memory, params.ties)
