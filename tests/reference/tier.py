"""The global tier (RULES.md section 6): chunks of tree nodes, in an LRU order of nodes."""

import math
from collections import OrderedDict


class GlobalTier:
    """One store of chunks for the whole cluster.

    A path is a list of ``(node, first, end)`` from the root: its chunks are ``first .. end - 1``.
    Of a node a leading part is resident.

    Args:
        capacity: chunks, or ``math.inf``.
    """

    def __init__(self, capacity):
        self.capacity = capacity
        self.chunks = OrderedDict()  # node -> its resident chunks, least recent first
        self.used = 0

    def found(self, path, limit):
        """Leading chunks of ``path`` that are resident, at most ``limit`` of them."""
        found = 0
        for node, first, end in path:
            resident = self.chunks.get(node, 0)
            found += resident
            if resident < end - first:
                break
        return min(found, limit)

    def touch(self, path, limit):
        """Nodes with a chunk among the first ``limit`` become the most recent, the root last."""
        for node, first, _end in reversed(path):
            if first < limit:
                self.chunks.move_to_end(node)

    def write(self, path, limit):
        """Add what is missing of the first ``limit`` chunks, touch them, and evict what is too much."""
        for node, first, end in path:
            resident = self.chunks.get(node, 0)
            wanted = min(end, limit) - first
            if wanted > resident:
                self.chunks[node] = wanted
                self.used += wanted - resident
        self.touch(path, limit)
        self.evict()

    def evict(self):
        """While there are too many chunks, the least recent node loses its last one."""
        while self.used > self.capacity:
            node = next(iter(self.chunks))
            self.chunks[node] -= 1
            self.used -= 1
            if self.chunks[node] == 0:
                del self.chunks[node]

    def check(self):
        """Every invariant of the tier."""
        assert self.used == sum(self.chunks.values()) <= self.capacity
        assert all(n > 0 for n in self.chunks.values())


def chunk_capacity(config, blocks):
    """Capacity in chunks of a tier of ``config.global_tier`` times ``blocks`` KV blocks."""
    if math.isinf(config.global_tier):
        return math.inf
    return math.floor(config.global_tier * sum(blocks) * config.block_tokens / config.chunk_tokens)
