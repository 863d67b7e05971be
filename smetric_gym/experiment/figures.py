"""Figures of a comparison: score over load, hit split, load of the instances over time, latencies."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from smetric_gym.experiment.store import as_json, write_whole
from smetric_gym.experiment.tables import write_csv
from smetric_gym.scoring import SCORES

if TYPE_CHECKING:
    from smetric_gym.experiment.comparison import Comparison

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Okabe and Ito's colours, told apart by readers with any colour vision; markers and dashes say it again."""
WHY = "the load of the best maximum"
MARKERS, DASHES = "osD^vPX*", ("-", "--", "-.", ":")
STYLE: dict[Any, Any] = {  # Matplotlib types the keys as a Literal of all its settings
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.3,
    "font.size": 10, "axes.titlesize": 11, "axes.titlelocation": "left", "legend.frameon": False,
}  # fmt: skip
INSIDE: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 9,
          "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.85}}  # fmt: skip


def draw_all(comparison: Comparison, folder: Path) -> list[Path]:
    """Draw every figure as PNG with its data beside it; returns the paths of the figures."""
    return [draw(comparison, folder) for draw in (draw_loads, draw_hits, draw_heat, draw_latencies)]


def draw_loads(comparison: Comparison, folder: Path) -> Path:
    """The target score over the load: mean over seeds, band from the lowest to the highest seed."""
    rows = []
    unit = SCORES[comparison.target].unit
    scale, label = (0.01, "%") if unit == "share" else (1000, f"thousand {unit}")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.subplots()
        for k, policy in enumerate(comparison.policies):
            values = comparison.values(policy, comparison.target) / scale
            mean, low, high = values.mean(axis=1), values.min(axis=1), values.max(axis=1)
            axes.plot(comparison.loads, mean, label=policy, **_line(k), marker=MARKERS[k % len(MARKERS)])
            axes.fill_between(comparison.loads, low, high, color=_colour(k), alpha=0.15, linewidth=0)
            for load, row in zip(comparison.loads, values, strict=True):
                for seed, value in zip(comparison.seeds, row * scale, strict=True):
                    rows.append({"policy": policy, "load": load, "seed": seed, comparison.target: value})
        many = len(comparison.seeds) > 1
        words = " (line: mean, band: all seeds)" if many else ""
        axes.set(xlabel="offered load (multiple of the base rate)", title=comparison.target + words)
        axes.set(ylabel=label)
        axes.set_xticks(comparison.loads, [f"{load:g}" for load in comparison.loads])
        best = np.nanmax([0.0, *(row[comparison.target] for row in rows)]) / scale
        axes.set_ylim(0, 1.08 * best if best > 0 else 1)  # room for the markers at the top
        axes.legend()
    write_csv(folder / "load.csv", rows)
    return save(figure, folder / "load.png")


def draw_hits(comparison: Comparison, folder: Path) -> Path:
    """Where prompt tokens came from at each policy's maximum: own cache, global tier, computed."""
    rows = []
    for policy in comparison.policies:
        at = comparison.best_load(policy), np.arange(len(comparison.seeds))
        local, tier, ideal = (
            float(comparison.values(policy, f"{name}_ratio")[at].mean())
            for name in ("local_hit", "global_hit", "ideal_reuse")
        )
        rows.append({"policy": policy, "local_hit": local, "global_hit": tier, "computed": 1 - local - tier,
                     "ideal_reuse": ideal})  # fmt: skip
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 1.3 + 0.5 * len(rows)), layout="constrained")
        axes = figure.subplots()
        names, left = [row["policy"] for row in rows], np.zeros(len(rows))
        parts = (("local_hit", "own cache", COLOURS[0], ""), ("global_hit", "global tier", COLOURS[4], "//"),
                 ("computed", "computed", "#DDDDDD", ""))  # fmt: skip
        for name, label, colour, hatch in parts:
            width = np.array([100 * row[name] for row in rows])
            axes.barh(names, width, left=left, color=colour, hatch=hatch, edgecolor="white", label=label)
            for y, (start, size) in enumerate(zip(left, width, strict=True)):
                if size >= 6:
                    axes.text(start + size / 2, y, f"{size:.0f} %", **INSIDE)
            left += width
        ys = np.arange(len(rows))
        ideals = [100 * row["ideal_reuse"] for row in rows]
        axes.vlines(ideals, ys - 0.4, ys + 0.4, "black", linewidth=2, label="ideal reuse")
        axes.set(xlim=(0, 100), xlabel="share of prompt tokens (%), each policy at its maximum",
                 title="Where prompt tokens come from")  # fmt: skip
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    write_csv(folder / "hits.csv", rows)
    return save(figure, folder / "hits.png")


