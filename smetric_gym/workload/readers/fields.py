"""Checks of the fields of a row, and what becomes of a row that fails them."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from smetric_gym.errors import SmetricError

MAX_TOKENS = 10**9
"""A prompt or an output longer than this is a mistake; it also keeps prompt + output inside int32."""

LONGEST_S = 3.2e7
"""A year: a longer trace is a mistake. The simulated window ends at 4e6 s at the latest, but BurstGPT's two
months (5.3e6 s) are longer than that; what arrives after the window is not served."""

_SHOWN = 80


class Words(str):
    """What was found, in words: values that are strings are quoted, these are not."""


MISSING = Words("missing")


class BadRow(Exception):
    """A row that cannot be used: which field, what was found, what is allowed."""

    def __init__(self, field: str, found: Any, allowed: str):
        super().__init__(f"{field} is {_shown(found)}, allowed: {allowed}")


def _shown(found: Any) -> str:
    if isinstance(found, Words):
        return found
    text = "null" if found is None else repr(found)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


class Faults:
    """The policy for bad rows, and the count of everything that a reader met."""

    def __init__(self, on_bad: str):
        if on_bad not in ("error", "skip"):
            raise SmetricError(f"on_bad is {on_bad!r}, allowed: 'error', 'skip'")
        self.on_bad = on_bad
        self.report: defaultdict[str, float] = defaultdict(int)  # counts, and now and then a rate

    def bad(self, where: str, fault: BadRow | str, what: str = "bad rows skipped") -> None:
        """Count a bad row, or raise the SmetricError that names it."""
        if self.on_bad == "error":
            skip = 'workload.on_bad=skip (on_bad="skip" in Python)'
            raise SmetricError(f"{where}: {fault}; {skip} counts and skips it") from None
        self.report[what] += 1

    def count(self, what: str, times: int = 1) -> None:
        """Count something worth telling; nothing is written for zero times."""
        if times:
            self.report[what] += int(times)


def tokens(row: dict, key: str, low: int) -> int:
    """A number of tokens of at least ``low``; whole floats (5.0) are taken."""
    value = row.get(key, MISSING)
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or not low <= value <= MAX_TOKENS:
        raise BadRow(key, value, f"a whole number of tokens, {low} to {MAX_TOKENS}")
    return value


def seconds(row: dict, key: str, unit: float = 1.0, low: float = -math.inf, span: bool = True) -> float:
    """A finite time in seconds.

    Args:
        row: the parsed row.
        key: the field.
        unit: seconds per unit of the field.
        low: the smallest value allowed, in the unit of the field.
        span: True for a time from one event to another, at most ``LONGEST_S``; False for one since any epoch.
    """
    value = row.get(key, MISSING)
    high = LONGEST_S / unit if span else 1e300
    if type(value) not in (int, float) or not max(low, -high) <= value <= high:
        allowed = f", {low:g} or more" if math.isfinite(low) else f", {-high:g} or more" * span
        raise BadRow(key, value, "a finite number" + allowed + f", up to {high:g}" * span)
    return value * unit


def block_count(ids: int, prompt: int, block: int, ceil: bool) -> None:
    """Check that there are as many ids as the prompt has blocks."""
    right = -(-prompt // block) if ceil else prompt // block
    if ids != right:
        rule = "ceil" if ceil else "floor"
        raise BadRow("the number of hash_ids", ids, f"{right} = {rule}({prompt} tokens / {block} per block)")
