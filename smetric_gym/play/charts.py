"""The curves of the playground, drawn by plotly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from smetric_gym.play.journey import Stop
from smetric_gym.play.recording import Recording

COLOURS = ("#2b84bd", "#d9822b")
"""Of the left and the right policy; dashes and symbols differ as well."""
DASHES = ("solid", "dash")
SYMBOLS = ("circle", "diamond")
LOCAL, FETCHED, COMPUTED = "#009e73", "#e0b000", "#b0607f"
INK, GRID = "#7d8590", "rgba(125,133,144,0.25)"
"""Read on a light and on a dark page alike, so that a chart need not know on which it stands."""
LONGEST_CURVE = 300
MOST_DOTS = 3500
"""Dots of a chart: a browser draws each as an element of its own."""
CONFIG = {"displayModeBar": False, "responsive": True}


def _figure(height: int, **layout) -> go.Figure:
    figure = go.Figure()
    return _dress(figure, height, **layout)


def _dress(figure: go.Figure, height: int, **layout) -> go.Figure:
    figure.update_layout(
        height=height,
        margin={"l": 60, "r": 12, "t": 34, "b": 40},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "size": 13},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        hoverlabel={"font": {"size": 13}},
        **layout,
    )
    figure.update_xaxes(gridcolor=GRID, zerolinecolor=GRID, automargin=True)
    figure.update_yaxes(gridcolor=GRID, zerolinecolor=GRID, automargin=True)
    return figure


def heat(recording: Recording, top: float, time_s: float | None = None) -> go.Figure:
    """Prompt tokens in flight of every instance over time; `top` is the end of the colour scale."""
    figure = _figure(230)
    figure.add_heatmap(
        x=(recording.bins_s[1:] + recording.bins_s[:-1]) / 2,
        y=np.arange(recording.scored.instances),
        z=np.rint(recording.in_flight_tokens.T / 1000),
        zmin=0,
        zmax=max(1.0, top / 1000),
        colorscale="Cividis",
        colorbar={"title": {"text": "k tokens<br>in flight"}, "thickness": 12},
        hovertemplate="instance %{y} at %{x:.0f} s: %{z:,}k tokens in flight<extra></extra>",
    )
    _warm_up(figure, recording)
    if time_s is not None:
        figure.add_vline(x=time_s, line={"color": "#ff5a36", "width": 2})
    figure.update_layout(margin={"t": 8})
    figure.update_xaxes(title="time (s)", showgrid=False)
    figure.update_yaxes(title="instance", showgrid=False)
    return figure


def _warm_up(figure: go.Figure, recording: Recording) -> None:
    if recording.scored.warm_up_s > 0:
        figure.add_vline(x=recording.scored.warm_up_s, line={"color": INK, "width": 1, "dash": "dot"})


def over_time(pair: Sequence[Recording]) -> go.Figure:
    """Tokens per second within the SLO by time of arrival, and the imbalance of the load."""
    figure = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.12)
    for k, run in enumerate(pair):
        style = {"line": {"color": COLOURS[k], "dash": DASHES[k], "width": 2}, "legendgroup": str(k)}
        scored = run.scored
        edges_s = np.linspace(scored.warm_up_s, scored.end_s, int(np.clip(scored.window_s / 20, 2, 60)) + 1)
        good = run.per_bin((scored.prompt + scored.output) * scored.met, edges_s)
        middle_s = (edges_s[1:] + edges_s[:-1]) / 2
        figure.add_scatter(
            x=middle_s, y=good, name=_name(pair, k), row=1, col=1,
            hovertemplate="%{y:,.0f} tokens/s within SLO, arrived about %{x:.0f} s", **style,
        )  # fmt: skip
        load = scored.in_flight_tokens(edges_s)
        mean = load.mean(axis=1)
        imbalance = np.divide(load.max(axis=1), mean, out=np.full(len(mean), np.nan), where=mean > 0)
        figure.add_scatter(
            x=middle_s, y=imbalance, name=_name(pair, k), row=2, col=1, showlegend=False,
            hovertemplate="max/mean %{y:.2f} at %{x:.0f} s", **style,
        )  # fmt: skip
    figure.update_yaxes(title="tokens/s<br>within SLO", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title="max/mean<br>load", rangemode="tozero", row=2, col=1)
    figure.update_xaxes(title="time of arrival (s)", row=2, col=1)
    return _dress(figure, 330)


def sources(pair: Sequence[Recording]) -> go.Figure:
    """Where the prompt tokens came from."""
    figure = _figure(210, barmode="stack")
    names = [_name(pair, k) for k in (1, 0)]
    runs = [pair[1], pair[0]]  # plotly draws the first bar at the bottom
    local = [run.scores["local_hit_ratio"] for run in runs]
    fetched = [run.scores["global_hit_ratio"] for run in runs]
    computed = [1 - a - b for a, b in zip(local, fetched, strict=True)]
    for words, shares, colour, ink in (
        ("on the instance", local, LOCAL, "#ffffff"),
        ("from the global tier", fetched, FETCHED, "#1b1f24"),
        ("computed", computed, COMPUTED, "#ffffff"),
    ):
        figure.add_bar(
            x=[100 * share for share in shares], y=names, name=words, orientation="h",
            marker={"color": colour},
            text=[f"{100 * share:.0f} %" for share in shares], textposition="inside", textfont={"color": ink},
            insidetextanchor="middle",
            hovertemplate="%{y}: %{x:.1f} % of the prompt tokens " + words + "<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title="share of the prompt tokens (%)", range=[0, 100])
    return figure


def latency(pair: Sequence[Recording]) -> go.Figure:
    """Distributions of the time to the first token, as a multiple of its limit, and of the time per output token."""
    figure = make_subplots(1, 2, horizontal_spacing=0.1)
    for k, run in enumerate(pair):
        scored = run.scored
        for col, values in enumerate((scored.ttft_s / scored.slo.ttft_limit_s(scored.prompt), 1e3 * scored.tpot_s), 1):
            x, y = _steps(values)
            figure.add_scatter(
                x=x, y=y, name=_name(pair, k), legendgroup=str(k), showlegend=col == 1, row=1, col=col,
                line={"color": COLOURS[k], "dash": DASHES[k], "width": 2},
                hovertemplate="%{y:.1f} % at most %{x:.3g}",
            )  # fmt: skip
    limit_ms = 1e3 * pair[0].scored.slo.tpot_s
    figure.add_vline(x=1, line={"color": INK, "dash": "dot"}, row=1, col=1)
    figure.add_vline(x=limit_ms, line={"color": INK, "dash": "dot"}, row=1, col=2)
    figure.update_xaxes(title="TTFT / its limit", type="log", row=1, col=1)
    figure.update_xaxes(title="TPOT (ms)", range=[0, 4 * limit_ms if np.isfinite(limit_ms) else 200], row=1, col=2)
    figure.update_yaxes(title="requests (%)", range=[0, 101], row=1, col=1)
    figure.update_yaxes(range=[0, 101], row=1, col=2)
    return _dress(figure, 300)


def _steps(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles of what is finite, and the share in % of all that are at most that."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.array([]), np.array([])
    levels = np.linspace(0, 1, min(LONGEST_CURVE, max(2, len(finite))))
    return np.quantile(finite, levels), 100 * levels * len(finite) / len(values)


def every(recording: Recording) -> int:
    """Every how many-th scored request `requests` draws, so that there are at most ``MOST_DOTS``."""
    return -(-len(recording.scored.outcome) // MOST_DOTS)


def shown(recording: Recording) -> np.ndarray:
    """[dots] the requests that `requests` draws, in order."""
    return np.flatnonzero(recording.scored.mask)[:: every(recording)]


def requests(recording: Recording, k: int) -> go.Figure:
    """The scored requests by arrival and TTFT over its limit; a click picks one."""
    figure = _figure(260, clickmode="event+select", dragmode="select")
    scored, index = recording.scored, shown(recording)
    rows, out = recording.setup.trace.requests[index], scored.all[index]
    late = (out["first_token_s"] - out["arrival_s"]) / scored.slo.ttft_limit_s(rows["prompt"])
    about = np.stack([index, rows["session"], rows["turn"], rows["prompt"], out["instance"]], axis=1)
    figure.add_scatter(
        x=out["arrival_s"], y=late.round(4), mode="markers", name="requests", customdata=about.astype(np.int32),
        marker={"size": 6, "color": COLOURS[k], "symbol": SYMBOLS[k], "opacity": 0.6},
        hovertemplate="request %{customdata[0]}, session %{customdata[1]}, turn %{customdata[2]}<br>"
        "%{customdata[3]:,} prompt tokens, instance %{customdata[4]}<br>TTFT %{y:.2f} of its limit<extra></extra>",
    )  # fmt: skip
    figure.add_hline(y=1, line={"color": INK, "dash": "dot"})
    figure.update_layout(showlegend=False, margin={"t": 10})
    part = f"; one dot for {every(recording)} requests" if every(recording) > 1 else ""
    figure.update_xaxes(title=f"arrival (s){part}")
    figure.update_yaxes(title="TTFT / its limit", type="log")
    return figure


def path(pair: Sequence[Recording], journeys: Sequence[Sequence[Stop]], time_s: float) -> go.Figure:
    """The requests of one session over instances and time, under both policies."""
    figure = _figure(280)
    for k, stops in enumerate(journeys):
        if not stops:
            continue
        shift = (k - 0.5) * 0.24  # the two policies beside each other on an instance
        x, y, texts, sizes = [], [], [], []
        for stop in stops:
            x += [stop.arrival_s, stop.finish_s, None]
            y += [stop.instance + shift] * 2 + [None]
            texts.append(
                f"turn {stop.turn} on instance {stop.instance} {f'({stop.why})' if stop.why else ''}<br>"
                f"{stop.prompt:,} prompt tokens: {stop.local:,} in place, {stop.fetched:,} fetched<br>"
                f"TTFT {stop.ttft_s:.2f} s of {stop.ttft_limit_s:.2f} s"
            )
            sizes.append(10 if stop.within_slo else 15)
        places = [stop.instance + shift for stop in stops]
        arrivals = [stop.arrival_s for stop in stops]
        figure.add_scatter(
            x=arrivals, y=places, mode="lines", line={"color": COLOURS[k], "width": 1, "shape": "hv", "dash": "dot"},
            hoverinfo="skip", showlegend=False,
        )  # fmt: skip
        figure.add_scatter(
            x=x, y=y, mode="lines", line={"color": COLOURS[k], "width": 6}, hoverinfo="skip", showlegend=False
        )
        symbols = [SYMBOLS[k] if stop.within_slo else "x" for stop in stops]
        figure.add_scatter(
            x=arrivals, y=places, mode="markers", name=_name(pair, k),
            text=texts, hovertemplate="%{text}<extra></extra>",
            marker={"size": sizes, "symbol": symbols, "color": COLOURS[k], "line": {"width": 1, "color": "#ffffff"}},
        )  # fmt: skip
    figure.add_vline(x=time_s, line={"color": "#ff5a36", "width": 2})
    figure.update_xaxes(title="time (s); bars: from arrival to the last token, crosses: SLO missed")
    figure.update_yaxes(title="instance", range=[-0.6, pair[0].scored.instances - 0.4])
    return figure


def _name(pair: Sequence[Recording], k: int) -> str:
    """The label, with the side where both policies have the same."""
    same = pair[0].label == pair[1].label
    return f"{pair[k].label} ({'left' if k == 0 else 'right'})" if same else pair[k].label
