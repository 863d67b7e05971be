"""Readers of public traces: `read_trace` opens what it is given, and says what it met in ``Trace.report``."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.workload.readers import bailian, lengths, mooncake, weka
from smetric_gym.workload.readers.assemble import Limits, assemble
from smetric_gym.workload.readers.detect import FORMATS, detect, open_documents
from smetric_gym.workload.readers.fields import Faults
from smetric_gym.workload.trace import Trace


def read_trace(
    path: str | Path,
    *,
    format: str = "auto",
    block_tokens: int | None = None,
    seed: int = 0,
    limit_requests: int | None = None,
    session_rate_per_s: float | None = None,
    max_context: int | None = None,
    max_gap_s: float | None = None,
    on_bad: str = "error",
    assume_append: bool = True,
) -> Trace:
    """Read a trace of real requests.

    Args:
        path: a file, a folder, or a .gz, .xz, .tar.gz or .tar.xz of either.
        format: "mooncake", "weka", "bailian", "azure", "burstgpt", or "auto" to tell it from the content.
        block_tokens: tokens per block id; None takes the format's (Mooncake: the size that fits the rows).
        seed: for what has to be drawn: the spread of rounded times, the starts of Weka's sessions.
        limit_requests: keep the first so many requests in order of arrival.
        session_rate_per_s: starts of Weka's sessions, which have no absolute time; other formats have times.
        max_context: a conversation ends before its first prompt of more tokens than this.
        max_gap_s: recorded gaps are capped at this; Weka's times move forward with them.
        on_bad: "error" raises at the first bad row, "skip" counts bad rows and goes on.
        assume_append: let an append-only follow-up begin with its parent's output, which ids do not cover.

    Returns:
        The trace; its ``report`` counts everything that was repaired, skipped, assumed or made up.

    Raises:
        SmetricError: for bad options, and for bad rows with the file, the line or request, what was found
            and what is allowed.
    """
    _check("block_tokens", block_tokens, whole=True)
    _check("limit_requests", limit_requests, whole=True)
    _check("session_rate_per_s", session_rate_per_s)
    _check("max_context", max_context, whole=True)
    _check("max_gap_s", max_gap_s, zero=True)
    if format not in ("auto", *FORMATS):
        raise SmetricError(f"format is {format!r}, allowed: 'auto', {', '.join(map(repr, FORMATS))}")
    if type(seed) is not int or seed < 0:
        raise SmetricError(f"seed is {seed!r}, allowed: a whole number, 0 or more")
    faults = Faults(on_bad)
    rng = np.random.default_rng(seed)
    name = Path(path).name.split(".")[0]
    documents = open_documents(path, faults)
    if format == "auto":
        format, documents = detect(documents, path)
    if session_rate_per_s is not None and format != "weka":
        raise SmetricError(
            f"session_rate_per_s is {session_rate_per_s:g}, allowed: None, as {format} has times"
        )
    if format == "mooncake":
        rows = mooncake.read(documents, name, faults, block_tokens, rng)
    elif format == "weka":
        rows = weka.read(documents, name, faults, block_tokens, rng, session_rate_per_s, max_gap_s)
    elif format == "bailian":
        rows = bailian.read(documents, name, faults, block_tokens)
    else:
        rows = lengths.read(documents, name, faults, format)
    return assemble(rows, Limits(limit_requests, max_context, max_gap_s, assume_append), faults)


def _check(name: str, value: float | None, whole: bool = False, zero: bool = False) -> None:
    allowed = ("a whole number" if whole else "a finite number") + (", 0 or more" if zero else " above 0")
    if value is None:
        return
    kinds = (int,) if whole else (int, float)
    if type(value) not in kinds or not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise SmetricError(f"{name} is {value!r}, allowed: None or {allowed}")


__all__ = ["FORMATS", "read_trace"]
