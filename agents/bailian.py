"""Bailian's linear rule: the least ``lambda * (1 - hit) + (1 - lambda) * norm(batch size)``, both in 0..1.

Source: LMetric (OSDI'26), section 4, as published in the paper: hit is the cached share of the prompt,
batch size is running plus queued requests. How it is normalised is not said: here by the largest of the
instances that are alive (an idle cluster: 0). LAMBDA = 0.7 is the paper's tuned value for chat (0.55 for
API traffic, sweep 0.4 to 0.9). For agents the SMetric paper says only "a large lambda". Its released code
samples at random by weights instead, a different rule.
"""

from __future__ import annotations

from typing import NamedTuple

from smetric_gym.agents.load import REQUESTS, load_of, new_tokens
from smetric_gym.agents.memory import REASON, SCORE
from smetric_gym.agents.ties import ROUND_ROBIN, argmin, lowest


class Params(NamedTuple):
    """Parameters of Bailian's rule."""

    lam: float = 0.7
    """weight of the cache against the load, 0..1"""
    ties: int = ROUND_ROBIN


def bailian(view, request, memory, params):
    """Route one request; see the module."""
    batch = load_of(view, REQUESTS)
    largest = max(1.0, -lowest(-batch, view.alive > 0))
    miss = new_tokens(view, request) / float(request.prompt_tokens)
    memory[REASON] = SCORE
    return argmin(params.lam * miss + (1 - params.lam) * (batch / largest), view, memory, params.ties)
