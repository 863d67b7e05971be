"""SMetric, later version: a follow-up stays where its cache is while the predicted TTFT meets its limit.

Source: the revision of arXiv 2607.08565 of September 2026, known to us only from page-cited reading notes
of others (pp. 8-9), not from its text. The rule as noted:

- ``estimate_load(i) = q_i + prefill_cost(req, c_i)``, the queued prefill work plus that of this request, by
  the causal-attention model ``c_lin * n + c_attn * n * (L - n/2)`` for the ``n = L - c_i`` new of ``L``
  tokens; here in seconds.
- First turns, and follow-ups whose best hit is below HIT_RATIO of the expected one: least
  ``estimate_load``.
- Other follow-ups: to the highest hit if its ``estimate_load <= SLACK * TTFT_SLO(req)``, else to the least
  ``estimate_load``; but if no instance meets the deadline, to the highest hit all the same.

The notes give no value for SLACK and HIT_RATIO ("robust"): ours are 1.0 and 0.5. They say ``c_i`` is the
overlap on the instance; ``global_hits = 0`` takes that literally, with ``1`` tokens of the global tier count
as cached everywhere. The notes do not settle it, and it matters: one run at load 1.25 scored 135 thousand
tokens/s within the SLO with 0, and 146 thousand with 1. Report which one was used.
"""

from __future__ import annotations

from typing import NamedTuple

from numba.extending import register_jitable

from smetric_gym.agents.load import new_tokens
from smetric_gym.agents.memory import EVICTED, FIRST_TURN, HIT_CURSOR, OVERLOAD, REASON, STICK
from smetric_gym.agents.smetric import session_not_evicted
from smetric_gym.agents.ties import ROUND_ROBIN, argmin, lowest, most_hits


class Params(NamedTuple):
    """Parameters of the later SMetric."""

    slack: float = 1.0
    """times the TTFT limit; more than 0, or inf"""
    hit_ratio: float = 0.5
    """share of the carried history that must still be cached; 0 or more, below 1"""
    global_hits: int = 0
    """1: tokens in the global tier need no prefill"""
    ties: int = ROUND_ROBIN


def smetric_v2(view, request, memory, params):
    """Route one request; see the module."""
    seconds = estimate_load(view, request, params.global_hits)
    deadline = params.slack * float(request.ttft_limit_s)
    turn = memory[HIT_CURSOR]
    s = most_hits(seconds, view, memory, params.ties)
    if request.messages == 0:
        memory[REASON] = FIRST_TURN
    elif not session_not_evicted(request, s, view.local_hit_tokens, params.hit_ratio):
        memory[REASON] = EVICTED
    elif seconds[s] <= deadline or lowest(seconds, view.alive > 0) > deadline:
        memory[REASON] = STICK
        return s
    else:
        memory[REASON] = OVERLOAD
    memory[HIT_CURSOR] = turn
    return argmin(seconds, view, memory, params.ties)


@register_jitable
def estimate_load(view, request, global_hits):
    """[instances] float64: s until this request would be prefilled on each instance."""
    length = float(request.prompt_tokens)
    queued, token_s, pair_s = view.unprefilled_s, view.prefill_token_s, view.prefill_pair_s
    seconds = new_tokens(view, request)
    for i in range(len(seconds)):
        new = seconds[i]
        if global_hits:
            new = min(new, length - float(request.global_hit_tokens))
        seconds[i] = float(queued[i]) + float(token_s[i]) * new + float(pair_s[i]) * new * (length - new / 2)
    return seconds
