"""How the reproduction's pictures look: one colour, marker and name per policy in all of them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from smetric_gym.experiment.figures import COLOURS, DASHES, MARKERS, STYLE
from smetric_gym.experiment.store import write_whole
from smetric_gym.reproduce.statistics import interval

ORDER = ("smetric", "bailian", "lmetric", "load_balance", "dynamo", "smetric_v2", "smetric_basic", "lmetric_v1")
NAMES = {
    "smetric": "SMetric", "bailian": "Bailian", "lmetric": "LMetric", "load_balance": "load balance",
    "dynamo": "Dynamo", "smetric_v2": "SMetric v2", "smetric_basic": "SMetric (no guards)",
    "lmetric_v1": "LMetric (L - c) x load", "smetric_overload_guard": "OVERLOAD guard only",
    "smetric_eviction_guard": "HIT_RATIO guard only", "session_sticky": "sticky sessions",
    "smetric_v2(global_hits=1)": "SMetric v2, global hits count",
    "smetric_v2_overload(global_hits=1)": "SMetric v2 with the load guard",
}  # fmt: skip
"""Policies as the paper writes them."""


def name_of(policy: str) -> str:
    """A policy's name in pictures and tables."""
    return NAMES.get(policy, policy)


def target_name(target: str) -> str:
    """A score as the paper writes it: "prefill TPS within SLO"."""
    return target.replace("_", " ").replace("tps", "TPS").replace("slo", "SLO")


def gain_words(values: np.ndarray) -> str:
    """A relative difference with its interval: "+3.1 % (95 % interval -0.4 to +6.0 %)".

    Args:
        values: [seeds] float64, paired.
    """
    mean, low, high = interval(values)
    ends = "" if np.isnan(low) else f" (95 % interval {100 * low:+.1f} to {100 * high:+.1f} %)"
    return f"{100 * mean:+.1f} %{ends}"


def line_of(policy: str, others: int = 0) -> dict[str, Any]:
    """Colour, marker and dashes of a policy; ``others`` numbers the ones that `ORDER` does not know."""
    k = ORDER.index(policy) if policy in ORDER else others
    colour, marker, dashes = (kinds[k % len(kinds)] for kinds in (COLOURS, MARKERS, DASHES))
    return {"color": colour, "marker": marker, "linestyle": dashes}


def colour_of(policy: str, others: int = 0) -> str:
    """Colour of a policy."""
    return line_of(policy, others)["color"]


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **how: Any) -> tuple[Figure, np.ndarray]:
    """A figure and its axes, [rows, columns]; sizes in inches."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False, **how)


def new_mosaic(width: float, height: float, rows: list[Any]) -> tuple[Figure, dict[str, Axes]]:
    """A figure whose axes span cells of a grid, by the name that stands in their cells; sizes in inches."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplot_mosaic(rows)


def save(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG, whole or not at all; the same figure gives the same bytes."""
    FigureCanvasAgg(figure)
    content = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(content, format="png", dpi=150, metadata={"Software": None})
    write_whole(path, content.getvalue())
    return path
