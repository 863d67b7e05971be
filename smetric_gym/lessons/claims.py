"""Who says so: every claim of a lesson is the paper's, or was measured in the cell above it."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

from smetric_gym.reproduce.fidelity import targets


def say(*parts: str) -> Any:
    """Markdown from parts, each of which may be indented as the code around it is."""
    import marimo as mo

    return mo.md("\n\n".join(cleandoc(part) for part in parts))


def paper(words: str, source: str) -> str:
    """A claim of the paper, as Markdown.

    Args:
        words: the claim.
        source: section or figure of the paper.
    """
    return _box("note", f"The paper says ({source})", words)


def measured(words: str, how: str) -> str:
    """A claim that the cell has just measured, as Markdown.

    Args:
        words: the claim, with the numbers of the run in it.
        how: what was run.
    """
    return _box("tip", f"Measured here ({how})", words)


def _box(kind: str, title: str, words: str) -> str:
    return f"/// {kind} | {title}\n\n{cleandoc(words)}\n\n///"


def target(row: str) -> float:
    """A number of the paper by its id in ``smetric_gym/reproduce/paper_targets.csv``, in the unit given there."""
    return float(next(line["value"] for line in targets() if line["id"] == row))


def percent(share: float, digits: int = 0) -> str:
    """A share as a percentage: 0.123 is "12 %"."""
    return f"{100 * share:.{digits}f} %"


def change(ratio: float) -> str:
    """A ratio to 1 as a signed percentage: 1.05 is "+5.0 %"."""
    return f"{100 * (ratio - 1):+.1f} %"
