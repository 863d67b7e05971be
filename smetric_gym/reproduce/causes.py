"""Why rows of the fidelity table miss: a sentence per row, with the numbers of the experiment that supports it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def causes(settings: Mapping[str, Any]) -> dict[str, str]:
    """A sentence by row id.

    Args:
        settings: of the reproduction, for the folder of its results.
    """
    return {}
