"""Block ids straight from JSON text: a trace is nearly all numbers, and Python lists of them are slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from smetric_gym.workload.readers.fields import BadRow

Lookup = Callable[[Any], np.ndarray]
"""Turns what stands at ``hash_ids`` of a parsed row into int64 ids; raises BadRow when it is no such list."""

_KEY = np.frombuffer(b'"hash_ids"', dtype=np.uint8)


def lift_ids(text: bytes, lines: bool) -> tuple[bytes, Lookup]:
    """Take every ``"hash_ids": [...]`` out of JSON text, leaving a number in its place.

    Text in which anything but whole non-negative numbers stands in such a list is left alone, so that the
    JSON parser and the row checks say what is wrong with it.

    Args:
        text: whole JSON documents.
        lines: True for JSON lines, where a list that goes on over the end of its line is malformed.

    Returns:
        The text without the ids, and the function that gives the ids back.
    """
    source = np.frombuffer(text, dtype=np.uint8)
    commas, lists = np.count_nonzero(source == ord(",")), np.count_nonzero(source == ord("["))
    ids = np.empty(commas + lists, dtype=np.int64)
    offsets = np.zeros(lists + 1, dtype=np.int64)
    rest = np.empty(len(source) + 12 * (lists + 1), dtype=np.uint8)
    length, count = _lift(source, _KEY, lines, rest, ids, offsets)
    if length < 0:
        return text, ids_of_list
    used = ids[: offsets[count]].copy()
    return rest[:length].tobytes(), lambda k: used[offsets[k] : offsets[k + 1]]


def ids_of_list(value: Any) -> np.ndarray:
    """The ids of a parsed JSON list; unsigned 64-bit ids keep their bits."""
    if not isinstance(value, list) or any(type(x) is not int for x in value):
        raise BadRow("hash_ids", value, "a list of whole numbers")
    try:
        return np.array(value, dtype=np.int64)
    except OverflowError:
        return np.array([x & (2**64 - 1) for x in value], dtype=np.uint64).view(np.int64)


def mix(a: np.ndarray | int, b: np.ndarray | int) -> np.ndarray:
    """Mint a 64-bit id from two numbers, another one for every pair (finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        x = np.asarray(a, dtype=np.int64).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(29))) + np.asarray(b, dtype=np.int64).astype(np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (x ^ (x >> np.uint64(31))).view(np.int64)


@numba.njit(cache=True)
def _skip_blank(source, at, lines):
    while at < len(source) and (
        source[at] == 32 or source[at] == 9 or (not lines and (source[at] == 10 or source[at] == 13))
    ):
        at += 1
    return at


@numba.njit(cache=True)
def _lift(source, key, lines, rest, ids, offsets):
    """Copy source to rest without the lists; (-1, 0) when a list holds anything odd."""
    at = out = count = found = 0
    n = len(source)
    while at < n:
        rest[out] = source[at]
        out += 1
        at += 1
        if source[at - 1] != key[0] or at + len(key) > n:
            continue
        k = 1
        while k < len(key) and source[at + k - 1] == key[k]:
            k += 1
        if k < len(key):
            continue
        colon = _skip_blank(source, at + len(key) - 1, lines)
        if colon >= n or source[colon] != 58:
            continue
        bracket = _skip_blank(source, colon + 1, lines)
        if bracket >= n or source[bracket] != 91:
            return -1, 0
        rest[out : out + bracket - at] = source[at:bracket]
        out += bracket - at
        at = _skip_blank(source, bracket + 1, lines)
        if at < n and source[at] == 93:
            at += 1
        else:
            while True:
                first = at
                value = 0
                while at < n and 48 <= source[at] <= 57:
                    if at - first >= 18:
                        return -1, 0
                    value = value * 10 + (source[at] - 48)
                    at += 1
                if at == first or (source[first] == 48 and at > first + 1):
                    return -1, 0
                ids[found] = value
                found += 1
                at = _skip_blank(source, at, lines)
                if at >= n or (source[at] != 44 and source[at] != 93):
                    return -1, 0
                at += 1
                if source[at - 1] == 93:
                    break
                at = _skip_blank(source, at, lines)
        after = _skip_blank(source, at, lines)
        if after >= n or (source[after] != 44 and source[after] != 125):
            return -1, 0
        power = 1
        while count // power >= 10:
            power *= 10
        while power > 0:
            rest[out] = 48 + count // power % 10
            out += 1
            power //= 10
        count += 1
        offsets[count] = found
    return out, count
