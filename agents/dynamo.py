"""Dynamo as the SMetric paper's baseline for disaggregated clusters: the fewest new prefill tokens.

Source: arXiv 2607.08565v1: "routes a request by the number of new prefill tokens it would compute on each
instance". Read as P-token: the un-prefilled tokens that are there plus ``L - c`` of this request. ``queued
= 0`` is the other reading, this request's alone. The rule that NVIDIA ships is ``dynamo_cost``.
"""

from __future__ import annotations

from typing import NamedTuple

from smetric_gym.agents.load import UNPREFILLED_TOKENS, load_of, new_tokens
from smetric_gym.agents.memory import REASON, SCORE
from smetric_gym.agents.ties import ROUND_ROBIN, argmin


class Params(NamedTuple):
    """Parameters of the Dynamo baseline."""

    queued: int = 1
    """0: leave out the prefill work that is there already"""
    ties: int = ROUND_ROBIN


def dynamo(view, request, memory, params):
    """Route one request; see the module."""
    score = params.queued * load_of(view, UNPREFILLED_TOKENS) + new_tokens(view, request)
    memory[REASON] = SCORE
    return argmin(score, view, memory, params.ties)
