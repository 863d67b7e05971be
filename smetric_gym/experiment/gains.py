"""What a policy is worth beside the references on the same traces: the objective of training and tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smetric_gym.experiment.cells import Scenario, label
from smetric_gym.experiment.rollouts import Job
from smetric_gym.experiment.settings import group_file

LONGEST = 3.0
"""ln of the largest ratio of two p99 TTFT that counts: 20 times."""
GAINS = ("tps_within_slo", "prefill_tps_within_slo")
"""Scores that can be the objective."""


def reference_jobs(scenarios: Sequence[Scenario], names: Sequence[str]) -> list[Job]:
    """Every reference at its defaults on every scenario, references innermost."""
    files = [{**group_file("policy", name), "name": name} for name in names]
    return [Job(scenario, file) for scenario in scenarios for file in files]


def gain(values: np.ndarray, reference: np.ndarray, clip: float) -> np.ndarray:
    """``ln(value / reference)``, at most `clip` either way.

    Ratios of collapsed runs are noise, so they must not decide; and a mean of logarithms is not led by the
    cells in which a number is large.

    Args:
        values: tokens/s, any shape.
        reference: tokens/s, of a shape that fits.
        clip: more than 0.
    """
    return np.clip(np.log((values + 1) / (reference + 1)), -clip, clip)


def guard(p99_s: np.ndarray, reference_s: np.ndarray) -> np.ndarray:
    """``ln(p99 TTFT / reference's)`` where above 0, at most 3, which is also what counts where nothing came at all.

    Tokens within SLO alone would be paid for with the requests that miss it anyway.
    """
    ratio = np.nan_to_num(np.log(p99_s / reference_s), nan=LONGEST)
    return np.clip(ratio, 0, LONGEST)


def percent(log_ratio: Any) -> float:
    """A mean of logarithms of ratios as a difference in %."""
    return float(100 * np.expm1(np.mean(log_ratio)))


def by_cell(scenarios: Sequence[Scenario], gains: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """One row per cell: the mean gain of each policy in %, over loads and seeds.

    Args:
        scenarios: [S].
        gains: by policy, [S] as `gain` gives it.
    """
    cells = [label(scenario) for scenario in scenarios]
    rows: list[dict[str, Any]] = []
    for cell in [*dict.fromkeys(cells), "all"]:
        of_it = np.array([cell in (name, "all") for name in cells])
        rows.append({"cell": cell, **{policy: percent(values[of_it]) for policy, values in gains.items()}})
    return rows
