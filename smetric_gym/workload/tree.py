"""The path-compressed prefix tree, built once from "shares its first k tokens with request p"."""

from __future__ import annotations

import numba
import numpy as np

NODE = np.dtype(
    [
        ("parent", np.int32),  # -1 for the root
        ("start", np.int32),  # tokens from the head of the prompt, where this node begins
        ("end", np.int32),  # and ends
        ("depth", np.int32),  # nodes from the root, which has 0
    ]
)


def build_tree(requests: np.ndarray) -> np.ndarray:
    """Build the tree of all prompts and outputs, and write each request's leaf into ``requests["node"]``.

    Args:
        requests: dtype ``trace.REQUEST`` with ``prompt``, ``output``, ``base`` and ``shared`` filled in.

    Returns:
        Structured array of dtype ``NODE``; parents come before their children only by ``depth``, not by index.
    """
    nodes = np.zeros(2 * len(requests) + 1, dtype=NODE)
    length = requests["prompt"].astype(np.int64) + requests["output"]
    leaf = np.zeros(len(requests), dtype=np.int32)
    count = _insert_all(
        np.ascontiguousarray(requests["base"]), np.ascontiguousarray(requests["shared"]), length, leaf, nodes
    )
    requests["node"] = leaf
    nodes = nodes[:count].copy()
    _fill_depth(nodes)
    return nodes


def best_bases(requests: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each request the earliest request before it that shares most, and how much, when others are gone.

    Args:
        requests: the requests that remain, in order of arrival, with ``node`` in the tree of all.
        nodes: dtype ``NODE``, the tree of all.

    Returns:
        (base, shared): int32 positions in ``requests``, -1 where nothing is shared, and tokens.
    """
    leaf, prompt = np.ascontiguousarray(requests["node"]), np.ascontiguousarray(requests["prompt"])
    return _longest_shared(leaf, prompt, np.ascontiguousarray(nodes["parent"]), np.ascontiguousarray(nodes["end"]))


@numba.njit(cache=True)
def _insert_all(base, shared, length, leaf, nodes):
    nodes[0].parent = -1
    count = 1
    for r in range(len(base)):
        at = 0
        if base[r] >= 0 and shared[r] > 0:
            at = leaf[base[r]]
            while nodes[at].start >= shared[r]:
                at = nodes[at].parent
            if nodes[at].end > shared[r]:
                # Split: the new node takes the head, the old one keeps its id, so leaves stay valid.
                nodes[count].parent = nodes[at].parent
                nodes[count].start = nodes[at].start
                nodes[count].end = shared[r]
                nodes[at].parent = count
                nodes[at].start = shared[r]
                at = count
                count += 1
        if length[r] > nodes[at].end:
            nodes[count].parent = at
            nodes[count].start = nodes[at].end
            nodes[count].end = length[r]
            at = count
            count += 1
        leaf[r] = at
    return count


@numba.njit(cache=True)
def _fill_depth(nodes):
    for n in range(len(nodes)):
        nodes[n].depth = -1
    nodes[0].depth = 0
    for n in range(len(nodes)):
        steps = 0
        at = n
        while nodes[at].depth < 0:
            steps += 1
            at = nodes[at].parent
        depth = nodes[at].depth + steps
        at = n
        while nodes[at].depth < 0:
            nodes[at].depth = depth
            depth -= 1
            at = nodes[at].parent


@numba.njit(cache=True)
def _longest_shared(leaf, prompt, up, end):
    first = np.full(len(up), -1, dtype=np.int32)  # the first request that runs through each node
    base = np.full(len(leaf), -1, dtype=np.int32)
    shared = np.zeros(len(leaf), dtype=np.int32)
    for r in range(len(leaf)):
        at = leaf[r]
        while at > 0 and first[at] < 0:
            first[at] = r
            at = up[at]
        if at > 0:
            base[r] = first[at]
            shared[r] = min(end[at], prompt[r])
    return base, shared
