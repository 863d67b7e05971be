"""Which prompts begin alike: a path-compressed tree over block ids that grows request by request.

A run of blocks is kept once, however many requests repeat it, so the memory is that of the distinct
content: a Weka session of 150 turns costs what its longest prompt costs. The tree does not depend on the
order of insertion, so requests can be added as they are read and put in order of arrival later. Ids are
matched from the head, which chains them: an id that follows another prefix is another block, as it must be
for ids that hash one block only.
"""

from __future__ import annotations

import numba
import numpy as np

_NODE = np.dtype(
    [
        ("parent", np.int32),
        ("start", np.int32),  # blocks from the head
        ("end", np.int32),
        ("pool", np.int64),  # where the ids of blocks start..end stand
    ]
)


class PrefixTree:
    """The tree; node 0 is the empty root, and a request is the node where its ids end."""

    def __init__(self) -> None:
        self._nodes = np.zeros(1024, dtype=_NODE)
        self._nodes[0]["parent"] = -1
        self._pool = np.empty(4096, dtype=np.int64)
        self._table = np.full(4096, -1, dtype=np.int32)
        self._size = np.array([1, 0], dtype=np.int64)  # nodes and ids in use

    def add(self, ids: np.ndarray, offsets: np.ndarray, full: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Insert sequences of ids.

        Args:
            ids: int64, all sequences one after another.
            offsets: int64 ``(n + 1,)``, where each begins and ends in ``ids``.
            full: int64 ``(n,)``, how many ids of each are of full blocks (a last partial block is not).

        Returns:
            int32 ``(n,)`` twice: the node where each sequence ends, and the node where its full blocks end.
            Later insertions may split nodes, but a node keeps its end.
        """
        n = len(offsets) - 1
        self._nodes = _grown(self._nodes, int(self._size[0]) + 4 * n)
        self._pool = _grown(self._pool, int(self._size[1]) + len(ids))
        if len(self._table) < 2 * len(self._nodes):
            self._table = np.full(4 * len(self._nodes), -1, dtype=np.int32)
            _rehash(self._nodes, self._pool, self._table, self._size)
        leaf, stem = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
        _insert_all(ids, offsets, full, self._nodes, self._pool, self._table, self._size, leaf, stem)
        return leaf, stem

    @property
    def parent(self) -> np.ndarray:
        """int32, the parent of each node, -1 for the root."""
        return np.ascontiguousarray(self._nodes["parent"][: self._size[0]])

    @property
    def depth(self) -> np.ndarray:
        """int32, blocks from the head to the end of each node."""
        return np.ascontiguousarray(self._nodes["end"][: self._size[0]])

    @property
    def blocks(self) -> int:
        """Distinct blocks held."""
        return int(self._size[1])


def _grown(array: np.ndarray, need: int) -> np.ndarray:
    if need <= len(array):
        return array
    larger = np.zeros(max(need, len(array) * 3 // 2), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@numba.njit(cache=True)
def _slot(node, first, nodes, pool, table):
    """The slot of the child of node that begins with an id, or the empty slot where it belongs."""
    x = np.uint64(first) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(node) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    at = np.int64((x >> np.uint64(32)) % np.uint64(len(table)))
    while table[at] >= 0:
        child = table[at]
        if nodes[child].parent == node and pool[nodes[child].pool] == first:
            break
        at = at + 1 if at + 1 < len(table) else 0
    return at


@numba.njit(cache=True)
def _rehash(nodes, pool, table, size):
    for node in range(1, size[0]):
        table[_slot(nodes[node].parent, pool[nodes[node].pool], nodes, pool, table)] = node


@numba.njit(cache=True)
def _insert(ids, first, count, at, nodes, pool, table, size):
    """Go on from node `at` with ids[first + end of at : first + count]; return the node where they end."""
    while nodes[at].end < count:
        depth = nodes[at].end
        slot = _slot(at, ids[first + depth], nodes, pool, table)
        child = table[slot]
        if child < 0:
            new = size[0]
            nodes[new].parent, nodes[new].start, nodes[new].end = at, depth, count
            nodes[new].pool = size[1]
            pool[size[1] : size[1] + count - depth] = ids[first + depth : first + count]
            size[0] += 1
            size[1] += count - depth
            table[slot] = new
            return new
        run, room = nodes[child].pool, min(nodes[child].end, count) - depth
        same = 1
        while same < room and pool[run + same] == ids[first + depth + same]:
            same += 1
        if depth + same == nodes[child].end:
            at = child
            continue
        # Split: a new node takes the head, the old one keeps its id and its end.
        head = size[0]
        size[0] += 1
        nodes[head].parent, nodes[head].start, nodes[head].end = at, depth, depth + same
        nodes[head].pool = run
        table[slot] = head
        nodes[child].parent, nodes[child].start, nodes[child].pool = head, depth + same, run + same
        table[_slot(head, pool[run + same], nodes, pool, table)] = child
        at = head
    return at


@numba.njit(cache=True)
def _insert_all(ids, offsets, full, nodes, pool, table, size, leaf, stem):
    for r in range(len(offsets) - 1):
        stem[r] = _insert(ids, offsets[r], full[r], 0, nodes, pool, table, size)
        leaf[r] = _insert(ids, offsets[r], offsets[r + 1] - offsets[r], stem[r], nodes, pool, table, size)
