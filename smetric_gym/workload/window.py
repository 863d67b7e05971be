"""Cut requests to a window of time without losing what they share."""

from __future__ import annotations

import numpy as np

from smetric_gym.workload.tree import best_bases, build_tree


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
    place = np.where(keep, np.cumsum(keep) - 1, -1)
    place = np.append(place, -1)  # place[-1] is -1
    kept = requests[keep]
    kept["base"], kept["shared"] = best_bases(kept, nodes)
    kept["parent"] = place[kept["parent"]]
    kept["gap"] = np.where(kept["parent"] >= 0, kept["gap"], 0.0)
    kept["arrival"] -= start_s
    _, appearance, session = np.unique(kept["session"], return_index=True, return_inverse=True)
    rank = np.empty(len(appearance), dtype=np.int32)
    rank[np.argsort(appearance)] = np.arange(len(appearance), dtype=np.int32)
    kept["session"] = rank[session]
    return kept
