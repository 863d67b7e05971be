"""The figure of the held-out comparison: every policy beside the best reference of each cell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from smetric_gym.experiment.figures import COLOURS, MARKERS, STYLE, save
from smetric_gym.experiment.tables import write_csv

if TYPE_CHECKING:
    from smetric_gym.experiment.heldout_summary import Heldout

FLOOR_PERCENT = -40.0
"""Policies that are further behind are drawn at the edge."""


def draw(result: Heldout, folder: Path) -> Path:
    """Draw ``heldout.png``, with its data in ``heldout_figure.csv`` beside it."""
    rows, cells = [], list(result.cells)
    others = [policy for policy in result.policies if policy != result.learned]
    kinds = list(dict.fromkeys(policy.split(",")[0] for policy in others))  # a tuned one looks like its default, filled
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.5, 1.6 + 0.42 * len(cells)), layout="constrained")
        axes = figure.subplots()
        axes.axvline(0, color="black", linewidth=1)
        for y, cell in enumerate(cells):
            best = result.cells[cell].maximum(result.rival(cell))
            for policy in others:
                k = kinds.index(policy.split(",")[0])
                mean = result.interval(np.log(result.cells[cell].maximum(policy) / best))[0]
                rows.append({"cell": cell, "policy": policy, "percent": mean, "low": np.nan, "high": np.nan})
                filled = "full" if policy.endswith("tuned") else "none"
                axes.plot(max(mean, FLOOR_PERCENT), y, linestyle="none", marker=MARKERS[k % len(MARKERS)], zorder=2,
                          color=COLOURS[1 + k % (len(COLOURS) - 1)], markersize=6, fillstyle=filled,
                          label=policy if y == 0 else None)  # fmt: skip
            mean, low, high = result.interval(result.log_ratio(cell, result.rival(cell)))
            rows.append({"cell": cell, "policy": result.learned, "percent": mean, "low": low, "high": high})
            axes.errorbar(mean, y, xerr=[[mean - low], [high - mean]], fmt="D", color=COLOURS[0], capsize=4, zorder=3,
                          markersize=8, label=f"{result.learned}, 95 % interval" if y == 0 else None)  # fmt: skip
        axes.set_yticks(range(len(cells)), cells)
        axes.set_ylim(len(cells) - 0.5, -0.5)
        axes.set(xlabel=f"maximum of {result.target} to the best reference of the cell (%)",
                 xlim=(FLOOR_PERCENT - 2, None), title=f"Held-out scenarios, {len(result.seeds)} seeds")  # fmt: skip
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    write_csv(folder / "heldout_figure.csv", rows)
    return save(figure, folder / "heldout.png")