def draw_heat(comparison: Comparison, folder: Path) -> Path:
    """Prompt tokens in flight per instance over time, sorted from light to heavy instances.

    All panels show the same requests: the first seed, at the load of the best policy's maximum.
    """
    load, seed, runs = _same_requests(comparison)
    heat = {run["policy"]: np.array(run["curves"]["in_flight_tokens"]).T / 1000 for run in runs}
    heat = {policy: values[np.argsort(values.mean(axis=1))] for policy, values in heat.items()}
    top = max(1.0, float(np.percentile(np.concatenate([v.ravel() for v in heat.values()]), 99)))
    edges = np.array(runs[0]["curves"]["edges_s"]) / 60
    settings = runs[0]["settings"]
    with matplotlib.rc_context(STYLE | {"axes.grid": False}):
        columns = min(2, len(heat))
        rows = -(-len(heat) // columns)
        figure = Figure(figsize=(5.2 * columns, 0.6 + 2.4 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes in grid.flat[len(heat) :]:
            axes.set_visible(False)
        colours = {"cmap": "cividis", "vmin": 0, "vmax": top, "rasterized": True}
        for axes, (policy, values) in zip(grid.flat, heat.items(), strict=False):
            image = axes.pcolormesh(edges, np.arange(len(values) + 1), values, **colours)
            axes.axvline(settings["warm_up_s"] / 60, color="white", linestyle="--", linewidth=1)
            axes.set_title(policy)
        for axes in grid[:, 0]:
            axes.set_ylabel("instances by load")
        for axes in list(grid.flat)[: len(heat)][-columns:]:  # the last of each column
            axes.set_xlabel("minutes (dashed: end of the warm-up)")
            axes.tick_params(labelbottom=True)
        figure.colorbar(image, ax=grid, label="thousand prompt tokens in flight", extend="max")
        title = f"Load of the instances at load {load:g} ({WHY}), seed {seed}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    write_whole(folder / "heat.json", as_json({"edges_min": edges, "thousand_tokens_in_flight": heat}))
    return save(figure, folder / "heat.png")


def draw_latencies(comparison: Comparison, folder: Path) -> Path:
    """Distributions of TTFT, TTFT / limit, and TPOT over all scored requests, with the limits as lines."""
    load, seed, runs = _same_requests(comparison)
    limit = runs[0]["settings"]["slo"]
    panels = (
        ("ttft_s", "TTFT (s)", None, "the limit grows with the prompt"),
        ("ttft_of_limit", "TTFT / limit", 1.0, "limit"),
        ("tpot_s", "TPOT (s)", limit["tpot_s"], f"limit {1000 * limit['tpot_s']:g} ms"),
    )
    data = {name: {run["policy"]: run["curves"][name] for run in runs} for name, *_ in panels}
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 3.8), layout="constrained")
        grid = figure.subplots(1, 3, sharey=True)
        for axes, (name, label, line, words) in zip(grid, panels, strict=True):
            for k, (policy, values) in enumerate(data[name].items()):
                shares = np.linspace(0, 100, len(values))
                axes.plot(np.maximum(values, 1e-4), shares, label=policy, **_line(k))
            if line is not None:
                axes.axvline(line, color="black", linewidth=1)
                axes.annotate(words, (line, 3), (4, 0), textcoords="offset points", fontsize=9)
            times = np.concatenate([np.asarray(v, dtype=float) for v in data[name].values()])
            if len(times):
                axes.set_xlim(max(np.percentile(times, 0.5), 1e-3), max(times.max(), 1.2 * (line or 0)))
            axes.set(xscale="log", xlabel=label, ylim=(0, 100))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_locator(LogLocator(subs=(2, 5)))
            axes.xaxis.set_minor_formatter("{x:g}")
        grid[0].set(ylabel="share of requests (%)",
                    title=f"Latencies at load {load:g} ({WHY}), seed {seed}")  # fmt: skip
        figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    write_whole(folder / "latency.json", as_json(data))
    return save(figure, folder / "latency.png")


def _same_requests(comparison: Comparison):
    """The load of the best policy's maximum, the first seed, and the runs of all policies there."""
    best = max(comparison.policies, key=lambda policy: comparison.maximum(policy).mean())
    load, seed = comparison.loads[int(comparison.best_load(best)[0])], comparison.seeds[0]
    return load, seed, [comparison.record(policy, load, seed) for policy in comparison.policies]


def _colour(k: int) -> str:
    return COLOURS[k % len(COLOURS)]


def _line(k: int) -> dict:
    return {"color": _colour(k), "linestyle": DASHES[k % len(DASHES)]}


def save(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG, whole or not at all."""
    FigureCanvasAgg(figure)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150, metadata={"Software": None})
    write_whole(path, content.getvalue())
    return path
