"""What the agent observes: the router's view, and the waiting request repeated in every row."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from smetric_gym.cluster.state import State
from smetric_gym.cluster.view import REQUEST_VIEW, VIEW

INSTANCE_HIGH = {
    "local_hit_tokens": 2**31,
    "in_flight": 2**31,
    "running": 2**31,
    "waiting": 2**31,
    "in_flight_tokens": 2**50,
    "unprefilled_tokens": 2**50,
    "unprefilled_s": 1e12,
    "kv_use": 1,
    "capacity_tokens": 2**50,
    "prefill_token_s": 1,
    "prefill_pair_s": 1,
    "routed": 2**31,
    "alive": 1,
}
REQUEST_HIGH = {
    "prompt_tokens": 2**31,
    "turn": 2**31,
    "messages": 2**31,
    "history_tokens": 2**31,
    "global_hit_tokens": 2**31,
    "ttft_limit_s": 1e12,
    "time_s": 1e12,
    "session": 2**31,
}
"""Upper bounds of the fields; all of them start at 0. They are limits of the types, not typical values."""

INSTANCE_FIELDS: tuple[str, ...] = tuple(VIEW.names or ())
REQUEST_FIELDS: tuple[str, ...] = tuple(REQUEST_VIEW.names or ())
FIELDS: tuple[str, ...] = INSTANCE_FIELDS + REQUEST_FIELDS
"""Names of the columns of an observation."""

# What a drained instance still says of itself.
_LASTING = ("capacity_tokens", "prefill_token_s", "prefill_pair_s")


def observation_space(instances: int) -> spaces.Box:
    """Box of shape (instances, len(FIELDS)), float32, from 0 to finite bounds."""
    highs = {**INSTANCE_HIGH, **REQUEST_HIGH}
    high = np.array([highs[name] for name in FIELDS], dtype=np.float32)
    return spaces.Box(np.float32(0), np.tile(high, (instances, 1)), dtype=np.float32)


class Observer:
    """Reads observations out of the memory of one cluster.

    Args:
        state: the state of the cluster; its view and request record are rewritten in place at every decision.
    """

    def __init__(self, state: State) -> None:
        rows, split = len(state.seen), len(INSTANCE_FIELDS)
        self._seen = state.seen
        self._view = state.seen.view(np.float32).reshape(rows, split)
        self._request = state.request_view.view(np.float32)
        self._alive = self._view[:, INSTANCE_FIELDS.index("alive")]
        self._now = np.empty((rows, len(FIELDS)), dtype=np.float32)
        self._left, self._right = self._now[:, :split], self._now[:, split:]

    def observe(self) -> np.ndarray:
        """The decision at hand, [instances, fields] float32, a new array."""
        self._left[...] = self._view
        self._right[...] = self._request
        return self._now.copy()

    def mask(self) -> np.ndarray:
        """[instances] bool, True where the instance may be chosen, a new array."""
        return self._alive.astype(np.bool_)

    def drained(self, instances: np.ndarray) -> np.recarray:
        """The view after the last decision: no load and no hits, a new array.

        Args:
            instances: [instances] ``state.INSTANCE``, those that take requests.
        """
        view = np.zeros_like(self._seen)
        for name in _LASTING:
            view[name] = self._seen[name]
        for name in ("routed", "alive"):
            view[name] = instances[name]
        return view.view(np.recarray)

    def last(self, instances: np.ndarray, now_s: float) -> np.ndarray:
        """The observation after the last decision: the drained cluster, no waiting request.

        Args:
            instances: [instances] ``state.INSTANCE``, those that take requests.
            now_s: simulated time in s.
        """
        observation = np.zeros_like(self._now)
        rows, split = self._left.shape
        observation[:, :split] = self.drained(instances).view(np.float32).reshape(rows, split)
        observation[:, FIELDS.index("time_s")] = now_s
        return observation
