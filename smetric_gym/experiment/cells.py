"""Cells: the clusters and loads over which routers are trained, tuned and compared, from a file of ``conf/cells``."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import check
from smetric_gym.experiment.settings import GROUPS, compose, group_file, unknown
from smetric_gym.experiment.store import RUN_KEYS

KEYS = ("settings", "seeds", "validation_seeds", "cells")
Scenario = dict[str, Any]
"""Settings of a run without its policy."""


def cells_of(name: str) -> dict[str, Any]:
    """The content of ``conf/cells/NAME.yaml``."""
    return group_file("cells", name)


def expand(cell: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cells that a mapping with lists means: every combination, the last key innermost."""
    choices = [value if isinstance(value, (list, tuple)) else [value] for value in cell.values()]
    return [dict(zip(cell, values, strict=True)) for values in itertools.product(*choices)]


def scenarios(values: Mapping[str, Any], seeds: Sequence[int]) -> list[Scenario]:
    """Every cell with every seed, cells outermost.

    Args:
        values: the group ``cells``: ``settings`` of every run, and ``cells``.
        seeds: of workload and policy.

    Raises:
        SmetricError: for a key or value that makes no sense.
    """
    for name in values:
        if name not in KEYS:
            raise SmetricError(unknown("key of cells", name, KEYS))
    made = []
    for cell in values["cells"]:
        for one in expand(cell):
            settings = compose_cell({**values["settings"], **one})
            made += [{**settings, "seed": seed} for seed in seeds]
    return made


def compose_cell(given: Mapping[str, Any]) -> Scenario:
    """Settings of one cell by the rules of the command line; groups by name, other keys by dotted names."""
    overrides = [f"{key}={value}" for key, value in given.items() if key in GROUPS]
    changes = {key: value for key, value in given.items() if key not in GROUPS}
    settings = compose(overrides, changes)
    check(settings)
    return {name: settings[name] for name in (*RUN_KEYS, "debug") if name != "policy"}


def label(scenario: Mapping[str, Any]) -> str:
    """A cell in words, without its load and seed."""
    kind = "disaggregated" if scenario["cluster"]["decode_instances"] else "colocated"
    return f"{kind}, tier {scenario['cluster']['global_tier']:g}"
