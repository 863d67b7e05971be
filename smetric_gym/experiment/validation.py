"""What a network is worth on the validation traces, beside the references on the same traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from smetric_gym.agents.learned import Weights
from smetric_gym.experiment.cells import Scenario
from smetric_gym.experiment.gains import by_cell, gain, guard, percent, reference_jobs
from smetric_gym.experiment.rollouts import Job, Rollouts
from smetric_gym.experiment.store import as_json, digest_of, write_whole

BESIDE = "smetric"
"""The reference that progress is shown beside."""
GUARDED = "ttft_p99_s"
Scored = dict[str, list[float]]
"""Scores by name, one for each scenario."""


class Found(NamedTuple):
    """A look at a network."""

    percent: float
    """its worth: the mean gain over the best reference of each trace, less the guard"""
    scored: Scored


class Validation:
    """Runs networks in the compiled event loop, greedily, and compares them.

    Args:
        values: the settings ``train``: ``references``, ``target``, ``clip`` and ``guard``.
        where: the scenarios.
        rollouts: where runs take place.
        store: folder in which the scores of the references are kept, for every training on the same scenarios.
    """

    def __init__(
        self, values: Mapping[str, Any], where: Sequence[Scenario], rollouts: Rollouts, store: Path
    ) -> None:
        self._values, self._where, self._rollouts = values, where, rollouts
        self._names = list(dict.fromkeys([BESIDE, *values["references"]]))
        self._kept = store / f"references-{digest_of([self._names, list(where)])}.json"
        self._references: dict[str, Scored] = {}

    def of(self, weights: Weights) -> Found:
        """Score a learned policy."""
        ran = self._rollouts.run([Job(scenario, {"name": "learned"}, weights) for scenario in self._where])
        scored = {name: values.tolist() for name, values in ran.items()}
        return Found(self._worth(scored), scored)

    def beside(self) -> float:
        """The worth of SMetric at its defaults on the same traces, %."""
        return self._worth(self.references()[BESIDE])

    def rows(self, scored: Scored) -> list[dict[str, Any]]:
        """Per cell, the gain in % of the network and of the references over the best reference."""
        best, _ = self._best()
        target = self._values["target"]
        everybody = {"learned": scored, **self.references()}
        gains = {name: gain(np.array(of[target]), best, self._values["clip"]) for name, of in everybody.items()}
        return by_cell(self._where, gains)

    def references(self) -> dict[str, Scored]:
        """Scores of the references by name, each at its defaults."""
        if not self._references and self._kept.is_file():
            self._references = orjson.loads(self._kept.read_bytes())
        if not self._references:
            ran = self._rollouts.run(reference_jobs(self._where, self._names))
            rows = {score: values.reshape(len(self._where), -1).T.tolist() for score, values in ran.items()}
            self._references = {name: {s: rows[s][k] for s in rows} for k, name in enumerate(self._names)}
            write_whole(self._kept, as_json(self._references))
        return self._references

    def _best(self) -> tuple[np.ndarray, np.ndarray]:
        """The target and the p99 TTFT of the best reference on each scenario."""
        found = list(self.references().values())
        target = np.array([one[self._values["target"]] for one in found])
        p99_s = np.array([one[GUARDED] for one in found], dtype=np.float64)
        which = target.argmax(axis=0), np.arange(target.shape[1])
        return target[which], p99_s[which]

    def _worth(self, scored: Scored) -> float:
        best, p99_s = self._best()
        values, tail_s = (np.array(scored[name], dtype=np.float64) for name in (self._values["target"], GUARDED))
        worth = gain(values, best, self._values["clip"]) - self._values["guard"] * guard(tail_s, p99_s)
        return percent(worth)
