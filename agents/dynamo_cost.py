"""NVIDIA Dynamo's KV router (generation 3, 1.6.1), as far as the view allows: the least cost in KV blocks.

Source: ``ai-dynamo/dynamo``, default selector of 1.6.1, our restatement checked against its wheel::

    raw    = (P + L) / b                                    # P: un-prefilled tokens, b: tokens of a block
    credit = overlap / (1 + decay * x) * c / b              # x = ((P - min P) / b) / ceil(L / b)
    cost   = scale * max(raw - credit, 0) + decode + request_weight * requests
    decode = blocks of the requests in flight and of this one

Defaults: overlap 1, decay 0, scale 1, request_weight 0, block 16 as in the engine; so ``(P + L - c) / b +
decode``. Differences: Dynamo counts a block once that several requests in flight share, the view has only
the sum of their prompts; credit for host and disk tiers is left out; ties are uniformly random there. Its
temperature (0) and busy thresholds (none) are left out. On prefill instances Dynamo does not track active
blocks: ``decode`` is 0 there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smetric_gym.agents.load import REQUESTS, UNPREFILLED_TOKENS, load_of
from smetric_gym.agents.memory import REASON, SCORE
from smetric_gym.agents.ties import ROUND_ROBIN, argmin, lowest


class Params(NamedTuple):
    """Parameters of Dynamo's cost."""

    overlap: float = 1.0
    """credit for a cached block, in blocks; 0 or more"""
    decay: float = 0.0
    """how fast the credit falls with the backlog beyond the least; 0 or more"""
    scale: float = 1.0
    """weight of prefill blocks; 0 or more"""
    decode: float = 1.0
    """weight of blocks in flight; 0 or more"""
    request_weight: float = 0.0
    """blocks per request in flight; 0 or more"""
    block: int = 16
    """tokens of a block"""
    ties: int = ROUND_ROBIN


def dynamo_cost(view, request, memory, params):
    """Route one request; see the module."""
    prompt = float(request.prompt_tokens)
    queued = load_of(view, UNPREFILLED_TOKENS)
    least = lowest(queued, view.alive > 0)
    backlog = (queued - least) / params.block / np.ceil(prompt / params.block)
    credit = params.overlap / (1 + params.decay * np.maximum(backlog, 0)) * view.local_hit_tokens
    prefill = np.maximum(queued + prompt - credit, 0) / params.block
    decode = (view.in_flight_tokens.astype(np.float64) + prompt) / params.block
    requests = load_of(view, REQUESTS)
    memory[REASON] = SCORE
    cost = params.scale * prefill + params.decode * decode + params.request_weight * requests
    return argmin(cost, view, memory, params.ties)
