"""The calibration table: what others measured, what the simulator says, and where the two differ.

Every figure is computed from the presets of ``conf/hardware`` as they are, by the event loop (``bench``),
only the AIConfigurator grids are single steps. A check without a tolerance is shown because it is known to be
off, or because the measurement leaves too much open. A check beyond its tolerance is a miss, and stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from smetric_gym.cluster import checks_h20, checks_other
from smetric_gym.cluster.checks import Check

HEADINGS = ("check", "what", "measured", "simulated", "error", "allowed", "verdict", "source", "note")
PARTS = (
    checks_h20.cold,
    checks_h20.hits,
    checks_h20.interference,
    checks_h20.links,
    checks_h20.qwen,
    checks_other.aic,
    checks_other.h200,
    checks_other.others,
)


def calibration_table() -> list[Check]:
    """All checks, computed anew in a few seconds."""
    return [check for part in PARTS for check in part()]


def rows(checks: Sequence[Check]) -> list[tuple[str, ...]]:
    """The table as texts, one column per heading of ``HEADINGS``."""
    verdicts = {None: "shown only", True: "ok", False: "MISS"}
    return [
        (
            check.name,
            check.what,
            _number(check.measured),
            _number(check.simulated),
            _error(check),
            "" if check.tolerance is None else f"{check.tolerance:.0%}",
            verdicts[check.passes],
            check.source,
            check.note,
        )
        for check in checks
    ]


def _error(check: Check) -> str:
    if math.isnan(check.error):
        return ""
    return f"{check.error:.1%} MAPE" if math.isnan(check.measured) else f"{check.error:+.1%}"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}" if value < 1000 else f"{value:.0f}"


__all__ = ["HEADINGS", "Check", "calibration_table", "rows"]
