"""Figures 16 and 22: the maximum over tier sizes, and where prompt tokens come from at the largest one."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.reproduce.fidelity import Found
from smetric_gym.reproduce.grid import AT_PEAK, Runs
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import colour_of, name_of, new_figure, target_name
from smetric_gym.scoring import SCORES

TIER = "cluster.global_tier"


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
    return Outcome(_table(runs), _picture(runs), _words(runs), rows)


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
    return Outcome(_table(runs), _picture(runs), _words(runs), rows)


def _strongest(runs: Runs) -> dict[float, str]:
    """The strongest policy beside SMetric at each tier size."""
    return {tier: runs.strongest("smetric", {TIER: tier}) for tier in runs.axis(TIER)}


def _table(runs: Runs) -> list[dict[str, Any]]:
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


def _words(runs: Runs) -> list[str]:
    words = []
    for tier, strongest in _strongest(runs).items():
        mean, low, high = interval(runs.gain("smetric", strongest, {TIER: tier}))
        ends = "" if np.isnan(low) else f" (95 % interval {100 * low:+.1f} to {100 * high:+.1f} %)"
        other = name_of(strongest)
        words.append(f"Tier {tier:g}: SMetric {100 * mean:+.1f} %{ends} against the strongest other, {other}.")
    return words


def _picture(runs: Runs) -> Figure:
    tiers = runs.axis(TIER)
    figure, axes = new_figure(10, 4, 1, 2, width_ratios=(3, 2))
    left, right = axes[0]
    width = 0.8 / len(runs.policies)
    for k, policy in enumerate(runs.policies):
        found = np.array([interval(runs.maximum(policy, {TIER: tier})) for tier in tiers]) / 1000
        at = np.arange(len(tiers)) + (k - (len(runs.policies) - 1) / 2) * width
        ends = np.nan_to_num([found[:, 0] - found[:, 1], found[:, 2] - found[:, 0]])
        left.bar(at, found[:, 0], width, yerr=ends, color=colour_of(policy, k), label=name_of(policy), capsize=2)
    left.set_xticks(range(len(tiers)), [f"{tier:g}x" for tier in tiers])
    left.set(xlabel="global tier / local tiers", ylabel=f"thousand {SCORES[runs.target].unit}")
    left.set_title(f"(a) maximum of {target_name(runs.target)}")
    left.grid(axis="x", visible=False)
    full = {TIER: max(tiers)}
    for k, policy in enumerate(runs.policies):
        local, tier = (100 * runs.at_peak(f"{name}_hit_ratio", policy, full).mean() for name in ("local", "global"))
        right.bar(k, local, color=colour_of(policy, k))
        right.bar(k, tier, bottom=local, color=colour_of(policy, k), alpha=0.4, hatch="//")
        right.text(k, local / 2, f"{local:.0f}", ha="center", color="white")
        right.text(k, local + tier + 1, f"{local + tier:.0f}", ha="center")
    right.set_xticks(range(len(runs.policies)), [name_of(p).replace(" ", "\n") for p in runs.policies])
    right.set(ylabel="share of prompt tokens (%)", ylim=(0, 100))
    right.set_title(f"(b) local (solid) and global hits, {max(tiers):g}x")
    right.grid(axis="x", visible=False)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure
