"""Question 5: where SMetric stops helping: a map of its gain over workloads and clusters, and sweeps along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smetric_gym.reproduce.cases import at_edge, cases_of, run_cases
from smetric_gym.reproduce.grid import Runs
from smetric_gym.reproduce.questions.words import percent
from smetric_gym.reproduce.statistics import Interval, interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import colour_of, name_of, new_figure

WORKLOADS, CLUSTERS, SWEEP = "workloads", "clusters", "sweep: "
COLOURS, RANGE = "RdBu", 20.0
"""Blue where SMetric gains, red where it loses, full at 20 %."""


def question_5(work: Work) -> Outcome:
    """The gain in the maximum of TPS within SLO over the strongest baseline, per workload and cluster."""
    cases = cases_of(work.settings)
    workloads, clusters = ([case for case in cases if case.axis == axis] for axis in (WORKLOADS, CLUSTERS))
    cells = [workload + cluster for workload in workloads for cluster in clusters]
    sweeps = [case for case in cases if case.axis.startswith(SWEEP)]
    runs = run_cases(work, [*cells, *sweeps])
    pairs = [(workload.name, cluster.name) for workload in workloads for cluster in clusters]
    table = [
        {"workload": pair[0], "cluster": pair[1], **_gain(found)} for pair, found in zip(pairs, runs, strict=False)
    ]
    swept = [
        {"axis": case.axis.removeprefix(SWEEP), "value": case.name, **_gain(found)}
        for case, found in zip(sweeps, runs[len(cells) :], strict=True)
    ]
    return Outcome(table, _picture(table, swept), _words(table, swept), more={"sweeps": swept})


def _gain(runs: Runs) -> dict[str, Any]:
    strongest = runs.strongest("smetric")
    found = interval(runs.gain("smetric", strongest))
    return {
        "strongest": strongest, "gain": found.mean, "low": found.low, "high": found.high,
        **{f"max_{policy}": float(runs.maximum(policy).mean()) for policy in runs.policies},
        "load": runs.peak_load(), "maximum_at_edge": at_edge(runs), "seeds": len(runs.seeds),
    }  # fmt: skip


def _sure(row: dict[str, Any]) -> int:
    """1 where the interval of a gain lies above 0, -1 where it lies below, else 0."""
    return int(row["low"] > 0) - int(row["high"] < 0)


def _words(table: Sequence[dict[str, Any]], swept: Sequence[dict[str, Any]]) -> list[str]:
    helps, hurts = ([row for row in table if _sure(row) == sign] for sign in (1, -1))
    best, worst = (pick(table, key=lambda row: row["gain"]) for pick in (max, min))
    words = [
        f"Of {len(table)} pairs of a workload and a cluster SMetric gains over the strongest baseline in {len(helps)}, "
        f"loses in {len(hurts)}; in {len(table) - len(helps) - len(hurts)} the interval contains 0 or there is none.",
        *(
            f"{word} is {row['workload']} on {row['cluster']}: {_shown(row)} against {name_of(row['strongest'])}."
            for word, row in (("Best", best), ("Worst", worst))
        ),
    ]
    for key in ("workload", "cluster"):
        means = {
            name: np.mean([row["gain"] for row in table if row[key] == name])
            for name in dict.fromkeys(row[key] for row in table)
        }
        said = ", ".join(f"{name} {100 * mean:+.1f} %" for name, mean in means.items())
        words.append(f"Mean over the map by {key}: {said}.")
    for axis in dict.fromkeys(row["axis"] for row in swept):
        here = [row for row in swept if row["axis"] == axis]
        said = ", ".join(f"{row['value']}: {100 * row['gain']:+.1f} %" for row in here)
        words.append(f"Over {axis}: {said}.")
    return words


def _shown(row: dict[str, Any]) -> str:
    return percent(Interval(row["gain"], row["low"], row["high"]))


def _picture(table: Sequence[dict[str, Any]], swept: Sequence[dict[str, Any]]) -> Figure:
    axes_of_sweeps = list(dict.fromkeys(row["axis"] for row in swept))
    rows = max(1, -(-len(axes_of_sweeps) // 2))
    figure, axes = new_figure(15, 1.2 + 2.2 * rows, rows, 4)
    grid = axes[0, 0].get_gridspec()
    for axis in axes[:, :2].flat:
        axis.remove()
    _draw_map(figure.add_subplot(grid[:, :2]), table)
    for k, axis in enumerate(axes[:, 2:].flat):
        if k >= len(axes_of_sweeps):
            axis.remove()
            continue
        _draw_sweep(axis, axes_of_sweeps[k], [row for row in swept if row["axis"] == axes_of_sweeps[k]])
    return figure


def _draw_map(axis: Axes, table: Sequence[dict[str, Any]]) -> None:
    workloads, clusters = (list(dict.fromkeys(row[key] for row in table)) for key in ("workload", "cluster"))
    gains = np.array([100 * row["gain"] for row in table]).reshape(len(workloads), len(clusters))
    image = axis.imshow(gains, cmap=COLOURS, vmin=-RANGE, vmax=RANGE, aspect="auto")
    for k, row in enumerate(table):
        y, x = divmod(k, len(clusters))
        weight = "bold" if _sure(row) else "normal"
        colour = "white" if abs(gains[y, x]) > 0.7 * RANGE else "black"
        middle: dict[str, Any] = {"ha": "center", "va": "center", "color": colour}
        axis.text(x, y - 0.1, f"{gains[y, x]:+.1f}", fontsize=10, fontweight=weight, **middle)
        axis.text(x, y + 0.25, name_of(row["strongest"]), fontsize=6.5, **middle)
    axis.set_xticks(range(len(clusters)), [name.replace(" ", "\n", 1) for name in clusters], fontsize=8)
    axis.set_yticks(range(len(workloads)), workloads, fontsize=8)
    axis.grid(visible=False)
    axis.set_title("SMetric's gain (%) over the strongest baseline, named below it; bold: interval without 0")
    axis.figure.colorbar(image, ax=axis, shrink=0.7, extend="both")


def _draw_sweep(axis: Axes, name: str, rows: Sequence[dict[str, Any]]) -> None:
    mean, low, high = (100 * np.array([row[key] for row in rows]) for key in ("gain", "low", "high"))
    at = range(len(rows))
    ends = np.nan_to_num([mean - low, high - mean])
    axis.errorbar(at, mean, yerr=ends, color=colour_of("smetric"), marker="o", capsize=2)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set_xticks(at, [row["value"] for row in rows])
    axis.set(xlabel=name, ylabel="gain (%)")
