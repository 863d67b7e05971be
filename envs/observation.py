"""What the agent observes: the router's view, and the waiting request repeated in every row, or features of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from gymnasium import spaces
from numba.core.errors import NumbaError

from smetric_gym.cluster.cluster import Cluster
from smetric_gym.cluster.fleet import Table, at
from smetric_gym.cluster.view import REQUEST_VIEW, VIEW
from smetric_gym.errors import SmetricError

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

Observation = Callable[[np.ndarray, Any], np.ndarray]
"""``observation(view, request) -> [instances, F] float32``, of what a policy gets: an observation of your own."""


def observation_space(rows: int) -> spaces.Box:
    """Box of shape (rows, len(FIELDS)), float32, from 0 to finite bounds."""
    highs = {**INSTANCE_HIGH, **REQUEST_HIGH}
    high = np.array([highs[name] for name in FIELDS], dtype=np.float32)
    return spaces.Box(np.float32(0), np.tile(high, (rows, 1)), dtype=np.float32)


def drained(cluster: Cluster) -> np.recarray:
    """The view after the last decision: no load and no hits, a new array."""
    seen = cluster.state.seen
    view = np.zeros_like(seen)
    for name in _LASTING:
        view[name] = seen[name]
    for name in ("routed", "alive"):
        view[name] = cluster.state.instances[name][: len(seen)]
    return view.view(np.recarray)


class Features:
    """An observation of the user's own, for one environment or many; rows without an instance are zero.

    Args:
        function: ``(view, request) -> [instances, F] float32``. Numba compiles it where it can, as a policy.

    Attributes:
        width: F.
        compiled: True when Numba runs it.

    Raises:
        SmetricError: when it fails on a view, or returns something else.
    """

    def __init__(self, function: Observation) -> None:
        self._function: Any = getattr(function, "py_func", function)
        self.name = getattr(function, "__name__", type(function).__name__)
        view, request = np.zeros(2, VIEW), np.zeros(1, REQUEST_VIEW)
        view["alive"] = view["capacity_tokens"] = request["prompt_tokens"] = request["ttft_limit_s"] = 1
        try:
            with np.errstate(all="ignore"):
                found = self._function(view.view(np.recarray), request.view(np.recarray)[0])
        except Exception as error:
            raise SmetricError(f"observation {self.name} failed: {type(error).__name__}: {error}") from error
        shape: tuple[int, ...] = getattr(found, "shape", ())
        if len(shape) != 2 or shape[0] != 2 or found.dtype != np.float32:
            kind = f"{found.dtype} of shape {shape}" if shape else type(found).__name__
            raise SmetricError(f"observation {self.name} returned a {kind} for 2 instances, allowed: float32 of (2, F)")
        self.width = int(shape[1])
        try:
            self._one, self._many = _compiled(self._function)
            self._one(view, request[0])
            self.compiled = True
        except (NumbaError, TypeError):  # TypeError: an object that can be called, but is no function
            self.compiled = False

    def space(self, rows: int) -> spaces.Box:
        """Box of shape (rows, F), float32, with the largest finite bounds."""
        most = np.finfo(np.float32).max
        return spaces.Box(-most, most, (rows, self.width), np.float32)

    def observe(self, cluster: Cluster, rows: np.ndarray, out: np.ndarray) -> None:
        """Write the decision at hand of one cluster.

        Args:
            cluster: where a request waits.
            rows: [rows] instance of each row, -1 for none.
            out: [rows, F] float32.
        """
        if self.compiled:
            values = self._one(cluster.state.seen, cluster.state.request_view[0])
        else:
            values = self._function(cluster.view, cluster.request)
        out[...] = np.where(rows[:, None] >= 0, values[rows], np.float32(0))

    def observe_many(self, clusters: list[Cluster], tallies: Table, waiting: np.ndarray, out: np.ndarray) -> None:
        """Write the decisions of all clusters that wait, and zeros for the others.

        Args:
            clusters: of the fleet.
            tallies: table of the `Tally` of each.
            waiting: [clusters] bool.
            out: [clusters, rows, F] float32.
        """
        if self.compiled:
            self._many(tallies.like, tallies.addresses, tallies.lengths, waiting, out)
            return
        for c, cluster in enumerate(clusters):
            out[c] = 0
            if waiting[c]:
                self.observe(cluster, tallies.kept[c].rows, out[c])


@lru_cache(maxsize=16)  # for the next environment with the same function
def _compiled(function: Callable) -> tuple[Any, Any]:
    """The function for one view, and for all clusters of a fleet (compiled when they are first called)."""
    one = numba.njit(function, error_model="numpy")

    @numba.njit(nogil=True, error_model="numpy")
    def many(like, addresses, lengths, waiting, out):
        for c in range(len(waiting)):
            out[c] = 0
            if waiting[c]:
                t = at(like, addresses[c], lengths[c])
                values = one(t.seen, t.asks[0])
                for row in range(len(t.rows)):
                    if t.rows[row] >= 0:
                        out[c, row] = values[t.rows[row]]

    return one, many
