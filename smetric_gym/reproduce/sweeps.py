"""Figures 15, 18 and 21: the target over the offered load, and how evenly the instances carry it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.experiment.evaluate import HEAT_WINDOW_S
from smetric_gym.reproduce.fidelity import Found
from smetric_gym.reproduce.grid import AT_PEAK, Runs
from smetric_gym.reproduce.panels import draw_heat, draw_loads, heat_table, legend_below
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import gain_words, name_of, new_figure

AT_OWN_PEAK = "at the load where SMetric has its highest mean"
LAST = 2.0
"""The paper's load past saturation."""


def figure_15(work: Work) -> Outcome:
    """Colocated, 32 instances of 30B, full tier: TPS within SLO over the load, and heatmaps of in-flight tokens.

    The paper does not say at which load its heatmaps were taken; its loads are multiples of a rate that it does not
    give either, and are taken here as multiples of ours.
    """
    runs, sizes = work.grid(), {"C22": 1.0, "C23": 1.5, "C24": 1.75}
    policies = {"C18": "smetric", "C19": "bailian", "C20": "lmetric", "C21": "load_balance"}
    rows = {name: Found(runs.at_peak("load_imbalance", policy), note=AT_PEAK) for name, policy in policies.items()}
    for name, load in sizes.items():
        strongest = runs.strongest_at("smetric", load)
        note = f"against the highest other mean at load {load:g}, here {name_of(strongest)}"
        rows[name] = Found(runs.gain_at("smetric", strongest, load), note=note)
    kept = {policy: runs.values(runs.target, policy, LAST) / runs.maximum(policy) for policy in runs.policies}
    means = {policy: float(values.mean()) for policy, values in kept.items()}
    rows["C25"] = Found(
        kept["smetric"],
        holds=max(means.values()) < 1 and max(means, key=lambda policy: means[policy]) == "smetric",
        note="every policy is below its own maximum at load 2, and SMetric keeps the largest share of its own (shown)",
    )
    words = [f"SMetric {gain_words(rows[name].values)} {rows[name].note}." for name in sizes]
    shares = ", ".join(f"{name_of(policy)} {100 * mean:.0f} %" for policy, mean in means.items())
    words.append(f"What is left of the own maximum at load 2: {shares}.")
    return _outcome(runs, runs.peak_load(), words, rows, "prompt tokens in flight")


def figure_18(work: Work) -> Outcome:
    """Colocated, 8 instances of 235B, full tier: TPS within SLO over the load, and heatmaps at SMetric's peak."""
    runs = work.grid()
    load = runs.peak_load_of("smetric")
    share = runs.gain_at("load_balance", "smetric", load) + 1
    rows = {
        "L1": Found(runs.gain("smetric", "bailian")),
        "L2": Found(runs.gain_at("smetric", "lmetric", load), note=AT_OWN_PEAK),
        "L3": Found(share, note=AT_OWN_PEAK),
        "L6": Found(runs.values("load_imbalance", "smetric", load), note=AT_OWN_PEAK),
        "L7": Found(runs.values("load_imbalance", "load_balance", load), note=AT_OWN_PEAK),
        "L10": Found(runs.maximum("smetric", target="output_tps_within_slo"), note="maximum over the loads, per seed"),
    }
    words = [
        f"SMetric's peak is {gain_words(rows['L1'].values)} against Bailian's.",
        f"At SMetric's peak, load {load:g}: {gain_words(rows['L2'].values)} against LMetric; load balance reaches "
        f"{100 * share.mean():.0f} % of SMetric.",
    ]
    return _outcome(runs, load, words, rows, "prompt tokens in flight")


def figure_21(work: Work) -> Outcome:
    """Disaggregated, 32 prefill instances of 30B, full tier: prefill TPS within SLO over the load, and heatmaps.

    The paper does not say at which load its heatmaps were taken.
    """
    runs = work.grid()
    policies = {"D8": "smetric", "D9": "bailian", "D10": "lmetric", "D11": "dynamo"}
    rows = {name: Found(runs.at_peak("load_imbalance", policy), note=AT_PEAK) for name, policy in policies.items()}
    load = runs.peak_load()
    strongest = runs.strongest_at("smetric", load)
    gain = gain_words(runs.gain_at("smetric", strongest, load))
    words = [f"Load {load:g}: SMetric {gain} against {name_of(strongest)}."]
    return _outcome(runs, load, words, rows, "prompt tokens not yet handed over")


def _outcome(runs: Runs, load: float, words: list[str], rows: dict[str, Found], what: str) -> Outcome:
    """Table, picture and heatmap data of a sweep; ``load`` is the one of the heatmaps."""
    ratios = ", ".join(f"{name_of(p)} {runs.values('load_imbalance', p, load).mean():.2f}" for p in runs.policies)
    words.append(f"Mean max/mean of the {what} at load {load:g}: {ratios}.")
    heat = {policy: _normalised(runs, policy, load) for policy in runs.policies}
    more = {"heat": heat_table(heat, _start_s(runs) / 60, HEAT_WINDOW_S / 60)}
    return Outcome(_table(runs), _picture(runs, load, heat), words, rows, more)


def _start_s(runs: Runs) -> float:
    return runs.records[0]["settings"]["warm_up_s"]


def _normalised(runs: Runs, policy: str, load: float) -> np.ndarray:
    """In-flight tokens of the first seed in the scored window over their 99th percentile, [windows, instances]."""
    tokens = runs.curves("in_flight_tokens", policy, load)[0][round(_start_s(runs) / HEAT_WINDOW_S) :]
    return tokens / max(np.quantile(tokens, 0.99), 1.0)


def _table(runs: Runs) -> list[dict[str, Any]]:
    rows = []
    for policy in runs.policies:
        for load in runs.loads:
            mean, low, high = interval(runs.values(runs.target, policy, load))
            scores = ("load_imbalance", "slo_attainment", "local_hit_ratio", "global_hit_ratio")
            found = {name: runs.values(name, policy, load).mean() for name in scores}
            rows.append({"policy": policy, "load": load, runs.target: mean, "low": low, "high": high, **found})
    return rows


def _picture(runs: Runs, load: float, heat: dict[str, np.ndarray]) -> Figure:
    figure, axes = new_figure(13, 3.8, 1, 1 + len(heat), width_ratios=(2.4, *[1] * len(heat)))
    draw_loads(axes[0, 0], runs, load)
    titles = {p: f"{name_of(p)}: {runs.values('load_imbalance', p, load).mean():.1f}x" for p in heat}
    titles[runs.policies[0]] = f"(b) {titles[runs.policies[0]]}"
    label = f"tokens in flight / the policy's p99\n(load {load:g}, seed {runs.seeds[0]})"
    places = {"start_min": _start_s(runs) / 60, "window_min": HEAT_WINDOW_S / 60}
    draw_heat(figure, list(axes[0, 1:]), heat, titles, **places, top=1.0, label=label)
    legend_below(figure, axes[0, 0])
    return figure
