"""Panels that several figures of the paper share: bars over tier sizes, hits, a load sweep, heatmaps, latencies."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smetric_gym.reproduce.grid import Runs
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.style import ORDER, colour_of, line_of, name_of, target_name
from smetric_gym.scoring import SCORES

TIER = "cluster.global_tier"
Cell = Mapping[str, Any]


def short_name(policy: str) -> str:
    """A policy's name in lines of one word, for the ticks of narrow bars."""
    return name_of(policy).replace(" ", "\n")


def legend_below(figure: Figure, axes: Axes, columns: int = 6) -> None:
    """One legend under all panels, with the names of one of them."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False)


def draw_maxima(axes: Axes, runs: Runs) -> None:
    """Bars of every policy's maximum of the target, in groups by tier size, with intervals."""
    tiers = runs.axis(TIER)
    width = 0.8 / len(runs.policies)
    for k, policy in enumerate(runs.policies):
        found = np.array([interval(runs.maximum(policy, {TIER: tier})) for tier in tiers]) / 1000
        at = np.arange(len(tiers)) + (k - (len(runs.policies) - 1) / 2) * width
        ends = np.nan_to_num([found[:, 0] - found[:, 1], found[:, 2] - found[:, 0]])
        axes.bar(at, found[:, 0], width, yerr=ends, color=colour_of(policy, k), label=name_of(policy), capsize=2)
    axes.set_xticks(range(len(tiers)), [f"{tier:g}x" for tier in tiers])
    axes.set(xlabel="global tier / local tiers", ylabel=f"thousand {SCORES[runs.target].unit}")
    axes.set_title(f"(a) maximum of {target_name(runs.target)}")
    axes.grid(axis="x", visible=False)


def draw_hits(axes: Axes, runs: Runs, tiers: Sequence[float]) -> None:
    """Stacked bars of local and global hits at the peak load, one bar per policy and tier size, the smallest first."""
    width = 0.8 / len(tiers)
    for k, policy in enumerate(runs.policies):
        for t, tier in enumerate(tiers):
            at = k + (t - (len(tiers) - 1) / 2) * width
            hits = (runs.at_peak(f"{name}_hit_ratio", policy, {TIER: tier}) for name in ("local", "global"))
            local, remote = (100 * values.mean() for values in hits)
            axes.bar(at, local, 0.95 * width, color=colour_of(policy, k))
            axes.bar(at, remote, 0.95 * width, bottom=local, color=colour_of(policy, k), alpha=0.4, hatch="//")
            if local >= 8:  # a smaller bar has no room for its number
                axes.text(at, local / 2, f"{local:.0f}", ha="center", color="white")
            axes.text(at, local + remote + 1, f"{local + remote:.0f}", ha="center")
    axes.set_xticks(range(len(runs.policies)), [short_name(p) for p in runs.policies])
    axes.set(ylabel="share of prompt tokens (%)", ylim=(0, 100))
    sizes = " and ".join(f"{tier:g}x" for tier in tiers)
    axes.set_title(f"(b) local (solid) and global hits, {sizes}")
    axes.grid(axis="x", visible=False)


def draw_loads(axes: Axes, runs: Runs, mark: float) -> None:
    """The target over the offered load, mean and interval; ``mark`` is the load that the other panels show."""
    free = itertools.cycle(k for k, policy in enumerate(ORDER) if policy not in runs.policies)
    for policy in runs.policies:
        style = line_of(policy, 0 if policy in ORDER else next(free))
        found = np.array([interval(runs.values(runs.target, policy, load)) for load in runs.loads]) / 1000
        axes.plot(runs.loads, found[:, 0], label=name_of(policy), **style)
        if not np.isnan(found).any():
            axes.fill_between(runs.loads, found[:, 1], found[:, 2], color=style["color"], alpha=0.15, linewidth=0)
    axes.axvline(mark, color="0.6", linewidth=1, zorder=0)
    axes.set_xticks(runs.loads, [f"{load:g}" for load in runs.loads])
    axes.set(xlabel="offered load (multiple of the base rate)", ylabel=f"thousand {SCORES[runs.target].unit}")
    axes.set_title(f"(a) {target_name(runs.target)}")
    axes.set_ylim(bottom=0)


def draw_heat(
    figure: Figure, axes: Sequence[Axes], heat: Mapping[str, np.ndarray], titles: Mapping[str, str],
    *, start_min: float, window_min: float, top: float, label: str,
) -> None:  # fmt: skip
    """A heatmap per policy: instances from light to heavy, over time; dark is heavy.

    Args:
        figure: that the axes belong to, for the colour bar.
        axes: one per policy.
        heat: policy to [windows, instances], in units of ``label``.
        titles: policy to the title of its panel.
        start_min: minutes, start of the first window.
        window_min: minutes of a window.
        top: the darkest value.
        label: of the colour bar.
    """
    for panel, (policy, load) in zip(axes, heat.items(), strict=True):
        load = load[:, np.argsort(load.mean(axis=0))]
        edges = start_min + window_min * np.arange(len(load) + 1)
        places = np.arange(load.shape[1] + 1)
        image = panel.pcolormesh(edges, places, load.T, cmap="YlOrRd", vmin=0, vmax=top, rasterized=True)
        panel.set_title(titles[policy])
        panel.set(xlabel="minutes")
        panel.grid(visible=False)
    axes[0].set_ylabel("instances by load")
    figure.colorbar(image, ax=list(axes), label=label, extend="max")


def draw_latency(axes: Axes, runs: Runs, time: str, load: float, *, tail: bool = False) -> None:
    """A distribution of latencies over all scored requests, averaged over the seeds at equal shares.

    Args:
        axes: to draw on.
        runs: of one cell.
        time: "ttft" or "tpot".
        load: at which.
        tail: the share of slower requests on a log scale, instead of the share of faster ones.
    """
    for k, policy in enumerate(runs.policies):
        seconds = np.maximum(runs.curve(f"{time}_s", policy, load), 1e-4)  # a log axis has no 0
        shares = np.linspace(0, 1, len(seconds))
        kept = slice(None, -1) if tail else slice(None)  # nothing is slower than the slowest
        style = {**line_of(policy, k), "marker": ""}
        axes.plot(seconds[kept], (1 - shares if tail else 100 * shares)[kept], label=name_of(policy), **style)
    axes.set(xscale="log", xlabel=f"{time.upper()} (s)")
    axes.xaxis.set_major_formatter("{x:g}")
    slow = np.max([runs.curve(f"{time}_s", policy, load)[-1] for policy in runs.policies])
    quick = np.min([np.quantile(runs.curve(f"{time}_s", policy, load), 0.01) for policy in runs.policies])
    axes.set_xlim(max(quick, 1e-3), slow)
    if tail:
        axes.set(yscale="log", ylim=(2e-3, 1), ylabel="share of slower requests")
    else:
        axes.set(ylim=(0, 100), ylabel="share of requests (%)")


def heat_table(heat: Mapping[str, np.ndarray], start_min: float, window_min: float) -> list[dict[str, Any]]:
    """The data of `draw_heat`: a row per policy and instance, a column per window, named by its start in minutes."""
    rows = []
    for policy, load in heat.items():
        names = [f"{start_min + window_min * k:g}" for k in range(len(load))]
        for instance, values in enumerate(load.T.round(4).tolist()):
            rows.append({"policy": policy, "instance": instance, **dict(zip(names, values, strict=True))})
    return rows
