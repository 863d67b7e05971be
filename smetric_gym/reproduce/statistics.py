"""Means with their uncertainty: bootstrap intervals over seeds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smetric_gym.experiment.bootstrap import limits

FEWEST = 3


class Interval(NamedTuple):
    """A mean over seeds and its bootstrap interval at 95 %; both ends are nan below 3 seeds."""

    mean: float
    low: float
    high: float


def interval(values: np.ndarray) -> Interval:
    """The mean of values over seeds and its percentile bootstrap interval (10,000 resamples, a fixed seed).

    For a paired comparison give the differences, one per seed: both policies met the same requests.

    Args:
        values: [seeds] float64; nan are left out.
    """
    values = np.asarray(values, dtype=np.float64)
    values = values[~np.isnan(values)]
    if len(values) < FEWEST:
        return Interval(float(values.mean()) if len(values) else float("nan"), float("nan"), float("nan"))
    return Interval(float(values.mean()), *limits(values))
