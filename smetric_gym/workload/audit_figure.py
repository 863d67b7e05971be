"""The picture of an audit: what is reused, how soon, by whom, and how far even good balancing gets."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from smetric_gym.workload.audit import Audit

# Okabe and Ito's palette: told apart by colour-blind readers and in grey.
_SYSTEM, _SAME, _OTHER, _LINE = "#E69F00", "#0072B2", "#56B4E9", "#D55E00"
MOST_BINS = 300
LABEL_SHARE = 0.05
"""A narrower warm-up has no room for its label."""


def draw(audit: Audit, path: str | Path) -> Path:
    """Draw four panels and save them; the format follows the suffix of ``path``.

    Panels: ideal reuse per minute by region (SMetric figure 5), time since the last use of reused tokens,
    tokens held by the largest sessions, and max/mean load under least in-flight tokens (figure 9).

    Args:
        audit: from ``audit.audit``.
        path: file to write, e.g. ``audit.png``.

    Returns:
        The path written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.2), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    for panel, paint in zip(panels, (_reuse, _intervals, _skew, _balance), strict=True):
        paint(panel, audit)
        panel.spines[["top", "right"]].set_visible(False)
    size = f"{audit.values['requests']:,.0f} requests"
    if audit.instances is not None:
        size += f" for {audit.instances} instances"
    warm_up = f", after a warm-up of {audit.warm_up_s:g} s" if audit.warm_up_s else ""
    figure.suptitle(f"Workload {audit.name}: {size}{warm_up}", fontweight="bold")
    path = Path(path)
    figure.savefig(path, dpi=140)
    return path


