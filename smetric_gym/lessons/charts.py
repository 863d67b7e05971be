"""The charts of the lessons, drawn by plotly in the colours of the playground."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from smetric_gym.experiment.evaluate import Result
from smetric_gym.play.charts import CONFIG, GRID, INK

COLOURS = ("#2b84bd", "#d9822b", "#009e73", "#b0607f", "#7d8590", "#c9a800")
"""Told apart by the colour-blind; the dashes and symbols differ as well."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star")
BIN_S = 10.0
MANY_BARS = 16


def show(figure: go.Figure) -> Any:
    """A figure as marimo shows it from its own copy of plotly, without a network."""
    import marimo as mo

    return mo.ui.plotly(figure, config=CONFIG)


def lines(curves: Mapping[str, tuple[Sequence, Sequence]], x: str, y: str, **axis: Any) -> go.Figure:
    """Curves with a point at each value.

    Args:
        curves: (x values, y values) by name; x values may be words.
        x: label with its unit.
        y: label with its unit.
        **axis: of plotly's x axis, e.g. ``type="log"``.
    """
    figure = _figure(x, y, **axis)
    for k, (name, (at, values)) in enumerate(curves.items()):
        figure.add_scatter(
            x=list(at), y=list(values), name=name, mode="lines+markers" if len(at) < 40 else "lines",
            line={"color": COLOURS[k % len(COLOURS)], "dash": DASHES[k % len(DASHES)], "width": 2},
            marker={"symbol": SYMBOLS[k % len(SYMBOLS)], "size": 8},
        )  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    return figure


def bars(values: Mapping[str, Mapping[str, float]], y: str) -> go.Figure:
    """Bars side by side, ``values[series][place]``, with their values where there is room."""
    figure = _figure("", y)
    figure.update_layout(barmode="group")
    written = sum(map(len, values.values())) <= MANY_BARS
    for k, (name, of) in enumerate(values.items()):
        figure.add_bar(
            x=list(of), y=list(of.values()), name=name, cliponaxis=False, textangle=0,
            text=[f"{value:,.3g}" for value in of.values()] if written else None,
            marker={"color": COLOURS[k % len(COLOURS)], "pattern": {"shape": ("", "/", ".", "x", "-", "+")[k % 6]}},
        )  # fmt: skip
    return figure


def plane(z: np.ndarray, x: Sequence, y: Sequence, *, x_label: str, y_label: str, unit: str) -> go.Figure:
    """A number for each pair of two parameters, ``z[y, x]``, written into its field."""
    figure = _figure(x_label, y_label)
    figure.add_heatmap(
        x=[f"{v:g}" for v in x], y=[f"{v:g}" for v in y], z=z, colorscale="Cividis", texttemplate="%{z:,.3~s}",
        colorbar={"title": {"text": unit}, "thickness": 12},
    )  # fmt: skip
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_yaxes(type="category", showgrid=False)
    return figure


def instances(result: Result, top: float | None = None) -> go.Figure:
    """Prompt tokens in flight of every instance over time; `top` is the end of the colour scale in tokens."""
    scored = result.scored
    edges_s = np.arange(0.0, scored.end_s + BIN_S, BIN_S)
    load = scored.in_flight_tokens(edges_s)
    figure = _figure("time (s)", "instance", height=230)
    figure.add_heatmap(
        x=edges_s[:-1] + BIN_S / 2, y=np.arange(scored.instances), z=np.rint(load.T / 1000), zmin=0,
        zmax=(load.max() if top is None else top) / 1000, colorscale="Cividis",
        colorbar={"title": {"text": "k tokens<br>in flight"}, "thickness": 12},
        hovertemplate="instance %{y} at %{x:.0f} s: %{z:,}k tokens in flight<extra></extra>",
    )  # fmt: skip
    figure.add_vline(x=scored.warm_up_s, line={"color": "#ffffff", "width": 1, "dash": "dot"})
    return figure


def _figure(x: str, y: str, height: int = 330, **axis: Any) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        height=height,
        margin={"l": 60, "r": 12, "t": 34, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "size": 13},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )
    figure.update_xaxes(title=x, gridcolor=GRID, zerolinecolor=GRID, automargin=True, **axis)
    figure.update_yaxes(title=y, gridcolor=GRID, zerolinecolor=GRID, automargin=True)
    return figure
