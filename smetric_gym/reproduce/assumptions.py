"""Where the published set-up is silent: how far SMetric's gain moves over the plausible values of each assumption."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smetric_gym.reproduce.cases import Case, at_edge, cases_of, run_cases
from smetric_gym.reproduce.grid import Runs
from smetric_gym.reproduce.questions.words import columns, percent
from smetric_gym.reproduce.statistics import Interval, interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import colour_of, name_of, new_figure

OF_PAPER_GAIN = (0.10, 0.16)
"""SMetric's gain over the strongest baseline with a global tier, smallest and largest (figure 16)."""
NOTABLE = 0.05
BASELINES = ("bailian", "lmetric", "lmetric_v1", "load_balance")
OF_PAPER_BASELINES = ("bailian", "lmetric_v1", "load_balance")
"""What the paper's first version compares with; it writes LMetric without the queued prefill."""
TOGETHER = "Together"
"""Group of the cases that change several assumptions at once: an exploration, not part of the one-at-a-time table."""
COLUMNS, GAP = 3, 1.5
Row = dict[str, Any]


def assumptions(work: Work) -> Outcome:
    """Colocated, 32 instances of 30B: the gain over the strongest baseline, and over each, one assumption at a time."""
    cases = cases_of(work.settings)
    rows = [_row(case, runs) for case, runs in zip(cases, run_cases(work, cases), strict=True)]
    return Outcome(rows, _picture(rows), _words(rows))


def _row(case: Case, runs: Runs) -> Row:
    labels = {label.partition("(")[0]: label for label in runs.policies}  # a label repeats changed parameters
    smetric = labels.pop("smetric")
    group, _, assumption = case.axis.partition(": ")
    row: Row = {"group": group, "assumption": assumption, "value": case.name, "used": not case.changes}
    for name, among in (("strongest", labels), ("paper_strongest", [b for b in OF_PAPER_BASELINES if b in labels])):
        strongest = runs.strongest(smetric, among=[labels[baseline] for baseline in among])
        row |= {name: strongest, **columns(f"over_{name}", interval(runs.gain(smetric, strongest)))}
    for baseline in BASELINES:
        over = interval(runs.gain(smetric, labels[baseline])) if baseline in labels else Interval(*[float("nan")] * 3)
        row |= columns(f"over_{baseline}", over)
    return row | {
        "peak_load": runs.peak_load(), "loads": " ".join(f"{load:g}" for load in runs.loads),
        "maximum_at_edge": at_edge(runs), "target": runs.target, "seeds": len(runs.seeds),
        **{f"max_{policy}": _maximum(runs, labels.get(policy)) for policy in BASELINES},
        "max_smetric": _maximum(runs, smetric),
    }  # fmt: skip


def _maximum(runs: Runs, label: str | None) -> float:
    return float("nan") if label is None else float(runs.maximum(label).mean())


def _of(row: Row, name: str) -> Interval:
    """The gain over the baseline ``name`` ("strongest", "bailian", ...), with its interval."""
    return Interval(*(row[f"over_{name}{end}"] for end in ("", "_low", "_high")))


# ---- in words