def _binned(minutes: np.ndarray) -> tuple[np.ndarray, int]:
    """The minutes, or sums over as many of them that at most ``MOST_BINS`` remain; and how many minutes each has."""
    width = -(-len(minutes) // MOST_BINS)
    starts = np.arange(0, len(minutes), width)
    bins = minutes[starts]
    for name in ("requests", "prompt", "system", "same", "other"):
        bins[name] = np.add.reduceat(minutes[name], starts)
    return bins, width


def _reuse(panel, audit: Audit) -> None:
    panel.set_title("Prompt tokens that an infinite store holds, per minute")
    panel.set_xlabel("time (min)")
    panel.set_ylabel("share of prompt tokens (%)")
    if not audit.has_content:
        return _nothing(panel, "the trace has lengths only")
    m, width = _binned(audit.minutes)
    if width > 1:
        panel.set_title(f"Prompt tokens that an infinite store holds, per {width} min")
    x = np.append(m["start_s"] / 60, len(audit.minutes))
    share = {n: 100 * m[n] / np.maximum(m["prompt"], 1) for n in ("same", "other", "system")}
    below = np.zeros(len(m))
    v = audit.values
    for name, colour, label, key in (
        ("same", _SAME, "same session", "same_session_share"),
        ("other", _OTHER, "other sessions", "other_sessions_share"),
        ("system", _SYSTEM, "system prompt", "system_share"),
    ):
        top = below + share[name]
        text = f"{label}: {v.get(key, 0):.0%} of the reuse"
        panel.fill_between(
            x, np.append(below, below[-1]), np.append(top, top[-1]), step="post", color=colour, label=text
        )
        below = top
    panel.axhline(100 * v["ideal_reuse"], color="black", linewidth=1.2, linestyle="--")
    panel.annotate(f"mean {v['ideal_reuse']:.1%}", (x[-1], 103), ha="right", fontsize=9)
    if audit.warm_up_s:
        panel.axvspan(0, audit.warm_up_s / 60, color="white", alpha=0.55, linewidth=0)
        if audit.warm_up_s / 60 >= LABEL_SHARE * x[-1]:
            panel.annotate("warm-up", (audit.warm_up_s / 120, 103), ha="center", fontsize=9)
    panel.set_xlim(x[0], x[-1])
    panel.set_ylim(0, 112)
    panel.legend(loc="lower right", fontsize=9, framealpha=0.9, reverse=True)


def _intervals(panel, audit: Audit) -> None:
    panel.set_title("Time since reused tokens were last used")
    panel.set_xlabel("time since the last use (s)")
    panel.set_ylabel("reused tokens at most this old (%)")
    total = audit.interval_tokens.sum() if audit.has_content else 0
    if total == 0:
        return _nothing(panel, "nothing is reused")
    panel.plot(
        audit.interval_edges_s[1:], 100 * np.cumsum(audit.interval_tokens) / total, color=_SAME, linewidth=2
    )
    within = audit.values["reuse_within_100s"]
    panel.plot([100, 100, 0.01], [0, 100 * within, 100 * within], color=_LINE, linewidth=1.2, linestyle="--")
    panel.annotate(f"{within:.1%} within 100 s", (0.012, 100 * within + 1.5), color=_LINE)
    panel.set_xscale("log")
    panel.set_xlim(0.01, max(1e4, 1.5 * audit.minutes["start_s"][-1]))
    panel.set_ylim(0, 105)
    panel.grid(alpha=0.3)


def _skew(panel, audit: Audit) -> None:
    panel.set_title("Tokens held by the largest sessions")
    panel.set_xlabel("largest sessions (% of all)")
    panel.set_ylabel("share of tokens (%)")
    panel.plot(np.arange(101), 100 * audit.lorenz, color=_SAME, linewidth=2, label="this workload")
    panel.plot([0, 100], [0, 100], color="grey", linewidth=1, linestyle=":", label="all sessions alike")
    top = audit.values["top_25pct_sessions"]
    panel.plot([25, 25, 0], [0, 100 * top, 100 * top], color=_LINE, linewidth=1.2, linestyle="--")
    panel.annotate(f"25 % of sessions: {top:.0%}", (27, 100 * top - 6), color=_LINE)
    panel.set_xlim(0, 100)
    panel.set_ylim(0, 105)
    panel.grid(alpha=0.3)
    panel.legend(loc="lower right", fontsize=9)


def _balance(panel, audit: Audit) -> None:
    panel.set_title("Imbalance under least in-flight tokens, per minute")
    panel.set_xlabel("time (min)")
    panel.set_ylabel("fullest instance / mean (ratio)")
    if not np.isfinite(audit.balance).any():
        return _nothing(panel, "needs the number of instances and a full minute")
    width = -(-len(audit.balance) // MOST_BINS)
    starts = np.arange(0, len(audit.balance), width)
    known = np.isfinite(audit.balance)
    sums, counts = (np.add.reduceat(a, starts) for a in (np.where(known, audit.balance, 0), known.astype(int)))
    balance = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    if width > 1:
        panel.set_title(f"Imbalance under least in-flight tokens, mean of {width} minutes")
    x = starts + np.ceil(audit.warm_up_s / 60) + width / 2
    for ratio, name, label, colour, marker in (
        (balance[:, 1], "sent", "tokens sent", _LINE, "s"),
        (balance[:, 0], "in_flight", "tokens in flight", _SAME, "o"),
    ):
        median = audit.values[f"{name}_max_over_mean"]
        text = f"{label}: median {median:.2f}"
        panel.plot(x, ratio, color=colour, marker=marker, markersize=3.5, linewidth=1, label=text)
        panel.axhline(median, color=colour, linewidth=1, linestyle="--")
    panel.set_ylim(1, max(2.5, 1.2 * np.nanmax(balance)))
    panel.grid(alpha=0.3)
    panel.legend(loc="upper right", fontsize=9, ncols=2)


def _nothing(panel, why: str) -> None:
    panel.text(0.5, 0.5, why, ha="center", va="center", transform=panel.transAxes, color="grey")
    panel.set_xticks([])
    panel.set_yticks([])
