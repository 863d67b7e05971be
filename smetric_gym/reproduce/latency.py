"""Figures 17, 20, 23 and 24: latencies of all requests, those beyond the limits included."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.reproduce.fidelity import Found
from smetric_gym.reproduce.grid import AT_PEAK, Runs
from smetric_gym.reproduce.panels import draw_latency, draw_loads, legend_below
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import gain_words, name_of, new_figure, new_mosaic

AT_LOAD = 1.5
"""The load at which the paper shows latencies, as a multiple of our base rate."""
TTFT = ("ttft_p50_s", "ttft_p90_s", "ttft_p99_s")
TPOT = ("tpot_p50_s", "tpot_p90_s", "tpot_p95_s", "tpot_p99_s")


def figure_17(work: Work) -> Outcome:
    """Colocated, 32 instances of 30B, full tier, load 1.5: distributions of TTFT and TPOT."""
    runs = work.grid()
    median = runs.values("ttft_p50_s", "smetric", AT_LOAD)
    p99 = {policy: runs.values("tpot_p99_s", policy, AT_LOAD) for policy in ("smetric", "bailian")}
    rows = {
        "C26": Found(median),
        "C27": Found(median / runs.values("ttft_p50_s", "bailian", AT_LOAD)),
        "C34": _to_best(runs, "tpot_p50_s"),
        "C35": _to_best(runs, "tpot_p90_s"),
        "C36": Found(
            p99["smetric"] / p99["bailian"],
            holds=p99["smetric"].mean() > p99["bailian"].mean(),
            note="shown is SMetric's over Bailian's",
        ),
    }
    return Outcome(
        _table(runs, AT_LOAD, (*TTFT, *TPOT)),
        _distributions(runs, AT_LOAD, ("ttft", "tpot")),
        _words(runs, AT_LOAD, (*TTFT, "tpot_p50_s", "tpot_p90_s", "tpot_p99_s")),
        rows,
        {"latencies": _quantiles(runs, AT_LOAD, ("ttft", "tpot"))},
    )


def figure_20(work: Work) -> Outcome:
    """Colocated, 8 instances of 235B, full tier: distributions of TTFT and TPOT; the paper does not give the load."""
    runs = work.grid()
    load = runs.peak_load()
    rows = {
        "L8": Found(runs.values("ttft_p50_s", "smetric", load), note=AT_PEAK),
        "L9": Found(runs.values("ttft_p90_s", "smetric", load), note=AT_PEAK),
    }
    return Outcome(
        _table(runs, load, (*TTFT, *TPOT)),
        _distributions(runs, load, ("ttft", "tpot")),
        _words(runs, load, (*TTFT, *TPOT)),
        rows,
        {"latencies": _quantiles(runs, load, ("ttft", "tpot"))},
    )


def figure_23(work: Work) -> Outcome:
    """Disaggregated, 32 prefill instances of 30B, full tier: distribution of TTFT; the paper does not give the load."""
    runs = work.grid()
    load = runs.peak_load()
    wanted = {
        "D12": ("ttft_p50_s", "smetric"), "D13": ("ttft_p50_s", "bailian"),
        "D14": ("ttft_p90_s", "smetric"), "D15": ("ttft_p90_s", "dynamo"),
        "D16": ("ttft_p99_s", "smetric"), "D17": ("ttft_p99_s", "lmetric"),
    }  # fmt: skip
    rows = {name: Found(runs.values(score, policy, load), note=AT_PEAK) for name, (score, policy) in wanted.items()}
    return Outcome(
        _table(runs, load, TTFT),
        _distributions(runs, load, ("ttft",)),
        _words(runs, load, TTFT),
        rows,
        {"latencies": _quantiles(runs, load, ("ttft",))},
    )


def figure_24(work: Work) -> Outcome:
    """Colocated, 32 instances of 30B, full tier, with and without the guards: a load sweep, and tails at load 1.5."""
    runs = work.grid()
    rows = {
        "C28": Found(runs.values("ttft_p90_s", "smetric", AT_LOAD)),
        "C29": Found(runs.values("ttft_p99_s", "smetric", AT_LOAD)),
        "C32": Found(runs.values("tpot_p95_s", "smetric", AT_LOAD)),
    }
    for name, score in {"C30": "ttft_p90_s", "C31": "ttft_p99_s", "C33": "tpot_p95_s"}.items():
        basic, guarded = (runs.values(score, policy, AT_LOAD) for policy in ("smetric_basic", "smetric"))
        rows[name] = Found(basic, holds=basic.mean() > guarded.mean(), note=f"with the guards {guarded.mean():.3g} s")
    gain = gain_words(runs.gain("smetric", "smetric_basic"))
    words = [f"The guards change the maximum of TPS within SLO by {gain}."]
    words += _words(runs, AT_LOAD, (*TTFT, "tpot_p95_s"))
    table = _table(runs, AT_LOAD, (*TTFT, *TPOT))
    sweep: list[dict[str, Any]] = [
        {"policy": policy, "load": load, **_of(interval(runs.values(runs.target, policy, load)), runs.target)}
        for policy in runs.policies
        for load in runs.loads
    ]
    more = {"latencies": _quantiles(runs, AT_LOAD, ("ttft", "tpot")), "loads": sweep}
    return Outcome(table, _picture_24(runs), words, rows, more)


def _to_best(runs: Runs, score: str) -> Found:
    """SMetric's score relative to the lowest mean of the others at the same percentile."""
    others = [policy for policy in runs.policies if policy != "smetric"]
    best = min(others, key=lambda policy: runs.values(score, policy, AT_LOAD).mean())
    ratio = runs.values(score, "smetric", AT_LOAD) / runs.values(score, best, AT_LOAD)
    return Found(ratio, note=f"the lowest of the others is {name_of(best)}")


