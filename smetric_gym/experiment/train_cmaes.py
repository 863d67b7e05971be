"""CMA-ES over a linear score: every generation meets the same traces, and so do the references beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich.console import Console

from smetric_gym.agents.cmaes import Search
from smetric_gym.agents.features import BURDENS, FEATURES, REQUEST_FEATURES
from smetric_gym.agents.learned_file import read_learned, save_learned
from smetric_gym.agents.linear import REFERENCES, linear
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.cells import Scenario, scenarios
from smetric_gym.experiment.gains import GAINS, by_cell, gain, guard, percent, reference_jobs
from smetric_gym.experiment.prepare import check_boolean
from smetric_gym.experiment.rollouts import Job, Rollouts
from smetric_gym.experiment.settings import unknown
from smetric_gym.experiment.store import as_json, digest_of, write_whole
from smetric_gym.experiment.tables import plain_table, write_csv
from smetric_gym.experiment.tasks import progress_bar
from smetric_gym.experiment.train import POLICY_FILE

GUARDED = "ttft_p99_s"
BESIDE = "smetric"
"""The reference that progress is shown beside."""


def learn(settings: dict[str, Any], folder: Path, console: Console) -> None:
    """Train, and write ``policy.safetensors``, ``history.csv``, ``validation.csv`` and ``training.json`` to `folder`.

    After every generation the state is kept under ``output/store/train``; the same settings go on from it.
    """
    values = checked(settings["train"])
    state = Path(settings["output"]) / "store" / "train" / f"{digest_of([values, settings['cells']])}.json"
    if settings["force"]:
        state.unlink(missing_ok=True)
    with Rollouts(settings["jobs"]) as rollouts:
        training = Training(values, settings["cells"], rollouts, state, console)
        try:
            training.run()
        except KeyboardInterrupt:
            kept = f"{len(training.history)} generations are kept in {state}"
            console.print(f"interrupted: {kept}; the same command goes on from there")
            raise
    training.save(folder)
    rows = training.validation()
    cells = [[row["cell"], *(f"{value:+.1f} %" for name, value in row.items() if name != "cell")] for row in rows]
    console.print(plain_table(list(rows[0]), cells, "Validation: to the best reference on the same trace"))


def checked(values: dict[str, Any]) -> dict[str, Any]:
    """The settings ``train``, with the features filled in.

    Raises:
        SmetricError: naming the key that makes no sense.
    """
    for name, least in (("population", 4), ("generations", 1), ("seeds_per_generation", 1), ("validate_every", 1),
                        ("seed", 1)):  # fmt: skip
        if type(values[name]) is not int or values[name] < least:
            raise SmetricError(f"train.{name} is {values[name]!r}, allowed: a whole number, {least} or more")
    for name, zero in (("step", False), ("clip", False), ("guard", True)):
        if not isinstance(values[name], (int, float)) or not (values[name] > 0 or (zero and values[name] == 0)):
            raise SmetricError(f"train.{name} is {values[name]!r}, allowed: {'0 or more' if zero else 'more than 0'}")
    check_boolean("train.burdens", values["burdens"])
    if values["target"] not in GAINS:
        raise SmetricError(unknown("train.target", values["target"], GAINS))
    names = values["features"] or [name for name in FEATURES if name not in REQUEST_FEATURES]
    linear(dict.fromkeys(names, 0.0))  # says which one does not exist
    return {**values, "features": list(names), "references": list(dict.fromkeys([BESIDE, *values["references"]]))}


class Training:
    """A search with its scenarios, its references and its history.

    Args:
        values: the settings ``train``, `checked`.
        cells: the settings ``cells``.
        rollouts: where runs take place.
        state: file that keeps the search.
        console: where progress is told.
    """

    def __init__(
        self, values: dict[str, Any], cells: dict[str, Any], rollouts: Rollouts, state: Path, console: Console
    ) -> None:
        self.values, self.cells, self.rollouts, self.state, self.console = values, cells, rollouts, state, console
        self.train = scenarios(cells, cells["seeds"])
        self.held = scenarios(cells, cells["validation_seeds"])
        self.search = Search(self._start(), step=values["step"], population=values["population"],
                             seed=values["seed"], diagonal=values["diagonal"])  # fmt: skip
        kept = orjson.loads(state.read_bytes()) if state.is_file() else {}
        self.history: list[dict[str, Any]] = kept.get("history", [])
        self.best: dict[str, Any] = kept.get("best", {})
        self._references: dict[str, Any] = kept.get("references", {})
        self.search.replay(kept.get("told", []))
        if self.history:
            console.print(f"going on after generation {len(self.history)}, kept in {state}")

    def run(self) -> None:
        """Search to the last generation."""
        values, seeds = self.values, len(self.cells["seeds"])
        if not self._references:
            self._references = {"train": self._run_references(self.train), "held": self._run_references(self.held)}
            self._keep()
        beside = self._references["train"][BESIDE]
        for generation in range(len(self.history), values["generations"]):
            first = generation * values["seeds_per_generation"]
            turn = [(first + k) % seeds for k in range(values["seeds_per_generation"])]
            batch = [s for s in range(len(self.train)) if s % seeds in turn]  # seeds are innermost
            candidates = [self._weights(candidate) for candidate in self.search.ask()]
            scored = self._run([self.train[s] for s in batch], candidates, f"runs of generation {generation + 1}")
            worth = self._worth(scored, "train", batch)
            self.search.tell(worth.mean(axis=1))
            row = {
                "generation": generation + 1,
                "mean_percent": percent(worth),
                "best_percent": percent(worth.mean(axis=1).max()),
                f"{BESIDE}_percent": percent(self._worth(beside, "train", slice(None))[batch]),
                "step": self.search.step,
                "validation_percent": float("nan"),
            }
            last = generation + 1 == values["generations"]
            if last or (generation + 1) % values["validate_every"] == 0:
                row["validation_percent"] = self._validate(generation + 1)
            self.history.append(row)
            self._keep()
            validated = row["validation_percent"]
            self.console.print(
                f"generation {generation + 1:3d}: {row['mean_percent']:+6.2f} % (best {row['best_percent']:+6.2f} %), "
                f"{BESIDE} {row[f'{BESIDE}_percent']:+6.2f} %, to the best reference on the same traces"
                + ("" if np.isnan(validated) else f"; validation {validated:+6.2f} %")
            )

    def validation(self) -> list[dict[str, Any]]:
        """Per cell, the gain in % of the kept weights and of the references over the best reference."""
        target, scored = self.values["target"], {"learned": self.best["scored"], **self._references["held"]}
        best, _ = self._best("held")
        gains = {name: gain(np.array(one[target]), best, self.values["clip"]) for name, one in scored.items()}
        return by_cell(self.held, gains)

    def save(self, folder: Path) -> None:
        """Write the kept weights, and how they came about."""
        made = {
            "train": self.values,
            "cells": self.cells,
            "kept_generation": self.best["generation"],
            "validation": self.validation(),
        }
        weights = np.array([self.best["weights"]])
        save_learned(folder / POLICY_FILE, {"linear.weight": weights}, self.values["features"], made)
        named = dict(zip(self.values["features"], self.best["weights"], strict=True))
        write_whole(folder / "training.json", as_json({**made, "weights": named}))
        write_csv(folder / "history.csv", self.history)
        write_csv(folder / "validation.csv", made["validation"])

    def _start(self) -> list[float]:
        start, names = self.values["start"], self.values["features"]
        column = (linear(REFERENCES[start]) if start in REFERENCES else read_learned(start).weights).linear
        return [float(column[list(FEATURES).index(name)]) for name in names]

    def _weights(self, candidate: np.ndarray) -> list[float]:
        """The weights that a candidate of the search stands for."""
        if not self.values["burdens"]:
            return candidate.tolist()
        named = zip(self.values["features"], candidate.tolist(), strict=True)
        return [min(weight, 0.0) if name in BURDENS else weight for name, weight in named]

    def _best(self, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """The target and the p99 TTFT of the best reference on each scenario, [scenarios]."""
        found = list(self._references[kind].values())
        target = np.array([one[self.values["target"]] for one in found])
        p99_s = np.array([one[GUARDED] for one in found], dtype=np.float64)
        which = target.argmax(axis=0), np.arange(target.shape[1])
        return target[which], p99_s[which]

    def _worth(self, scored: Mapping[str, Any], kind: str, batch: Any) -> np.ndarray:
        """What is maximised: the gain over the best reference less the guard, [..., scenarios]."""
        best, p99_s = self._best(kind)
        values, tail_s = (np.array(scored[name], dtype=np.float64) for name in (self.values["target"], GUARDED))
        return gain(values, best[batch], self.values["clip"]) - self.values["guard"] * guard(tail_s, p99_s[batch])

    def _validate(self, generation: int) -> float:
        """The worth of the middle of the search in %; the best middle so far is kept."""
        weights = self._weights(self.search.mean)
        ran = self._run(self.held, [weights], "runs of the validation")
        scored = {name: row[0].tolist() for name, row in ran.items()}
        value = percent(self._worth(scored, "held", slice(None)))
        if not self.best or value > self.best["percent"]:
            self.best = {"generation": generation, "percent": value, "weights": weights, "scored": scored}
        return value

    def _run(self, where: list[Scenario], weights: list[list[float]], what: str) -> dict[str, np.ndarray]:
        """Scores of every candidate, [candidates, scenarios] each."""
        params = [linear(dict(zip(self.values["features"], each, strict=True))) for each in weights]
        jobs = [Job(scenario, {"name": "learned"}, each) for scenario in where for each in params]
        return {name: row.reshape(len(where), -1).T for name, row in self._scores(jobs, what).items()}

    def _run_references(self, where: list[Scenario]) -> dict[str, dict[str, list[float]]]:
        names = self.values["references"]
        scored = self._scores(reference_jobs(where, names), "runs of the references")
        rows = {score: row.reshape(len(where), -1).T.tolist() for score, row in scored.items()}
        return {name: {score: rows[score][k] for score in rows} for k, name in enumerate(names)}

    def _scores(self, jobs: list[Job], what: str) -> dict[str, np.ndarray]:
        with progress_bar(self.console, len(jobs), what) as progress:
            return self.rollouts.run(jobs, progress)

    def _keep(self) -> None:
        kept = {"history": self.history, "told": self.search.told, "best": self.best, "references": self._references}
        write_whole(self.state, as_json(kept))
