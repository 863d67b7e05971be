"""Imbalance of loads that are given per window and instance."""

from __future__ import annotations

import numpy as np


def max_over_mean(load: np.ndarray) -> np.ndarray:
    """The largest load over the mean one in every window, [windows with any load] float64.

    Args:
        load: [windows, instances], 0 or more.
    """
    mean = load.mean(axis=1)
    return load.max(axis=1)[mean > 0] / mean[mean > 0]
