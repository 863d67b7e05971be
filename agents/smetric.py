"""SMetric: a session stays on its instance, unless that is overloaded or has evicted it.

The paper's Figure 13 (arXiv 2607.08565v1)::

    req = receive()
    c = kvc.hit_len(req.prompt)        # KV$, per instance
    l = load()                         # load, per instance
    s = instances.argmax(c)            # highest KV$ hit
    if req.turn != 0 and not_overloaded(s, l) and session_not_evicted(req, s, c):
        sched_to = s                   # stick
    else:
        score    = load_balance(req, c, l)
        sched_to = instances.rr_argmin(score)
    req.forward(sched_to)

    not_overloaded(s, l):            return l[s] <= OVERLOAD * mean(l)
    session_not_evicted(req, s, c):  return c[s] > HIT_RATIO * est_hit(req)
    load_balance(req, c, l):         return l

``est_hit`` is the carried history without the new turn, rounded down to whole blocks as hits are; ``turn``
is inferred from the number of historical messages, so an agent that drops its history looks like a first
turn. ``load``: request count where prefill and decode share an instance, un-prefilled tokens on the prefill
instances of a disaggregated cluster. OVERLOAD = 2 is the value of Figure 14. HIT_RATIO is "a hyperparameter
below one"; no value is published, and 0 to 0.75 is within 4 % of the paper's default: ours is 0.5. The paper
leaves open who wins among equal hits: here the lower load.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from smetric_gym.agents.load import REQUESTS, load_of, mean_alive
from smetric_gym.agents.memory import EVICTED, FIRST_TURN, HIT_CURSOR, OVERLOAD, REASON, STICK
from smetric_gym.agents.ties import ROUND_ROBIN, argmin, most_hits


class Params(NamedTuple):
    """Parameters of SMetric."""

    overload: float = 2.0
    """times the mean load that an instance may have; more than 0, or inf"""
    hit_ratio: float = 0.5
    """share of the carried history that must still be cached; 0 or more, below 1"""
    load: int = REQUESTS
    ties: int = ROUND_ROBIN


def smetric(view, request, memory, params):
    """Route one request; see the module."""
    c = view.local_hit_tokens
    l = load_of(view, params.load)  # noqa: E741
    turn = memory[HIT_CURSOR]
    s = most_hits(l, view, memory, params.ties)
    if request.messages == 0:
        memory[REASON] = FIRST_TURN
    elif not not_overloaded(s, l, view, params.overload):
        memory[REASON] = OVERLOAD
    elif not session_not_evicted(request, s, c, params.hit_ratio):
        memory[REASON] = EVICTED
    else:
        memory[REASON] = STICK
        return s
    memory[HIT_CURSOR] = turn
    return argmin(l, view, memory, params.ties)


@register_jitable
def not_overloaded(s, l, view, overload):  # noqa: E741
    """``l[s] <= OVERLOAD * mean(l)``."""
    return overload == np.inf or l[s] <= overload * mean_alive(l, view)


@register_jitable
def session_not_evicted(request, s, c, hit_ratio):
    """``c[s] > HIT_RATIO * est_hit(req)``."""
    return float(c[s]) > hit_ratio * float(request.history_tokens)
