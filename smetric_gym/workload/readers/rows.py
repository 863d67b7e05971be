"""The table that every reader fills, in file order, before anything is sorted or linked."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np

from smetric_gym.workload.readers.blockids import mix
from smetric_gym.workload.readers.fields import LONGEST_S, BadRow, Words
from smetric_gym.workload.readers.prefixes import PrefixTree

UNKNOWN = -1


@dataclass
class Rows:
    """Requests in file order.

    Attributes:
        block: tokens per block id.
        tree: the prefix tree of all ids, or None for formats without ids.
        sessions: who belongs together. "declared": the column ``session`` says it, and the turns follow
            the time; "linked": so do the columns ``parent`` and ``session``; "chained": only ``parent`` says
            it; "inferred": nothing does, so that prefixes have to.
        name: of the workload.
    """

    block: int
    tree: PrefixTree | None
    sessions: str
    name: str = "trace"
    time: array = field(default_factory=lambda: array("d"))  # s; nan: to be made up, after the row before
    gap: array = field(default_factory=lambda: array("d"))  # s after the end of the parent; nan: unknown
    session: array = field(default_factory=lambda: array("q"))
    thread: array = field(default_factory=lambda: array("q"))  # one conversation; a sub-agent has its own
    parent: array = field(default_factory=lambda: array("q"))  # row
    prompt: array = field(default_factory=lambda: array("q"))
    output: array = field(default_factory=lambda: array("q"))
    system: array = field(default_factory=lambda: array("q"))
    trigger: array = field(default_factory=lambda: array("b"))
    carried: array = field(default_factory=lambda: array("q"))  # messages before the thread
    earliest: float = np.inf
    latest: float = -np.inf
    leaf: list[np.ndarray] = field(default_factory=list)
    stem: list[np.ndarray] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.time)

    def check_time(self, field: str, time: float) -> None:
        """Raise a BadRow for a time (s) that would make the trace longer than ``LONGEST_S``."""
        earliest, latest = min(self.earliest, time), max(self.latest, time)
        if latest - earliest > LONGEST_S:
            other = earliest if time == latest else latest
            raise BadRow(field, Words(f"{time:g} s"), f"at most {LONGEST_S:g} s from the {other:g} s of another row")
        self.earliest, self.latest = earliest, latest

    def add(
        self,
        time: float,
        prompt: int,
        output: int,
        gap: float = np.nan,
        session: int = UNKNOWN,
        thread: int = UNKNOWN,
        parent: int = UNKNOWN,
        system: int = UNKNOWN,
        trigger: int = 0,
        carried: int = 0,
    ) -> int:
        """Append one request and return its row."""
        self.time.append(time)
        self.prompt.append(prompt)
        self.output.append(output)
        self.gap.append(gap)
        self.session.append(session)
        self.thread.append(session if thread == UNKNOWN else thread)
        self.parent.append(parent)
        self.system.append(system)
        self.trigger.append(trigger)
        self.carried.append(carried)
        return len(self.time) - 1

    def add_ids(self, sequences: list[np.ndarray], partial_by_size: bool = True) -> None:
        """Insert the ids of the rows added last, one sequence per row.

        A last id over fewer tokens than a block is another block than the same id over more tokens, unless
        ``partial_by_size`` is False: for ids that hash the block's own content, padding and all.
        """
        n = len(sequences)
        if n == 0:
            return
        counts = np.fromiter((len(s) for s in sequences), dtype=np.int64, count=n)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        ids = np.concatenate(sequences) if offsets[-1] else np.empty(0, np.int64)
        prompt = np.array(self.prompt[len(self) - n :], dtype=np.int64)
        full = np.minimum(prompt // self.block, counts)
        if partial_by_size:
            last = offsets[1:][counts > full] - 1
            ids[last] = mix(ids[last], (prompt % self.block)[counts > full])
        assert self.tree is not None  # formats without ids have no sequences
        leaf, stem = self.tree.add(ids, offsets, full)
        self.leaf.append(leaf)
        self.stem.append(stem)

    def repeats(self) -> int:
        """Rows that are equal to an earlier one in time, lengths, session and content."""
        names = ["time", "prompt", "output", "session", *(["leaf"] if self.tree else [])]
        table = np.stack([self.column(name, float) for name in names], axis=1)
        table = table[~np.isnan(table[:, 0])]
        return len(table) - len(np.unique(table, axis=0)) if len(table) else 0

    def column(self, name: str, dtype: type = np.int64) -> np.ndarray:
        """One column as an array (``leaf`` and ``stem``: the tree's nodes)."""
        values = getattr(self, name)
        if name in ("leaf", "stem"):
            return np.concatenate(values) if values else np.zeros(len(self), dtype=np.int32)
        return np.array(values, dtype=dtype)