def _words(rows: Sequence[Row]) -> list[str]:
    used = next(row for row in rows if row["used"])
    varied = [row for row in rows if not row["used"] and row["group"] != TOGETHER]
    together = [row for row in rows if row["group"] == TOGETHER]
    blocks = _blocks(row for row in rows if row["group"] != TOGETHER)
    gains = [_of(row, "strongest") for row in varied]
    low, high = OF_PAPER_GAIN
    words = [
        f"With the values used here SMetric's maximum is {percent(_of(used, 'strongest'))} against the strongest "
        f"baseline, {name_of(used['strongest'])}, and {percent(_of(used, 'paper_strongest'))} against the strongest "
        f"of the three that the paper compares ({name_of(used['paper_strongest'])}).",
        f"{len(varied)} other values of {len(blocks)} assumptions, one at a time, give {_range(varied, 'strongest')} "
        f"against the strongest baseline: the interval lies above 0 in {sum(gain.low > 0 for gain in gains)} of them "
        f"and below 0 in {sum(gain.high < 0 for gain in gains)}; against the strongest of the paper's three "
        f"{_range(varied, 'paper_strongest')}.",
        f"A gain of {NOTABLE:+.0%} or more over the strongest baseline appears at "
        f"{_list(varied, 'strongest', NOTABLE)}; the paper's {low:+.0%} to {high:+.0%} is reached or passed at "
        f"{_list(varied, 'strongest', low)}, and over its own three baselines at "
        f"{_list(varied, 'paper_strongest', low)}.",
    ]
    spread = {name: [row["over_strongest"] for row in block] for name, block in blocks.items()}
    most = sorted(spread, key=lambda name: np.ptp(spread[name]), reverse=True)[:4]
    words.append(
        "It moves most with "
        + ", ".join(f"{name[1]} ({100 * min(spread[name]):+.1f} to {100 * max(spread[name]):+.1f} %)" for name in most)
        + "."
    )
    if together:
        words.append(
            f"Of {len(together)} combinations that were tried after a first look (an exploration: chosen because they "
            f"might help SMetric) {_list(together, 'strongest', NOTABLE)} give {NOTABLE:+.0%} or more over the "
            f"strongest baseline, and {_list(together, 'paper_strongest', NOTABLE)} over the strongest of the paper's "
            "three."
        )
    words.append(
        "The strongest baseline is chosen on the seeds that it is compared on, which favours it a little; at "
        f"{sum(row['maximum_at_edge'] for row in rows)} values some policy has its maximum at the lowest or highest "
        "load that was run."
    )
    return words


def _blocks(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Rows by group and assumption, in their order."""
    blocks: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        blocks.setdefault((row["group"], row["assumption"]), []).append(row)
    return blocks


def _range(rows: Sequence[Row], name: str) -> str:
    values = [100 * row[f"over_{name}"] for row in rows]
    return f"{min(values):+.1f} to {max(values):+.1f} %"


def _list(rows: Sequence[Row], name: str, least: float) -> str:
    """The values with a gain of at least so much, the largest first, or "none"."""
    found = sorted((r for r in rows if r[f"over_{name}"] >= least), key=lambda r: -r[f"over_{name}"])
    said = [f"{r['assumption']}: {r['value']} ({percent(_of(r, name))}, {name_of(r[name])})" for r in found]
    return "; ".join(said) or "none"


# ---- in a picture


def _picture(rows: Sequence[Row]) -> Figure:
    """Gain and interval per value, grouped by assumption, in columns of about the same length."""
    blocks = list(_blocks(rows).values())
    lengths = np.cumsum([len(block) + GAP for block in blocks])
    place = np.minimum((lengths - 1e-9) * COLUMNS // lengths[-1], COLUMNS - 1)  # column of every block
    parts = [[block for block, k in zip(blocks, place, strict=True) if k == column] for column in range(COLUMNS)]
    longest = max(sum(len(block) + GAP for block in part) for part in parts)
    figure, axes = new_figure(16, 1.5 + 0.17 * longest, 1, COLUMNS, sharex=True)
    for axis, part in zip(axes[0], parts, strict=True):
        _draw_column(axis, part, longest)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_column(axis: Axes, blocks: Sequence[Sequence[Row]], longest: float) -> None:
    axis.axvspan(*(100 * gain for gain in OF_PAPER_GAIN), color="0.88", label="the paper's gains with a tier")
    axis.axvline(0, color="black", linewidth=0.8)
    y = 0.0
    ticks: dict[float, str] = {}
    for block in blocks:
        axis.text(0, y, f"{block[0]['group']}: {block[0]['assumption']}", transform=axis.get_yaxis_transform(),
                  va="center", fontsize=7.5, fontweight="bold")  # fmt: skip
        for row in block:
            y += 1
            for name, marker, colour, label in (
                ("paper_strongest", "d", "0.6", "over the strongest of the paper's three baselines"),
                ("strongest", "o", colour_of("smetric"), "over the strongest baseline"),
            ):
                mean, low, high = (100 * value for value in _of(row, name))
                axis.plot([low, high], [y, y], color=colour, linewidth=1.2)
                axis.plot(mean, y, marker, color=colour, markersize=4.5, label=None if ticks else label,
                          markerfacecolor="white" if row["used"] else colour)  # fmt: skip
            ticks[y] = row["value"]
        y += GAP
    axis.set_yticks(list(ticks), list(ticks.values()), fontsize=7)
    axis.set_ylim(longest - 0.5, -1)
    axis.set_xlabel("SMetric's gain (%); open: the value used here")
    axis.grid(axis="y", visible=False)
