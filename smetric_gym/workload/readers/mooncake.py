"""Mooncake JSON lines: ``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids``.

Format: kvcache-ai/Mooncake FAST25-release; aiperf and Dynamo add ``session_id`` and ``delay`` or
``delay_ms`` (ms after the previous turn ended). A turn with a delay may lack its time. Times in a string
are nanoseconds (GMI). Turns of a session are in the order of time; turns without a time follow the row
before them in the file.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import numpy as np

from smetric_gym.workload.readers.blockids import ids_of_list
from smetric_gym.workload.readers.detect import Document
from smetric_gym.workload.readers.fields import MISSING, BadRow, Faults, block_count, seconds, tokens
from smetric_gym.workload.readers.jsonl import Batch, read_objects
from smetric_gym.workload.readers.prefixes import PrefixTree
from smetric_gym.workload.readers.rows import Rows

BLOCK_TOKENS = 512
_SIZES = (512, 16, 32, 64, 128, 256, 1024, 2048)
_SAMPLE = 200
_NANOSECONDS = re.compile(r"[0-9]{1,30}")


def read(
    documents: Iterator[Document],
    name: str,
    faults: Faults,
    block_tokens: int | None,
    rng: np.random.Generator,
) -> Rows:
    """Read all rows; ``block_tokens`` None takes the size that fits the rows, 512 first."""
    batches = read_objects(documents, faults)
    head = next(batches, Batch(name, [], ids_of_list))
    block, exact = (block_tokens, True) if block_tokens else _block_size(head)
    faults.count("tokens per block id", block)
    rows = Rows(block=block, tree=PrefixTree(), sessions="inferred", name=name)
    sessions: dict[str, int] = {}
    starts: dict[str, float] = {}  # of skipped first turns, for the turn that becomes the first
    for batch in itertools.chain([head], batches):
        sequences = []
        for number, row in batch.rows:
            try:
                ids = batch.lookup(row["hash_ids"]) if "hash_ids" in row else _no_ids()
                _add(rows, row, ids, sessions, starts, exact, faults)
                sequences.append(ids)
            except BadRow as fault:
                faults.bad(batch.where(number), fault)
                if type(row.get("timestamp")) in (int, float):
                    starts.setdefault(str(row.get("session_id")), row["timestamp"] * 1e-3)
        rows.add_ids(sequences, partial_by_size=exact)
    if sessions:
        rows.sessions = "declared"
    if not exact:
        faults.count("rows with chunks of varying size, taken for blocks of the median size", len(rows))
    faults.count("repeated rows, kept", rows.repeats())
    _spread(rows, rng, faults)
    return rows


def _no_ids() -> np.ndarray:
    raise BadRow("hash_ids", MISSING, "a list of block ids")


def _add(
    rows: Rows, row: dict, ids: np.ndarray, sessions: dict, starts: dict, exact: bool, faults: Faults
) -> None:
    prompt, output = tokens(row, "input_length", 1), tokens(row, "output_length", 0)
    if exact:
        block_count(len(ids), prompt, rows.block, ceil=True)
    declared = row.get("session_id")
    if (declared is None) != (not sessions) and len(rows):
        raise BadRow(
            "session_id", MISSING if declared is None else declared, "given in all rows or in none"
        )
    delay = "delay_ms" if "delay_ms" in row else "delay"
    gap = seconds(row, delay, 1e-3, low=0) if row.get(delay) is not None else np.nan
    if row.get("timestamp") is not None:
        time = _time(row)
    elif str(declared) in sessions and not np.isnan(gap):
        time = np.nan
    elif declared is not None and str(declared) in starts:
        time = starts[str(declared)]
    else:
        raise BadRow("timestamp", MISSING, "a time in ms (a later turn with a delay may lack it)")
    if not np.isnan(time):
        rows.check_time("timestamp", time)
    session = sessions.setdefault(str(declared), len(sessions)) if declared is not None else -1
    if output == 0:
        faults.count("rows with zero output, raised to 1")
    rows.add(time, prompt, max(output, 1), gap=gap, session=session)


def _time(row: dict) -> float:
    text = row["timestamp"]
    if isinstance(text, str) and _NANOSECONDS.fullmatch(text.strip()):
        return int(text) / 1e9
    return seconds(row, "timestamp", 1e-3, low=0, span=False)


def _block_size(batch: Batch) -> tuple[int, bool]:
    """The block size that the most of the first rows have, and whether it is one at all."""
    sizes = []
    for _, row in batch.rows[:_SAMPLE]:
        try:
            sizes.append((tokens(row, "input_length", 1), len(batch.lookup(row["hash_ids"]))))
        except (BadRow, KeyError):
            continue
    if not sizes:
        return BLOCK_TOKENS, True
    fits = [sum(-(-prompt // size) == count for prompt, count in sizes) for size in _SIZES]
    if 2 * max(fits) >= len(sizes):
        return _SIZES[int(np.argmax(fits))], True
    # One row that fits no size may be a bad row; many that fit none are another way of cutting text.
    if len(sizes) < 10:
        return BLOCK_TOKENS, True
    return max(1, round(float(np.median([prompt / max(count, 1) for prompt, count in sizes])))), False


def _spread(rows: Rows, rng: np.random.Generator, faults: Faults) -> None:
    """Spread times that were rounded to a quantum evenly over it, in file order.

    Rounded times: multiples (within 3 ms) of a step of 0.5 s or more between neighbouring values, with 20
    values or more and at least 1.5 requests per value.
    """
    time = rows.column("time", float)
    values = np.unique(time[~np.isnan(time)])
    if len(values) < 20 or len(time) < 1.5 * len(values):
        return
    steps = np.diff(values)
    quantum = round(float(np.median(steps)), 2)
    if quantum < 0.5 or np.mean(np.abs(steps - np.round(steps / quantum) * quantum) <= 3e-3) < 0.99:
        return
    order = np.argsort(time, kind="stable")
    moved = time + rng.uniform(0, quantum, len(time))
    # Within a value the offsets are sorted, so that the file's order stays; nothing crosses into the next
    # value.
    next_value = np.append(values[1:], np.inf)[np.minimum(np.searchsorted(values, time), len(values) - 1)]
    moved = np.minimum(moved, np.nextafter(next_value, -np.inf))
    known = order[~np.isnan(time[order])]
    time[known] = np.sort(moved[known])
    rows.time[:] = type(rows.time)("d", time)
    faults.count(f"times rounded to {quantum:g} s, spread evenly over it", len(known))
