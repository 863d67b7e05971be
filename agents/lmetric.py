"""LMetric: the least product of prefill work and batch size, ``(queued + L - c) * (requests + 1)``.

Source: LMetric (OSDI'26), Figure 17 and its released router: P-token (queued un-prefilled tokens plus the
new ones of this request) times the batch size with this request in it; SMetric's later version restates it
so, with the queue. It has no parameters. The ``+ 1`` keeps the cache term on an idle instance.
"""

from __future__ import annotations

from typing import NamedTuple

from smetric_gym.agents.load import REQUESTS, UNPREFILLED_TOKENS, load_of, new_tokens
from smetric_gym.agents.memory import REASON, SCORE
from smetric_gym.agents.ties import ROUND_ROBIN, argmin


class Params(NamedTuple):
    """Parameters of LMetric."""

    ties: int = ROUND_ROBIN


def lmetric(view, request, memory, params):
    """Route one request; see the module."""
    prefill = load_of(view, UNPREFILLED_TOKENS) + new_tokens(view, request)
    memory[REASON] = SCORE
    return argmin(prefill * (load_of(view, REQUESTS) + 1), view, memory, params.ties)
