"""Round robin: the next instance that is alive, whatever it holds or does. Source: every load balancer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smetric_gym.agents.memory import REASON, SCORE
from smetric_gym.agents.ties import ROUND_ROBIN, argmin


class Params(NamedTuple):
    """Parameters of round robin; every decision is a tie, so other ties are other policies."""

    ties: int = ROUND_ROBIN


def round_robin(view, request, memory, params):
    """Route one request; see the module."""
    memory[REASON] = SCORE
    return argmin(np.zeros(len(view)), view, memory, params.ties)
