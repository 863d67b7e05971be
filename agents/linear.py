"""Learned policies that are one weighted sum of the features, and the references among them.

LMetric: the least ``ln P + ln B`` is the least product ``P x B``. Bailian: it is a weighted sum already.
SMetric: a reward for sticking that no load outweighs, else the least load. The sums agree with the policies
up to ties (features are float32; ties of hits and of load share one rotation here).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from smetric_gym.agents.features import COUNT, FEATURES
from smetric_gym.agents.learned import Weights
from smetric_gym.agents.params import did_you_mean
from smetric_gym.errors import SmetricError

DECISIVE = 100.0  # more than any load relative to its mean
REFERENCES: dict[str, dict[str, float]] = {
    "smetric": {"stick_requests": DECISIVE, "batch_of_mean": -1.0},
    "smetric_disaggregated": {"stick_tokens": DECISIVE, "queued_of_mean": -1.0},
    "lmetric": {"log_prefill_tokens": -1.0, "log_batch": -1.0},
    "bailian": {"miss": -0.7, "batch_of_max": -0.3},
    "load_balance": {"batch_of_mean": -1.0},
}
"""Weights by feature, at the defaults of each policy; what is not named has weight 0."""


def linear(weights: Mapping[str, float]) -> Weights:
    """What the policy ``learned`` needs for a weighted sum, from weights by feature.

    Raises:
        SmetricError: for a feature that does not exist.
    """
    column = np.zeros(COUNT)
    names = list(FEATURES)
    for name, weight in weights.items():
        if name not in FEATURES:
            hint = did_you_mean(name, names)
            raise SmetricError(f"there is no feature {name!r}{hint}, allowed: {', '.join(names)}")
        column[names.index(name)] = weight
    return Weights.of(linear=column)
