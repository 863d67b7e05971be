"""The KV blocks of one instance (RULES.md section 4), as vLLM's ``BlockPool`` keeps them."""

from collections import OrderedDict

from reference import eviction


class Block:
    """One physical block: its content (None: private or empty), and how many requests use it."""

    def __init__(self):
        self.key = None
        self.uses = 0
        self.admissions = 0  # requests that have used the content so far


class BlockPool:
    """A fixed number of blocks, each free and empty, idle (in the LRU queue), or in use.

    Args:
        capacity: blocks, all of them usable.
        evict: the idle block whose content goes, see ``eviction.policy``; None for LRU.
    """

    def __init__(self, capacity, evict=None):
        self.capacity, self.evict = capacity, evict or eviction.policy("lru", ())
        self.empty = [Block() for _ in range(capacity)]
        self.cached = {}  # content key -> the one block that has it
        self.idle = OrderedDict()  # Block -> None, least recent first
        self.used = set()

    @property
    def free(self):
        """Blocks that can be taken."""
        return len(self.empty) + len(self.idle)

    def hit(self, keys):
        """Blocks of the longest leading run of ``keys`` that is resident."""
        blocks = []
        for key in keys:
            if key not in self.cached:
                break
            blocks.append(self.cached[key])
        return blocks

    def use(self, blocks):
        """A request uses blocks that it hit."""
        for block in blocks:
            if block.uses == 0:
                del self.idle[block]
                self.used.add(block)
            block.uses += 1
            block.admissions += 1

    def take(self, n):
        """``n`` new blocks without content: free empty ones, then idle ones."""
        blocks = []
        for _ in range(n):
            if self.empty:
                block = self.empty.pop()
            else:
                block = self.evict(self.idle)
                del self.idle[block]
                del self.cached[block.key]
                block.key = None
            block.uses = 1
            self.used.add(block)
            blocks.append(block)
        return blocks

    def fill(self, block, key):
        """A full block gets its content, unless that is on the instance already: then it stays private."""
        assert block.key is None and block.uses == 1
        if key not in self.cached:
            block.key, block.admissions = key, 1
            self.cached[key] = block

    def release(self, blocks):
        """A request gives up its blocks, the last one first."""
        for block in reversed(blocks):
            block.uses -= 1
            if block.uses:
                continue
            self.used.remove(block)
            if block.key is None:
                self.empty.append(block)
            else:
                self.idle[block] = None

    def check(self, holders):
        """Every invariant of the pool.

        Args:
            holders: the lists of blocks of everyone who uses blocks of this pool.
        """
        empty, idle = set(self.empty), set(self.idle)
        assert len(empty) == len(self.empty), "an empty block is listed twice"
        assert len(empty | idle | self.used) == len(empty) + len(idle) + len(self.used) == self.capacity
        assert all(b.uses == 0 and b.key is None for b in empty)
        assert all(b.uses == 0 and b.key is not None for b in idle)
        assert {b for b in idle | self.used if b.key is not None} == set(self.cached.values())
        assert all(self.cached[key].key == key for key in self.cached)
        uses = dict.fromkeys(self.used, 0)
        for blocks in holders:
            assert len(set(blocks)) == len(blocks), "a request holds a block twice"
            for block in blocks:
                uses[block] += 1
        assert all(block.uses == n > 0 for block, n in uses.items())
