"""Figures 16, 19 and 22: the maximum over tier sizes, and where prompt tokens come from at the largest one."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.reproduce.fidelity import Found
from smetric_gym.reproduce.grid import AT_PEAK, Runs
from smetric_gym.reproduce.panels import TIER, draw_hits, draw_maxima, legend_below
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import gain_words, name_of, new_figure


def figure_16(work: Work) -> Outcome:
    """Colocated, 32 instances of 30B: maximum TPS within SLO over tier sizes, and hits."""
    runs = work.grid()
    gains = {tier: runs.gain("smetric", strongest, {TIER: tier}) for tier, strongest in _strongest(runs).items()}
    with_tier = [gain for tier, gain in gains.items() if tier > 0]
    full = {TIER: max(runs.axis(TIER))}
    rows = {
        "C12": Found(np.min(with_tier, axis=0), note="smallest gain over the tier sizes above 0, per seed"),
        "C13": Found(np.max(with_tier, axis=0), note="largest gain over the tier sizes above 0, per seed"),
        "C14": Found(runs.gain("smetric", "bailian", {TIER: 0})),
        "C15": Found(runs.at_peak("local_hit_ratio", "smetric", full), note=AT_PEAK),
        "C16": Found(runs.at_peak("local_hit_ratio", "bailian", full), note=AT_PEAK),
        "C17": Found(runs.at_peak("reuse_ratio", "smetric", full), note=AT_PEAK),
    }
    return Outcome(maxima_table(runs), _picture(runs), _words(runs), rows)


def figure_19(work: Work) -> Outcome:
    """Colocated, 8 instances of 235B: maximum TPS within SLO over tier sizes, and hits.

    The paper prints numbers of the full tier only, and not which smaller ones it draws: here those of figure 16.
    """
    runs = work.grid()
    full = {TIER: max(runs.axis(TIER))}
    rows = {
        "L4": Found(runs.at_peak("local_hit_ratio", "smetric", full), note=AT_PEAK),
        "L5": Found(runs.at_peak("reuse_ratio", "smetric", full), note=AT_PEAK),
    }
    return Outcome(maxima_table(runs), _picture(runs), _words(runs), rows)


def figure_22(work: Work) -> Outcome:
    """Disaggregated, 32 prefill instances of 30B: maximum prefill TPS within SLO over tier sizes, and hits."""
    runs = work.grid()
    gains = [runs.gain("smetric", strongest, {TIER: tier}) for tier, strongest in _strongest(runs).items()]
    full = {TIER: max(runs.axis(TIER))}
    rows = {
        "D1": Found(np.min(gains, axis=0), note="smallest gain over all tier sizes, per seed"),
        "D2": Found(np.max(gains, axis=0), note="largest gain over all tier sizes, per seed"),
        "D3": Found(runs.gain("smetric", "bailian", {TIER: 1.6})),
        "D4": Found(runs.gain("smetric", "lmetric", full)),
        "D5": Found(runs.at_peak("reuse_ratio", "smetric", full), note=AT_PEAK),
        "D6": Found(runs.at_peak("local_hit_ratio", "smetric", full), note=AT_PEAK),
        "D7": Found(runs.at_peak("local_hit_ratio", "bailian", full), note=AT_PEAK),
    }
    return Outcome(maxima_table(runs), _picture(runs), _words(runs), rows)


def maxima_table(runs: Runs) -> list[dict[str, Any]]:
    """One row per tier size and policy: the maximum with its interval, and the hits at the peak load."""
    rows = []
    for tier in runs.axis(TIER):
        for policy in runs.policies:
            here = {TIER: tier}
            mean, low, high = interval(runs.maximum(policy, here))
            rows.append({
                "global_tier": tier, "policy": policy, f"max_{runs.target}": mean, "low": low, "high": high,
                "load_at_max": float(np.mean([runs.loads[k] for k in runs.comparison(**here).best_load(policy)])),
                "peak_load": runs.peak_load(here),
                "local_hit_ratio": runs.at_peak("local_hit_ratio", policy, here).mean(),
                "global_hit_ratio": runs.at_peak("global_hit_ratio", policy, here).mean(),
            })  # fmt: skip
    return rows


def _strongest(runs: Runs) -> dict[float, str]:
    """The strongest policy beside SMetric at each tier size."""
    return {tier: runs.strongest("smetric", {TIER: tier}) for tier in runs.axis(TIER)}


def _words(runs: Runs) -> list[str]:
    return [
        f"Tier {tier:g}: SMetric {gain_words(runs.gain('smetric', strongest, {TIER: tier}))} against the strongest "
        f"other, {name_of(strongest)}."
        for tier, strongest in _strongest(runs).items()
    ]


def _picture(runs: Runs) -> Figure:
    figure, axes = new_figure(10, 4, 1, 2, width_ratios=(3, 2))
    left, right = axes[0]
    draw_maxima(left, runs)
    draw_hits(right, runs, [max(runs.axis(TIER))])
    legend_below(figure, left)
    return figure
