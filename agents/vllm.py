"""vLLM's data-parallel balancer, as papers read it: the least ``4 * waiting + running``.

Source: vLLM to mid-2026 (``DPLBAsyncMPClient``), quoted so by LMetric and SMetric. Waiting is whatever is in
flight and not running: vLLM raises its own waiting count at each pick, so a request counts before its engine
has it, and the view's ``waiting`` begins only there. Differences: vLLM scans from a fixed start and takes the
first minimum (``ties: first`` is nearest), and its counts are 100 ms old; set ``cluster.view_lag_s`` for that
(a stale ``running`` above ``in_flight`` then means that nobody waits). LMetric's router code counts waiting
requests a fifth time; vLLM 0.33 has another rule.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smetric_gym.agents.load import REQUESTS, load_of
from smetric_gym.agents.memory import REASON, SCORE
from smetric_gym.agents.ties import ROUND_ROBIN, argmin


class Params(NamedTuple):
    """Parameters of vLLM's balancer."""

    ties: int = ROUND_ROBIN


def vllm(view, request, memory, params):
    """Route one request; see the module."""
    running = view.running.astype(np.float64)
    waiting = np.maximum(load_of(view, REQUESTS) - running, 0.0)
    memory[REASON] = SCORE
    return argmin(4 * waiting + running, view, memory, params.ties)
