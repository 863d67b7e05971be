"""Load balancing only ("LB-only"): the least load, whatever is cached where.

Source: the SMetric paper's baseline; its load is the request count when prefill and decode share an
instance. On the prefill instances of a disaggregated cluster the paper uses Dynamo in its place; here it is
un-prefilled tokens then.
"""

from __future__ import annotations

from typing import NamedTuple

from smetric_gym.agents.load import REQUESTS, load_of
from smetric_gym.agents.memory import REASON, SCORE
from smetric_gym.agents.ties import ROUND_ROBIN, argmin


class Params(NamedTuple):
    """Parameters of load balancing."""

    load: int = REQUESTS
    ties: int = ROUND_ROBIN


def load_balance(view, request, memory, params):
    """Route one request; see the module."""
    memory[REASON] = SCORE
    return argmin(load_of(view, params.load), view, memory, params.ties)
