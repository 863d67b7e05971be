"""Cut requests to a window of time without losing what they share."""

from __future__ import annotations

import numba
import numpy as np

from smetric_gym.workload.tree import build_tree


def cut_window(requests: np.ndarray, start_s: float, end_s: float) -> np.ndarray:
    """The requests that arrive in ``[start_s, end_s)``, as if nothing had been sent before.

    ``base`` and ``shared`` become those of the best *kept* request, also where the recorded base is dropped;
    ``parent`` becomes -1 where the parent is dropped. Turns and messages keep their numbers: a session that
    began earlier goes on. Sessions are renumbered densely in order of appearance; ``arrival`` counts from
    ``start_s``.

    Args:
        requests: dtype ``trace.REQUEST``, sorted by arrival, ``base`` and ``parent`` earlier than the
            request.
        start_s: s, first moment of the window.
        end_s: s, first moment after it.
    """
    keep = (requests["arrival"] >= start_s) & (requests["arrival"] < end_s)
    nodes = build_tree(requests)
    base, shared = _best_bases(
        requests["node"].copy(), requests["prompt"].copy(), keep, nodes["parent"].copy(), nodes["end"].copy()
    )
    place = np.where(keep, np.cumsum(keep) - 1, -1)
    place = np.append(place, -1)  # place[-1] is -1
    kept = requests[keep]
    kept["base"] = place[base[keep]]
    kept["shared"] = shared[keep]
    kept["parent"] = place[kept["parent"]]
    kept["gap"] = np.where(kept["parent"] >= 0, kept["gap"], 0.0)
    kept["arrival"] -= start_s
    _, appearance, session = np.unique(kept["session"], return_index=True, return_inverse=True)
    rank = np.empty(len(appearance), dtype=np.int32)
    rank[np.argsort(appearance)] = np.arange(len(appearance), dtype=np.int32)
    kept["session"] = rank[session]
    return kept


@numba.njit(cache=True)
def _best_bases(leaf, prompt, keep, parent, end):
    """For each kept request the kept earlier request that shares most, and the tokens they share."""
    base = np.full(len(leaf), -1, np.int32)
    shared = np.zeros(len(leaf), np.int32)
    first = np.full(len(parent), -1, np.int32)  # the first kept request that runs through each node
    for r in range(len(leaf)):
        if not keep[r]:
            continue
        at = leaf[r]
        while at > 0 and first[at] < 0:
            first[at] = r
            at = parent[at]
        if at > 0:
            base[r] = first[at]
            shared[r] = min(end[at], prompt[r])
    return base, shared
