"""Numbers in sentences: means with their intervals; `style.gain_words` has the same for relative differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from smetric_gym.reproduce.statistics import Interval


def percent(found: Interval) -> str:
    """A share: ``+1.2 % (95 % interval +0.4 to +2.0 %)``."""
    return _words(found, 100, "+.1f", " %")


def thousand(found: Interval) -> str:
    """Tokens: ``+12 thousand tokens (95 % interval -3 to +27 thousand tokens)``."""
    return _words(found, 0.001, "+.0f", " thousand tokens")


def clear(found: Interval) -> bool:
    """Whether the interval tells the mean from 0; never where there is no interval."""
    return found.low > 0 or found.high < 0


def columns(name: str, found: Interval) -> dict[str, float]:
    """An interval as three columns of a table: ``name``, ``name_low`` and ``name_high``."""
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}


def read(row: Mapping[str, Any], name: str) -> Interval:
    """The interval that `columns` wrote into a row."""
    return Interval(row[name], row[f"{name}_low"], row[f"{name}_high"])


def ends(found: np.ndarray) -> np.ndarray:
    """Intervals [n, 3] as Matplotlib's error bars, [2, n]; no bar where there is no interval."""
    return np.nan_to_num([found[:, 0] - found[:, 1], found[:, 2] - found[:, 0]])


def _words(found: Interval, scale: float, form: str, unit: str) -> str:
    mean, low, high = (scale * value for value in found)
    around = "" if np.isnan(low) else f" (95 % interval {low:{form}} to {high:{form}}{unit})"
    return f"{mean:{form}}{unit}{around}"
