"""How sure a mean over seeds is: the percentile bootstrap, which every interval of the project comes from."""

from __future__ import annotations

import numpy as np

LEVEL = 0.95
RESAMPLES = 10_000


def limits(values: np.ndarray, resamples: int = RESAMPLES) -> tuple[float, float]:
    """The ends of the bootstrap interval of a mean at 95 %; a fixed seed, so the same values give the same ends.

    Args:
        values: [seeds] float64, without nan.
        resamples: of the seeds.
    """
    picks = np.random.default_rng(0).integers(len(values), size=(resamples, len(values)))
    low, high = np.quantile(values[picks].mean(axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
