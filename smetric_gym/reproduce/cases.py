"""Cases: named sets of changes to an experiment, each compared on its own, at the loads where its maxima lie."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.compare import Job, plan, run_all
from smetric_gym.experiment.store import RUN_KEYS
from smetric_gym.reproduce.grid import Record, Runs, changed, seeds_of

if TYPE_CHECKING:
    from smetric_gym.reproduce.study import Work

LADDER = (0.1, 0.15, 0.25, 0.375, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)
"""Loads that are tried beyond those of an experiment, until the maximum of every policy lies between two of them."""
ROUNDS = 6
"""Times that loads are added at most."""


@dataclass(frozen=True)
class Case:
    """What is changed in an experiment.

    Attributes:
        axis: what is varied, in words.
        name: the value that it has here, in words.
        changes: dotted keys to values, made together; empty for the experiment as it is.
    """

    axis: str
    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __add__(self, other: Case) -> Case:
        """Both cases at once."""
        return Case(f"{self.axis} x {other.axis}", f"{self.name}, {other.name}", {**self.changes, **other.changes})


def cases_of(settings: Mapping[str, Any]) -> list[Case]:
    """The cases of an experiment: ``cases: {AXIS: {NAME: {KEY: VALUE}}}``.

    Raises:
        SmetricError: where they are written in another way.
    """
    found = []
    for axis, values in settings["cases"].items():
        if not isinstance(values, Mapping) or not values:
            raise SmetricError(f"cases.{axis} is {values!r}, allowed: a mapping of names to changes")
        for name, changes in values.items():
            if not isinstance(changes, Mapping):
                raise SmetricError(f"cases.{axis}.{name} is {changes!r}, allowed: a mapping of dotted keys to values")
            found.append(Case(str(axis), str(name), dict(changes)))
    return found


def slim_records(work: Work, jobs: Sequence[Job]) -> list[Record]:
    """Records of jobs in their order, without the curves, which are most of their size."""
    found = run_all(jobs, jobs=work.jobs, store=work.store, force=work.settings["force"], progress=work.progress)
    return [{name: record[name] for name in ("load", "scores")} for record in found]


def run_cases(
    work: Work,
    cases: Sequence[Case],
    targets: Sequence[str] = (),
    records_of: Callable[[Work, Sequence[Job]], Sequence[Record]] = slim_records,
) -> list[Runs]:
    """The runs of every case, with loads added until the maximum of every policy lies between two loads.

    A run that several cases have in common is made once. Cases whose maximum is at an end after `ROUNDS`
    additions keep what they have (see `at_edge`).

    Args:
        work: of the study.
        cases: what is changed in each.
        targets: scores whose maxima must lie inside, besides the experiment's own.
        records_of: makes runs; records have a ``load`` and ``scores``.
    """
    inside = [changed(work.settings, case.changes) for case in cases]
    loads = [sorted(map(float, settings["loads"])) for settings in inside]
    records: list[list[Record]] = [[] for _ in cases]
    missing = [list(here) for here in loads]
    for _ in range(1 + ROUNDS):
        planned = [_plan(settings, more) if more else [] for settings, more in zip(inside, missing, strict=True)]
        for k, new in enumerate(_made_once(work, planned, records_of)):
            records[k] += new
        missing = [
            _beyond(Runs(found, settings["target"]), targets) for found, settings in zip(records, inside, strict=True)
        ]
        if not any(missing):
            break
    return [Runs(found, settings["target"]) for found, settings in zip(records, inside, strict=True)]


def at_edge(runs: Runs) -> bool:
    """True when the mean of some policy is highest at the lowest or the highest load that was run."""
    return bool(_beyond(runs))


def _plan(settings: dict[str, Any], loads: Sequence[float]) -> list[Job]:
    return plan(settings, settings["policies"], loads, seeds_of(settings), target=settings["target"])


def _made_once(
    work: Work, planned: Sequence[Sequence[Job]], records_of: Callable[[Work, Sequence[Job]], Sequence[Record]]
) -> list[list[Record]]:
    """Records of the jobs of every case, each distinct job made once."""
    names = [[json.dumps([job[key] for key in RUN_KEYS], sort_keys=True) for job in jobs] for jobs in planned]
    unique = {key: job for jobs, keys in zip(planned, names, strict=True) for job, key in zip(jobs, keys, strict=True)}
    found = dict(zip(unique, records_of(work, list(unique.values())), strict=True))
    return [
        [{**found[key], "policy": job["label"], "cell": {}} for job, key in zip(jobs, keys, strict=True)]
        for jobs, keys in zip(planned, names, strict=True)
    ]


def _beyond(runs: Runs, targets: Sequence[str] = ()) -> list[float]:
    """The loads of the ladder that come next where the mean of some policy is highest at an end."""
    here, more = runs.comparison(), set()
    for policy, target in itertools.product(here.policies, (runs.target, *targets)):
        best = int(np.argmax(here.values(policy, target).mean(axis=1)))
        if best == 0:
            more.add(max((load for load in LADDER if load < here.loads[0]), default=None))
        if best == len(here.loads) - 1:
            more.add(min((load for load in LADDER if load > here.loads[-1]), default=None))
    return sorted(load for load in more if load is not None)
