"""Figures 5 and 9: what the two traces reuse, and how even load balance makes them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.experiment import prepare
from smetric_gym.reproduce.fidelity import Found
from smetric_gym.reproduce.grid import cells, seeds_of
from smetric_gym.reproduce.panels import legend_below
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import COLOURS, new_figure
from smetric_gym.workload.audit import QUANTITIES, audit

PRESET = "workload.preset"
TRACES = ("trace1", "trace2")
BOTH = "mean of the two traces, per seed"
PARTS = {
    "same_session_share": "same session",
    "system_share": "system prompt",
    "other_sessions_share": "other sessions",
}
"""Quantities of an audit that split the reuse, and their names."""
Audits = dict[str, list[dict[str, Any]]]


def figure_5(work: Work) -> Outcome:
    """Reuse in an infinite store and where it comes from, for both traces, with the numbers of section 3 around it."""
    found = _audits(work)
    first, second = TRACES

    def of(name: str, trace: str) -> np.ndarray:
        return np.array([seed["values"][name] for seed in found[trace]])

    def both(name: str) -> np.ndarray:
        return np.stack([of(name, trace) for trace in TRACES])

    rows = {
        "W1": Found(of("ideal_reuse", first)),
        "W2": Found(of("ideal_reuse", second)),
        "W3": Found(of("same_session_share", first)),
        "W4": Found(of("system_share", first)),
        "W5": Found(of("system_share", second)),
        "W6": Found(both("reuse_within_100s").mean(axis=0), note=BOTH),
        "W7": Found(of("tool_triggered", first)),
        "W8": Found(of("tool_triggered", second)),
        "W9": Found(both("top_25pct_sessions").min(axis=0), note="the lower of the two traces, per seed"),
    }
    words = []
    for trace in TRACES:
        shares = ", ".join(f"{label} {100 * of(name, trace).mean():.0f} %" for name, label in PARTS.items())
        reuse = 100 * of("ideal_reuse", trace).mean()
        words.append(f"{trace}: an infinite store reuses {reuse:.1f} % of the prompt tokens, of that {shares}.")
    figure, axes = new_figure(5.6, 3.8)
    for k, trace in enumerate(TRACES):
        below = 0.0
        for (name, label), colour in zip(PARTS.items(), COLOURS, strict=False):
            size = 100 * float((of("ideal_reuse", trace) * of(name, trace)).mean())
            axes[0, 0].bar(k, size, 0.5, bottom=below, color=colour, label=label if k == 0 else None)
            axes[0, 0].text(k, below + size / 2, f"{size:.0f}", ha="center", va="center", color="white")
            below += size
        axes[0, 0].text(k, below + 1, f"{below:.1f} %", ha="center")
    axes[0, 0].set_xticks(range(len(TRACES)), TRACES)
    axes[0, 0].set(ylabel="share of prompt tokens (%)", ylim=(0, 100), xlim=(-0.6, 1.6))
    axes[0, 0].set_title("What an infinite store would reuse")
    axes[0, 0].grid(axis="x", visible=False)
    legend_below(figure, axes[0, 0])
    return Outcome(_table(found), figure, words, rows)


def figure_9(work: Work) -> Outcome:
    """max/mean of the tokens in flight per minute when each request goes where fewest are and stays its recorded time.

    The paper simulates as many instances as its cluster has, a number that it does not give; what it gives is the
    requests per minute and instance, 43 and 48, and so does the load here. Ours are as many as in its testbed.
    """
    found = _audits(work)
    balance = {trace: [np.array(seed["balance"])[:, 0] for seed in found[trace]] for trace in TRACES}
    first = found[TRACES[0]]
    sent = np.mean([seed["values"]["sent_max_over_mean"] for seed in first])
    rows = {
        "W10": Found(np.array([seed["values"]["requests_per_minute_per_instance"] for seed in first])),
        "W11": Found(
            np.array([seed["values"]["in_flight_max_over_mean"] for seed in first]),
            note="prompt + output tokens of the requests in flight, averaged over each minute, at the paper's rate; "
            f"of the tokens sent in each minute the median max/mean would be {sent:.2f}",
        ),
    }
    words = []
    for trace in TRACES:
        median, worst, rate = (
            float(np.mean([seed["values"][name] for seed in found[trace]]))
            for name in ("in_flight_max_over_mean", "in_flight_max_over_mean_worst", "requests_per_minute_per_instance")
        )
        words.append(f"{trace}: max/mean {median:.2f} in the median minute, {worst:.2f} in the worst, at {rate:.0f} "
                     "requests per minute and instance.")  # fmt: skip
    return Outcome(_table(found), _picture_9(balance), words, rows)


def _audits(work: Work) -> Audits:
    """The numbers of an audit, and max/mean per minute, of every trace and seed; kept in the store."""
    seeds = seeds_of(work.settings)
    here = [(cell[PRESET], {**inside, "seed": seed}) for cell, inside in cells(work.settings) for seed in seeds]
    found: Audits = {}
    for done, (trace, settings) in enumerate(here):
        found.setdefault(trace, []).append(work.kept("audit", settings, partial(_audit, settings)))
        if work.progress is not None:
            work.progress(done + 1, len(here))
    return found


def _audit(settings: dict[str, Any]) -> dict[str, Any]:
    instances = settings["cluster"]["instances"]
    trace = prepare.workload(settings, instances)
    block, warm_up_s = settings["cluster"]["block_tokens"], settings["warm_up_s"]
    measured = audit(trace, block=block, instances=instances, warm_up_s=warm_up_s)
    return {"values": measured.values, "balance": measured.balance.tolist()}


def _table(found: Audits) -> list[dict[str, Any]]:
    rows = []
    for name, (label, unit) in QUANTITIES.items():
        if name in found[TRACES[0]][0]["values"]:
            means = {trace: interval(np.array([s["values"][name] for s in found[trace]])).mean for trace in TRACES}
            rows.append({"quantity": label, **means, "unit": unit})
    return rows


def _picture_9(balance: dict[str, list[np.ndarray]]) -> Figure:
    figure, axes = new_figure(5.6, 3.8)
    levels = np.linspace(0, 1, 201)
    for (trace, seeds), colour, dashes in zip(balance.items(), COLOURS, ("-", "--"), strict=False):
        values = np.quantile(np.concatenate(seeds), levels)
        axes[0, 0].plot(values, 100 * levels, color=colour, linestyle=dashes, label=trace)
    axes[0, 0].set(xlabel="max/mean of the tokens in flight, 1 min", ylabel="share of minutes (%)", ylim=(0, 100))
    axes[0, 0].set_title("Load balance with recorded durations")
    axes[0, 0].legend(loc="lower right", frameon=False)
    return figure
