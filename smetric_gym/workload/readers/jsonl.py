"""JSON lines with block ids, read in batches of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from smetric_gym.workload.readers.blockids import Lookup, lift_ids
from smetric_gym.workload.readers.detect import BROKEN, Document
from smetric_gym.workload.readers.fields import BadRow, Faults, Words

_BATCH = 1 << 22


def read_lines(documents: Iterator[Document], faults: Faults) -> Iterator[tuple[str, list[bytes], int]]:
    """Batches of whole lines: document name, lines, number of the first line.

    A damaged or truncated archive is a bad row at its end.
    """
    for document in documents:
        rest, line = b"", 1
        while True:
            try:
                piece = document.stream.read(_BATCH)
            except BROKEN as fault:
                faults.bad(
                    f"{document.name} line {line} or later",
                    f"cannot be unpacked ({fault}), allowed: a whole archive",
                )
                piece = b""
            rest += piece
            cut = rest.rfind(b"\n") + 1 if piece else len(rest)
            if cut:
                lines = rest[:cut].split(b"\n")
                if lines[-1] == b"":
                    lines.pop()
                yield document.name, lines, line
                line += len(lines)
                rest = rest[cut:]
            if not piece:
                break


@dataclass
class Batch:
    """Rows of one document, and what gives their ``hash_ids`` as int64 ids."""

    name: str
    rows: list[tuple[int, dict]]
    lookup: Lookup

    def where(self, number: int) -> str:
        """Where a row stands, for messages."""
        return f"{self.name} line {number}"


def read_objects(documents: Iterator[Document], faults: Faults) -> Iterator[Batch]:
    """Batches of rows with the number of their line."""
    for name, lines, first in read_lines(documents, faults):
        text, lookup = lift_ids(b"\n".join(lines), lines=True)
        batch = Batch(name, [], lookup)
        for number, line in enumerate(text.split(b"\n"), first):
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as fault:
                if not line.strip():
                    continue
                words = Words(f"malformed or truncated JSON ({fault.msg})")
                faults.bad(batch.where(number), BadRow("the line", words, "one JSON object"))
                continue
            if not isinstance(row, dict):
                kind = Words(f"of type {type(row).__name__}")
                faults.bad(batch.where(number), BadRow("the line", kind, "one JSON object"))
                continue
            batch.rows.append((number, row))
        yield batch
