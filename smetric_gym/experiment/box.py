"""A box of parameters to search, and points in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smetric_gym.errors import SmetricError

FORMS = "[low, high], {log: [low, high]} or {choices: [...]}"


@dataclass(frozen=True)
class Axis:
    """One parameter: the values that places from 0 to 1 stand for.

    Attributes:
        name: of the parameter.
        low: the value at 0; of a logarithmic axis its logarithm.
        high: the value at 1.
        log: whether the axis is logarithmic.
        choices: values to choose from instead; places from 0 to 1 are dealt out evenly.
    """

    name: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    choices: tuple = ()

    def value(self, place: float) -> Any:
        """The value at a place, with four significant digits."""
        if self.choices:
            return self.choices[min(int(place * len(self.choices)), len(self.choices) - 1)]
        there = self.low + place * (self.high - self.low)
        return float(f"{math.exp(there) if self.log else there:.4g}")


def axes(box: Mapping[str, Any]) -> list[Axis]:
    """The axes of a box as a configuration says it.

    Raises:
        SmetricError: naming the entry that is none.
    """
    return [_axis(name, what) for name, what in box.items()]


def _axis(name: str, what: Any) -> Axis:
    refused = SmetricError(f"the box has {name}: {what!r}, allowed: {FORMS}, low below high, both above 0 for log")
    if isinstance(what, Mapping) and list(what) == ["choices"] and what["choices"]:
        return Axis(name, choices=tuple(what["choices"]))
    log = isinstance(what, Mapping) and list(what) == ["log"]
    limits = what["log"] if log else what
    try:
        low, high = (float(limit) for limit in limits)
    except (TypeError, ValueError):
        raise refused from None
    if not low < high or (log and not low > 0):
        raise refused
    return Axis(name, math.log(low), math.log(high), True) if log else Axis(name, low, high)


def points(dimensions: int, count: int, seed: int) -> np.ndarray:
    """Points that fill the unit cube evenly, [count, dimensions]: the R sequence, shifted at random.

    Source: M. Roberts, "The unreasonable effectiveness of quasirandom sequences": steps of the powers of
    1 / g, with g the root of g^(d + 1) = g + 1.
    """
    root = 2.0
    for _ in range(40):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    shift = np.random.default_rng(seed).random(dimensions)
    return (shift + np.arange(1, count + 1)[:, None] * steps) % 1


def around(centre: np.ndarray, places: np.ndarray, width: float = 0.25) -> np.ndarray:
    """Places of the unit cube moved into a smaller cube about `centre`, kept inside the large one."""
    low = np.clip(centre - width / 2, 0, 1 - width)
    return low + width * places
