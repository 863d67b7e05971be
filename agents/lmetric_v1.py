"""LMetric as the first SMetric paper writes it: the least ``(L - c) * load``, without queued prefill work.

Source: arXiv 2607.08565v1. Taken literally a load of 0 hides the cache: on an idle cluster every score is
0. That is kept; but among equal scores the instance with the most hits wins (ties = first takes the first
index, cache or not). Compare ``lmetric``, the published router, which counts the request itself.
"""

from __future__ import annotations

from typing import NamedTuple

from smetric_gym.agents.load import REQUESTS, load_of, new_tokens
from smetric_gym.agents.memory import CURSOR, REASON, SCORE
from smetric_gym.agents.ties import FIRST, ROUND_ROBIN, break_tie, keep_lowest


class Params(NamedTuple):
    """Parameters of the early LMetric."""

    load: int = REQUESTS
    ties: int = ROUND_ROBIN


def lmetric_v1(view, request, memory, params):
    """Route one request; see the module."""
    new = new_tokens(view, request)
    best = view.alive > 0
    keep_lowest(new * load_of(view, params.load), best)
    if params.ties != FIRST:
        keep_lowest(new, best)
    memory[REASON] = SCORE
    return break_tie(best, view, memory, params.ties, CURSOR)
