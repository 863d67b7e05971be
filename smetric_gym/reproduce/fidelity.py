"""The fidelity table: what the paper measured, what comes out here, and whether the two agree under the row's rule.

``paper_targets.csv`` holds the paper's numbers and the rule of each row, both fixed before anything was run:

- *within X*: the means differ by X at most.
- *within a factor of X*: the larger is X times the smaller at most.
- *at least*, *at most*: the paper's number is a bound for ours.
- *absolute value at most*: so is it for the size of ours.
- *order and size*: a gain, or a ratio less 1, of the same sign; and it differs by half of the paper's at most, or by
  0.03 where that is more.
- *order*, *above smetric*: the order that the paper states holds for the means over the seeds.
- *reported ...*, *report ...*: shown beside the paper's, neither agrees nor misses.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from smetric_gym.reproduce.statistics import interval

SIZE_SHARE, SIZE_FLOOR = 0.5, 0.03


@dataclass
class Found:
    """What was measured for one row.

    Attributes:
        values: [seeds] float64, in the unit of the row.
        holds: for rows of an order: whether it holds, for the means over the seeds.
        note: how it was measured, where the row leaves that open.
    """

    values: np.ndarray
    holds: bool | None = None
    note: str = ""


def targets() -> list[dict[str, str]]:
    """The rows of ``paper_targets.csv``: id, figure, setting, quantity, policy, value, unit, compare."""
    text = files("smetric_gym.reproduce").joinpath("paper_targets.csv").read_text()
    return list(csv.DictReader(text.splitlines()))


def agrees(row: Mapping[str, str], found: Found) -> bool | None:
    """Whether ours agrees with the paper's under the rule of the row; None where the row only reports.

    Args:
        row: one of `targets`.
        found: ours.
    """
    rule = row["compare"]
    if rule.startswith("report"):
        return None
    if rule in ("order", "above smetric"):
        return bool(found.holds)
    paper, ours = float(row["value"]), interval(found.values).mean
    if np.isnan(ours):
        return False
    if rule == "order and size":
        base = 1.0 if row["unit"] == "ratio" else 0.0
        paper, ours = paper - base, ours - base
        return paper * ours > 0 and abs(ours - paper) <= max(SIZE_FLOOR, SIZE_SHARE * abs(paper))
    if rule == "at least":
        return ours >= paper
    if rule == "at most":
        return ours <= paper
    if rule == "absolute value at most":
        return abs(ours) <= paper
    number = float(re.search(r"[\d.]+$", rule)[0])  # type: ignore[index]  # a test reads all rules
    if rule.startswith("within a factor of"):
        return ours > 0 and 1 / number <= ours / paper <= number
    return abs(ours - paper) <= number


def table(found: Mapping[str, Found], causes: Mapping[str, str]) -> list[dict[str, Any]]:
    """The fidelity table, one row per row of the paper's numbers.

    Args:
        found: ours, by row id; a row that nothing was measured for is "not measured".
        causes: a sentence by row id for those that miss.
    """
    rows = []
    for row in targets():
        ours = found.get(row["id"])
        verdict = "not measured"
        mean = low = high = float("nan")
        if ours is not None:
            mean, low, high = interval(ours.values)
            verdict = {None: "reported", True: "agrees", False: "misses"}[agrees(row, ours)]
        rows.append({
            "id": row["id"], "figure": row["figure"], "setting": row["setting"], "quantity": row["quantity"],
            "policy": row["policy"], "paper": row["value"], "ours": mean, "low": low, "high": high, "unit": row["unit"],
            "rule": row["compare"], "verdict": verdict, "seeds": 0 if ours is None else len(ours.values),
            "note": "" if ours is None else ours.note,
            "cause": causes.get(row["id"], "") if verdict == "misses" else "",
        })  # fmt: skip
    return rows


def count(rows: Sequence[Mapping[str, Any]], verdict: str) -> int:
    """How many rows have this verdict."""
    return sum(row["verdict"] == verdict for row in rows)


def markdown(rows: Sequence[Mapping[str, Any]], command: str) -> str:
    """The fidelity table as a page: the counts, the rules, and one line per row."""
    judged = len(rows) - count(rows, "reported")
    lines = [
        "# Fidelity to the paper",
        "",
        f"{count(rows, 'agrees')} of {judged} rows agree, {count(rows, 'misses')} miss, {count(rows, 'reported')} are "
        f"only reported, {count(rows, 'not measured')} were not measured. Remade by `{command}`.",
        "",
        "Ours: mean over the seeds, in brackets the 95 % bootstrap interval over seeds. The rules were fixed before "
        "anything was run:",
        "",
        *[line for line in (__doc__ or "").splitlines() if line.startswith(("- ", "  "))],
        "",
        "| row | figure | setting | quantity | policy | paper | ours | unit | rule | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        verdict = f"**{row['verdict']}**" if row["verdict"] == "misses" else row["verdict"]
        what = (row[name] for name in ("id", "figure", "setting", "quantity", "policy"))
        cells = (*what, row["paper"] or "-", _ours(row), row["unit"], row["rule"], verdict)
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    missed = [row for row in rows if row["verdict"] == "misses"]
    lines += ["", "## Why the others miss", ""]
    for row in missed:
        cause = row["cause"] or "no cause established."
        lines.append(f"- **{row['id']}** ({row['quantity']}, {row['setting']}): {cause}")
    notes = [row for row in rows if row["note"]]
    lines += ["", "## How it was measured, where the paper leaves it open", ""]
    lines += [f"- **{row['id']}**: {row['note']}" for row in notes]
    return "\n".join(lines) + "\n"


def _ours(row: Mapping[str, Any]) -> str:
    if row["seeds"] == 0:
        return "-"
    digits = 1 if abs(row["ours"]) >= 100 else 4 if row["unit"] == "s" and abs(row["ours"]) < 1 else 3
    ends = "" if np.isnan(row["low"]) else f" ({row['low']:.{digits}f} to {row['high']:.{digits}f})"
    return f"{row['ours']:.{digits}f}{ends}"
