"""Parameters of policies: what they may be, and how a configuration says them.

A name means the same in every policy of the package, so the ranges stand here once.
"""

from __future__ import annotations

import difflib
import math
from collections import namedtuple
from collections.abc import Iterable
from typing import Any, NamedTuple

from smetric_gym.agents import load, ties
from smetric_gym.errors import SmetricError

AUTO = "auto"


class Range(NamedTuple):
    """Numbers from `low` to `high`, both allowed unless said otherwise."""

    low: float
    high: float = math.inf
    open: bool = False
    """`low` itself is not allowed"""
    below: bool = False
    """`high` itself is not allowed"""

    def __contains__(self, value) -> bool:
        above = value > self.low if self.open else value >= self.low
        return above and (value < self.high if self.below else value <= self.high)

    def __str__(self) -> str:
        low = f"more than {self.low:g}" if self.open else f"{self.low:g} or more"
        if self.below:
            return f"{low} and below {self.high:g}"
        return low if self.high == math.inf else f"{self.low:g} to {self.high:g}"


RANGES: dict[str, Range] = {
    "overload": Range(0, open=True),
    "slack": Range(0, open=True),
    "hit_ratio": Range(0, 1, below=True),
    "lam": Range(0, 1),
    "global_hits": Range(0, 1),
    "queued": Range(0, 1),
    "overlap": Range(0),
    "decay": Range(0),
    "scale": Range(0),
    "decode": Range(0),
    "request_weight": Range(0),
    "block": Range(1),
}
WORDS: dict[str, dict[str, int]] = {
    "load": {"requests": load.REQUESTS, "unprefilled_tokens": load.UNPREFILLED_TOKENS},
    "ties": {
        "first": ties.FIRST,
        "round_robin": ties.ROUND_ROBIN,
        "least_loaded": ties.LEAST_LOADED,
        "least_routed": ties.LEAST_ROUTED,
        "random": ties.RANDOM,
    },
}
"""Parameters that are said in a word, and the number that compiled code reads."""
AUTOMATIC: dict[str, tuple[float, float]] = {
    "load": (load.REQUESTS, load.UNPREFILLED_TOKENS),
    "decode": (1.0, 0.0),
}
"""What ``auto`` is in a colocated and in a disaggregated cluster."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A hint for a message, or nothing."""
    near = difflib.get_close_matches(name, list(names), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def make_params(
    policy: str, kind: type | None, given: dict[str, Any], *, disaggregated: bool = False, ours: bool = True
) -> tuple:
    """The NamedTuple that a policy reads.

    Args:
        policy: its name, for messages.
        kind: its ``Params`` class, or None: then one is made of what is given.
        given: values by name, as a configuration says them; what is not given has its default.
        disaggregated: the cluster's kind, for ``auto``.
        ours: a policy of the package: ``RANGES`` hold, and ``auto`` is the default of the ``AUTOMATIC`` ones.

    Raises:
        SmetricError: for an unknown name or a value that is not allowed.
    """
    made: Any = namedtuple("Params", given) if kind is None else kind
    fields, defaults = made._fields, made._field_defaults
    values = {name: AUTO for name in AUTOMATIC if ours and name in fields} | given
    for name, value in values.items():
        if name not in fields:
            hint = did_you_mean(name, fields)
            allowed = ", ".join(fields) or "none at all"
            raise SmetricError(f"policy {policy} has no parameter {name}{hint}, allowed: {allowed}")
        values[name] = _value(policy, name, value, defaults.get(name), disaggregated, ours)
    missing = [name for name in fields if name not in values and name not in defaults]
    if missing:
        raise SmetricError(f"policy {policy} needs the parameter {missing[0]}, which has no default")
    return made(**values)


def _value(policy: str, name: str, value: Any, default: Any, disaggregated: bool, ours: bool) -> Any:
    if name in AUTOMATIC and value == AUTO:
        return AUTOMATIC[name][disaggregated]
    if name in WORDS and (isinstance(value, str) or (ours and value not in WORDS[name].values())):
        if value not in WORDS[name]:
            words = ", ".join([AUTO] * (name in AUTOMATIC) + list(WORDS[name]))
            raise SmetricError(f"policy {policy}: {name} is {value!r}, allowed: {words}")
        return WORDS[name][value]
    if isinstance(default, bool) or not isinstance(default, (int, float)):
        return value
    return _number(policy, name, value, isinstance(default, int), RANGES.get(name) if ours else None)


def _number(policy: str, name: str, value: Any, whole: bool, limits: Range | None) -> float | int:
    """`value` as a number of its default's type: code is compiled for types."""
    try:
        number = float(value)
        good = not isinstance(value, (str, bool)) and (number.is_integer() or not whole)
        good = good and (limits is None or number in limits)
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        allowed = ("a whole number" if whole else "a number") + (f", {limits}" if limits else "")
        raise SmetricError(f"policy {policy}: {name} is {value!r}, allowed: {allowed}")
    return int(number) if whole else number
