"""Imbalance of loads that are given per window and instance."""

from __future__ import annotations

import numpy as np

MINUTES = 10
"""The paper looks at the first minutes of the replay, which our warm-up is too."""


def max_over_mean(load: np.ndarray) -> np.ndarray:
    """The largest load over the mean one in every window, [windows with any load] float64.

    Args:
        load: [windows, instances], 0 or more.
    """
    mean = load.mean(axis=1)
    return load.max(axis=1)[mean > 0] / mean[mean > 0]


def early_imbalance(sent: np.ndarray) -> np.ndarray:
    """Mean over the first `MINUTES` of max/mean of the tokens sent in each, [seeds] float64.

    Args:
        sent: [seeds, minutes, instances] tokens, the curve ``sent_tokens``.
    """
    return np.array([max_over_mean(tokens).mean() for tokens in sent[:, :MINUTES]])
