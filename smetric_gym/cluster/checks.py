"""One comparison with a measurement, and the files of ``measured/`` that the measurements are in."""

from __future__ import annotations

import csv
import gzip
import io
import math
from dataclasses import dataclass
from importlib import resources

import numpy as np


@dataclass(frozen=True)
class Check:
    """One comparison.

    Attributes:
        name: unique key, ``topic/point``.
        what: the quantity in words, with its unit.
        measured: as published; nan in rows that sum up others.
        simulated: by the preset; nan where nothing can be simulated.
        error: simulated / measured - 1, or a mean absolute error (MAPE) in rows that sum up others.
        tolerance: largest allowed absolute error, or None.
        source: of the measurement.
        note: what to know about the comparison.
    """

    name: str
    what: str
    measured: float
    simulated: float
    error: float
    tolerance: float | None
    source: str
    note: str = ""

    @property
    def passes(self) -> bool | None:
        """Whether the error is within the tolerance; None where there is none."""
        return None if self.tolerance is None else abs(self.error) <= self.tolerance


def measured(name: str) -> list[dict[str, str]]:
    """Rows of a CSV file of ``measured/``, gzipped or not."""
    data = (resources.files("smetric_gym.cluster") / "measured" / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    return list(csv.DictReader(io.StringIO(text)))


def compare(
    name: str,
    what: str,
    published: float | str,
    simulated: float,
    tolerance: float | None,
    source: str,
    note: str = "",
) -> Check:
    """A check of one published number; the attributes of `Check` in order, without the error."""
    number = float(published)
    return Check(name, what, number, float(simulated), float(simulated) / number - 1, tolerance, source, note)


def summarise(
    name: str, what: str, errors: list[float], tolerance: float | None, source: str, note: str = ""
) -> Check:
    """A check of the mean absolute error of many comparisons, [points] relative errors."""
    text = f"MAPE of {len(errors)}, bias {np.mean(errors):+.1%}, worst {max(errors, key=abs):+.1%}"
    error = float(np.abs(errors).mean())
    return Check(
        name, what, math.nan, math.nan, error, tolerance, source, f"{text}; {note}" if note else text
    )
