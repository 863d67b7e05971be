"""JSON lines with block ids, read in batches of whole lines."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from smetric_gym.workload.readers.blockids import Lookup, lift_ids
from smetric_gym.workload.readers.detect import BROKEN, Document
from smetric_gym.workload.readers.fields import BadRow, Faults

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
                faults.bad(f"{document.name} line {line} or later", f"cannot be unpacked ({fault})")
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


def read_objects(documents: Iterator[Document], faults: Faults) -> Iterator[list[tuple[str, dict, Lookup]]]:
    """Batches of rows: where each stands, its fields, and what gives its ``hash_ids`` as int64 ids."""
    for name, lines, first in read_lines(documents, faults):
        text, lookup = lift_ids(b"\n".join(lines), lines=True)
        batch = []
        for number, line in enumerate(text.split(b"\n"), first):
            if not line.strip():
                continue
            where = f"{name} line {number}"
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as fault:
                faults.bad(where, BadRow("the line", f"malformed or truncated JSON ({fault})", "one JSON object"))
                continue
            if not isinstance(row, dict):
                faults.bad(where, BadRow("the line", type(row).__name__, "one JSON object"))
                continue
            batch.append((where, row, lookup))
        yield batch