def _of(found: tuple[float, float, float], name: str) -> dict[str, float]:
    return dict(zip((name, "low", "high"), found, strict=True))


def _table(runs: Runs, load: float, scores: Iterable[str]) -> list[dict[str, Any]]:
    """One row per policy and percentile."""
    rows = []
    for score in scores:
        for policy in runs.policies:
            found = _of(interval(runs.values(score, policy, load)), "s")
            rows.append({"policy": policy, "load": load, "time": score.removesuffix("_s"), **found})
    return rows


def _quantiles(runs: Runs, load: float, times: Iterable[str]) -> list[dict[str, Any]]:
    """The curves of the picture: a row per share of requests, a column per latency (s) and policy."""
    columns = {f"{time}_s {p}": runs.curve(f"{time}_s", p, load) for time in times for p in runs.policies}
    shares = np.linspace(0, 1, len(next(iter(columns.values()))))
    return [
        {"share_of_requests": round(share, 4), **{name: float(values[k]) for name, values in columns.items()}}
        for k, share in enumerate(shares.tolist())
    ]


def _words(runs: Runs, load: float, scores: Iterable[str]) -> list[str]:
    words = []
    for score in scores:
        time, percentile, _ = score.split("_")
        found = ", ".join(f"{name_of(p)} {runs.values(score, p, load).mean():.3g} s" for p in runs.policies)
        words.append(f"{time.upper()} {percentile} at load {load:g}: {found}.")
    return words


def _distributions(runs: Runs, load: float, times: tuple[str, ...]) -> Figure:
    figure, axes = new_figure(1.2 + 4.4 * len(times), 3.8, 1, len(times))
    for panel, time in zip(axes[0], times, strict=True):
        draw_latency(panel, runs, time, load)
        panel.set_title(f"{time.upper()} of all requests at load {load:g}")
    legend_below(figure, axes[0, 0])
    return figure


def _picture_24(runs: Runs) -> Figure:
    figure, axes = new_mosaic(9, 7, [["a", "a"], ["ttft", "tpot"]])
    draw_loads(axes["a"], runs, AT_LOAD)
    for time in ("ttft", "tpot"):
        draw_latency(axes[time], runs, time, AT_LOAD, tail=True)
        axes[time].set_title(f"(b) {time.upper()} at load {AT_LOAD:g}")
    legend_below(figure, axes["a"])
    return figure
