"""Random: an instance that is alive, uniformly, from the seed of the run. Source: every load balancer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smetric_gym.agents.memory import REASON, SCORE
from smetric_gym.agents.ties import RANDOM, argmin


class Params(NamedTuple):
    """Parameters of the random choice; every decision is a tie, so other ties are other policies."""

    ties: int = RANDOM


def random_choice(view, request, memory, params):
    """Route one request; see the module."""
    memory[REASON] = SCORE
    return argmin(np.zeros(len(view)), view, memory, params.ties)
