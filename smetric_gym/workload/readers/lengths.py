"""CSV files with lengths only: Azure (``TIMESTAMP,ContextTokens,GeneratedTokens``) and BurstGPT.

Azure: AzurePublicDataset 2023 (7 digits of a second's fraction) and 2024 (an offset from UTC behind the
time). BurstGPT: ``Timestamp`` in s, ``Request tokens``, ``Response tokens``, in some files ``Session ID``;
a response of 0 tokens is a failed request. Nothing says what prompts have in common, so nothing is shared.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.workload.readers.detect import Document
from smetric_gym.workload.readers.fields import BadRow, Faults, Words, seconds, tokens
from smetric_gym.workload.readers.jsonl import read_lines
from smetric_gym.workload.readers.rows import Rows

_DATE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,9})?", re.ASCII)
_COLUMNS = {
    "azure": ("timestamp", "contexttokens", "generatedtokens"),
    "burstgpt": ("timestamp", "request tokens", "response tokens"),
}


def read(documents: Iterator[Document], name: str, faults: Faults, kind: str) -> Rows:
    """Read all rows of ``kind`` "azure" or "burstgpt"; a header without the columns is always an error."""
    rows = Rows(block=1, tree=None, sessions="inferred", name=name)
    sessions: dict[str, int] = {}
    header: list[str] = []
    failed = "failed requests (0 response tokens), output raised to 1"
    zero = "rows with zero output, raised to 1" if kind == "azure" else failed
    for document, lines, first in read_lines(documents, faults):
        if first == 1:
            header = _header(document, lines.pop(0), kind)
            first = 2
        text = (line.decode("utf-8", "replace") for line in lines)
        for number, values in enumerate(csv.reader(text), first):
            if not values:
                continue
            try:
                if len(values) != len(header):
                    raise BadRow(
                        "the row", Words(f"{len(values)} fields"), f"{len(header)} fields, as in the header"
                    )
                row = {key: _number(value) for key, value in zip(header, values, strict=True)}
                time, prompt, output = _COLUMNS[kind]
                at = _date(values[header.index(time)]) if kind == "azure" else seconds(row, time, span=False)
                lengths = tokens(row, prompt, 1), tokens(row, output, 0)
                rows.check_time(time, at)
            except BadRow as fault:
                faults.bad(f"{document} line {number}", fault)
                continue
            label = values[header.index("session id")] if "session id" in header else None
            session = -1 if label is None else sessions.setdefault(label or f"row {number}", len(sessions))
            faults.count(zero, lengths[1] == 0)
            rows.add(at, lengths[0], max(lengths[1], 1), session=session)
    faults.count("repeated rows, kept", rows.repeats())
    if sessions:
        rows.sessions = "declared"
    return rows


def _header(document: str, line: bytes, kind: str) -> list[str]:
    header = [x.strip().strip('"').lower() for x in line.decode("utf-8-sig", "replace").strip().split(",")]
    missing = [column for column in _COLUMNS[kind] if column not in header]
    if missing:
        raise SmetricError(
            f"{document} line 1: no column {missing[0]!r} in {header}, allowed: {_COLUMNS[kind]}"
        )
    return header


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _date(text: str) -> float:
    """Seconds since 1970 of an ISO date and time, which is UTC in all files."""
    plain = text.strip().removesuffix("Z").removesuffix("+00:00")
    try:
        if not _DATE.fullmatch(plain):
            raise ValueError
        return int(np.datetime64(plain, "ns").astype(np.int64)) / 1e9
    except ValueError:
        raise BadRow("TIMESTAMP", text, "a date and time like 2023-11-16 18:17:03.9799600") from None
