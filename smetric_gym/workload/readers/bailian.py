"""Bailian JSON lines with ``chat_id``, ``parent_chat_id`` and ``timestamp`` (s).

Format: alibaba-edu/qwen-bailian-usagetraces-anon.
Ids are of 16 tokens, ``ceil(input_length / 16)`` of them, and each hashes its own block only, so that they
are matched from the head. The last one may hold padding: it is shared where another prompt has the same id
at the same place. A parent outside the file makes its child the first turn of a session that began before.
``time_to_parent_chat`` (s from the parent's end, in private variants) is the recorded gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from smetric_gym.workload.readers.detect import Document
from smetric_gym.workload.readers.fields import MISSING, BadRow, Faults, block_count, seconds, tokens
from smetric_gym.workload.readers.jsonl import read_objects
from smetric_gym.workload.readers.prefixes import PrefixTree
from smetric_gym.workload.readers.rows import Rows

BLOCK_TOKENS = 16
_ROOT = -1
_MOST_TURNS = 10**6


def read(documents: Iterator[Document], name: str, faults: Faults, block_tokens: int | None) -> Rows:
    """Read all rows."""
    rows = Rows(block=block_tokens or BLOCK_TOKENS, tree=PrefixTree(), sessions="chained", name=name)
    chats: dict[int | str, int] = {}
    above: list[int | str] = []
    skipped: dict[int | str, int | str] = {}
    for batch in read_objects(documents, faults):
        sequences = []
        for number, row in batch.rows:
            try:
                chat, parent = _chat(row, "chat_id"), _chat(row, "parent_chat_id")
                if chat in chats:
                    raise BadRow("chat_id", chat, "a number that no earlier row has")
                sequences.append(_add(rows, row, batch.lookup, parent, faults))
                chats[chat] = len(rows) - 1
                above.append(parent)
            except BadRow as fault:
                faults.bad(batch.where(number), fault)
                lost: Any = row.get("chat_id")
                its_parent: Any = row.get("parent_chat_id")
                if type(lost) in (int, str) and lost not in chats:
                    skipped[lost] = its_parent if type(its_parent) in (int, str) else _ROOT
        rows.add_ids(sequences, partial_by_size=False)
    _link(rows, chats, above, skipped, faults)
    return rows


def _chat(row: dict, key: str) -> int | str:
    value: Any = row.get(key)
    if type(value) not in (int, str):
        raise BadRow(key, MISSING if value is None else value, "a chat's number (-1 as parent: none)")
    return value


def _add(rows: Rows, row: dict, lookup, parent, faults: Faults) -> np.ndarray:
    prompt, output = tokens(row, "input_length", 1), tokens(row, "output_length", 0)
    if "hash_ids" not in row:
        raise BadRow("hash_ids", MISSING, "a list of block ids")
    ids = lookup(row["hash_ids"])
    block_count(len(ids), prompt, rows.block, ceil=True)
    gap = np.nan
    if parent != _ROOT and row.get("time_to_parent_chat") is not None:
        gap = max(0.0, seconds(row, "time_to_parent_chat"))
    time = seconds(row, "timestamp", low=0, span=False)
    rows.check_time("timestamp", time)
    turn = row.get("turn")
    carried = 2 * (turn - 1) if type(turn) is int and 1 <= turn <= _MOST_TURNS else 0
    faults.count("rows with zero output, raised to 1", output == 0)
    rows.add(time, prompt, max(output, 1), gap=gap, carried=carried)
    return ids


def _link(rows: Rows, chats: dict, above: list, skipped: dict, faults: Faults) -> None:
    """Fill in parents: a skipped chat gives way to its own parent, one outside the file to none."""
    for r, parent in enumerate(above):
        passed = set()
        while parent in skipped and parent not in passed:
            passed.add(parent)
            parent = skipped[parent]
        if parent in chats:
            rows.parent[r] = chats[parent]
        elif parent != _ROOT:
            faults.count("first turns of truncated sessions (parent outside the file)")
            rows.carried[r] = max(rows.carried[r], 1)
        else:
            rows.carried[r] = 0
