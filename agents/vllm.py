"""vLLM's data-parallel balancer, as papers read it: the least ``4 * waiting + running``.

Source: vLLM to mid-2026 (``DPLBAsyncMPClient``), quoted so by LMetric and SMetric. Differences: vLLM scans
from a fixed start and takes the first minimum (``ties: first`` is nearest), and its counts are 100 ms old;
set ``cluster.view_lag_s`` for that. LMetric's router code counts waiting requests a fifth time; vLLM 0.33
has another rule.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smetric_gym.agents.memory import REASON, SCORE
from smetric_gym.agents.ties import ROUND_ROBIN, argmin


class Params(NamedTuple):
    """Parameters of vLLM's balancer."""

    ties: int = ROUND_ROBIN


def vllm(view, request, memory, params):
    """Route one request; see the module."""
    memory[REASON] = SCORE
    return argmin(4 * view.waiting.astype(np.float64) + view.running, view, memory, params.ties)
