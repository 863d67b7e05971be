"""The floor of every comparison: always the most loaded instance.

Source: BLIS (``inference-sim``), a negative control. A result near it says that something is wrong. Equal
loads go to the first, so that one instance gets everything.
"""

from __future__ import annotations

from typing import NamedTuple

from smetric_gym.agents.load import REQUESTS, load_of
from smetric_gym.agents.memory import REASON, SCORE
from smetric_gym.agents.ties import FIRST, argmin


class Params(NamedTuple):
    """Parameters of the negative control."""

    load: int = REQUESTS
    ties: int = FIRST


def always_busiest(view, request, memory, params):
    """Route one request; see the module."""
    memory[REASON] = SCORE
    return argmin(-load_of(view, params.load), view, memory, params.ties)
