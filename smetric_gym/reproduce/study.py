"""A study: what is run, and the table, picture and sentences that follow from it."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.settings import unknown
from smetric_gym.experiment.store import Store, as_json, write_whole
from smetric_gym.experiment.tables import write_csv
from smetric_gym.reproduce.fidelity import Found
from smetric_gym.reproduce.grid import Runs, run_grid

STUDIES = {
    "5": "workload.figure_5",
    "9": "workload.figure_9",
    "11": "colocated.figure_11",
    "12": "colocated.figure_12",
    "14": "guards.figure_14",
    "15": "sweeps.figure_15",
    "16": "tiers.figure_16",
    "17": "latency.figure_17",
    "18": "sweeps.figure_18",
    "19": "tiers.figure_19",
    "20": "latency.figure_20",
    "21": "sweeps.figure_21",
    "22": "tiers.figure_22",
    "23": "latency.figure_23",
    "24": "latency.figure_24",
    "25": "guards.figure_25",
    "later": "later.later_version",
    "causes": "causes.causes",
    "assumptions": "assumptions.assumptions",
    "q1": "questions.guards.question_1",
    "q2": "questions.plane.question_2",
    "q3": "questions.disaggregation.question_3",
    "q4": "questions.links.question_4",
    "q5": "questions.limits.question_5",
    "q6": "questions.versions.question_6",
    "q7": "questions.bound.question_7",
    "q8": "questions.recorded.question_8",
}
"""What ``figure=`` takes: a figure of the paper, or a study beyond it, and the function that makes it of its runs."""
OF_PAPER = (*(name for name in STUDIES if name.isdigit()), "later")
"""Studies with rows of the fidelity table: the paper's figures, and what its later version added."""
BEYOND = tuple(name for name in STUDIES if name not in OF_PAPER)
"""How far the assumptions matter, and the questions that the paper left open."""


@dataclass
class Outcome:
    """What a study has to show.

    Attributes:
        table: rows of the data behind the picture, with the same keys each.
        picture: drawn in the paper's form where it is a figure of the paper; None where a table says it all.
        words: sentences with numbers of this run, what the study says.
        rows: what was measured for rows of the fidelity table, by id.
        more: further tables by file name.
    """

    table: list[dict[str, Any]]
    picture: Figure | None = None
    words: list[str] = field(default_factory=list)
    rows: dict[str, Found] = field(default_factory=dict)
    more: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Work:
    """What a study that measures for itself is given.

    Attributes:
        settings: of the experiment.
        jobs: processes.
        store: folder that keeps what is finished.
        progress: called with (finished, all) pieces of work.
    """

    settings: Mapping[str, Any]
    jobs: int
    store: Path | None
    progress: Callable[[int, int], Any] | None = None

    def grid(self) -> Runs:
        """The runs of the experiment's grid."""
        return run_grid(self.settings, jobs=self.jobs, store=self.store, progress=self.progress)

    def kept(self, name: str, settings: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """What ``make`` returns (JSON values), from the store if it was made from the same settings and sources before.

        Args:
            name: of this piece of work.
            settings: of a run; everything else that decides the result belongs into ``name``.
            make: makes it.
        """
        if self.store is None:
            return make()
        store = Store(self.store)
        key = hashlib.sha256(json.dumps([name, store.key(settings)]).encode()).hexdigest()[:24]
        found = None if self.settings["force"] else store.load(key)
        if found is None:
            store.save(key, {"name": name, "result": make()})
            found = store.load(key)
            assert found is not None  # saved a moment ago
        return found["result"]


def study(name: str) -> Callable[[Work], Outcome]:
    """The function that makes a study.

    Raises:
        SmetricError: when there is none of that name.
    """
    if name not in STUDIES:
        raise SmetricError(unknown("figure", name, list(STUDIES)))
    module, function = STUDIES[name].rsplit(".", 1)
    return getattr(importlib.import_module(f"smetric_gym.reproduce.{module}"), function)


def save(outcome: Outcome, folder: Path, settings: Mapping[str, Any], command: str) -> list[Path]:
    """Write a study: ``data.csv``, ``figure.png``, ``study.json`` (sentences, settings, command); returns the paths."""
    from smetric_gym.reproduce.style import save as save_picture

    paths = []
    for name, rows in {"data": outcome.table, **outcome.more}.items():
        write_csv(folder / f"{name}.csv", rows)
        paths.append(folder / f"{name}.csv")
    if outcome.picture is not None:
        paths.append(save_picture(outcome.picture, folder / "figure.png"))
    write_whole(folder / "study.json", as_json({"command": command, "words": outcome.words, "settings": settings}))
    return [*paths, folder / "study.json"]
