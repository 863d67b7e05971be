"""A grid of runs: policies x loads x seeds, as in a comparison, in every cell of the varied keys."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.compare import Job, plan, run_all
from smetric_gym.experiment.comparison import Comparison
from smetric_gym.experiment.settings import unknown

Record = Mapping[str, Any]
SIZES = ("quick", "full")
AT_PEAK = "all policies at the load where the best of them has its highest mean"


class Runs:
    """Finished runs of a grid, to be picked from by what was varied.

    Args:
        records: from ``evaluate.Result.record``, each with its ``cell``: varied key to value.
        target: the score whose maximum over the loads is a policy's result.
    """

    def __init__(self, records: Sequence[Record], target: str) -> None:
        self.records, self.target = list(records), target

    def __len__(self) -> int:
        return len(self.records)

    @property
    def policies(self) -> list[str]:
        """Labels of the policies, in the order of the experiment."""
        return list(dict.fromkeys(r["policy"] for r in self.records))

    @property
    def loads(self) -> list[float]:
        """Loads in rising order."""
        return sorted({r["load"] for r in self.records})

    @property
    def seeds(self) -> list[int]:
        """Seeds in the order of the experiment."""
        return list(dict.fromkeys(r["scores"]["seed"] for r in self.records))

    def axis(self, key: str) -> list[Any]:
        """The values that a varied key took, in the order of the experiment."""
        return list(dict.fromkeys(r["cell"][key] for r in self.records))

    def where(self, cell: Mapping[str, Any] | None = None, **names: Any) -> Runs:
        """The runs with these values of varied keys; ``policy``, ``load`` and ``seed`` are names of their own.

        Raises:
            SmetricError: where there is none.
        """
        wanted = {**(cell or {})}
        kept = [
            r
            for r in self.records
            if all(r["cell"].get(key) == value for key, value in wanted.items())
            and all((r["scores"] if name == "seed" else r)[name] == value for name, value in names.items())
        ]
        if not kept:
            raise SmetricError(f"no run has {wanted | names}, allowed: values of the experiment")
        return Runs(kept, self.target)

    def comparison(self, target: str | None = None, **cell: Any) -> Comparison:
        """The runs of one cell as a comparison; keys of ``cell`` with their dots, in a mapping (``**{...}``)."""
        return Comparison(self.where(cell).records, target=target or self.target)

    def values(self, score: str, policy: str, load: float, cell: Mapping[str, Any] | None = None) -> np.ndarray:
        """A score at one load, [seeds] float64; nan where a run has none."""
        kept = self.where(cell, policy=policy, load=load)
        by_seed = {r["scores"]["seed"]: r["scores"][score] for r in kept.records}
        return np.array([_float(by_seed[seed]) for seed in kept.seeds])

    def peak_load(self, cell: Mapping[str, Any] | None = None) -> float:
        """The load at which the best policy of a cell has its highest mean: where hits and loads are compared.

        All policies meet the same requests there, which their own maxima would not give.
        """
        here = self.comparison(**(cell or {}))
        means = np.array([here.values(policy, self.target).mean(axis=1) for policy in here.policies])
        return here.loads[int(means.max(axis=0).argmax())]

    def at_peak(self, score: str, policy: str, cell: Mapping[str, Any] | None = None) -> np.ndarray:
        """A score at `peak_load`, [seeds] float64."""
        return self.values(score, policy, self.peak_load(cell), cell)

    def peak_load_of(self, policy: str, cell: Mapping[str, Any] | None = None) -> float:
        """The load at which one policy of a cell has its highest mean."""
        here = self.comparison(**(cell or {}))
        return here.loads[int(here.values(policy, self.target).mean(axis=1).argmax())]

    def strongest_at(self, policy: str, load: float, cell: Mapping[str, Any] | None = None) -> str:
        """The policy, other than ``policy``, with the highest mean at one load."""
        others = [p for p in self.where(cell).policies if p != policy]
        return max(others, key=lambda p: self.values(self.target, p, load, cell).mean())

    def gain_at(self, policy: str, over: str, load: float, cell: Mapping[str, Any] | None = None) -> np.ndarray:
        """Paired relative difference of two policies at one load, [seeds] float64."""
        return _relative(*(self.values(self.target, one, load, cell) for one in (policy, over)))

    def maximum(self, policy: str, cell: Mapping[str, Any] | None = None, target: str | None = None) -> np.ndarray:
        """Maximum of the target over the loads, [seeds] float64."""
        return self.comparison(target, **(cell or {})).maximum(policy)

    def strongest(self, policy: str, cell: Mapping[str, Any] | None = None, *, among: Sequence[str] = ()) -> str:
        """The policy, other than ``policy``, with the highest mean maximum."""
        here = self.comparison(**(cell or {}))
        others = [p for p in (among or here.policies) if p != policy]
        return max(others, key=lambda p: here.maximum(p).mean())

    def gain(self, policy: str, over: str, cell: Mapping[str, Any] | None = None) -> np.ndarray:
        """Paired relative difference of the maxima of two policies, [seeds] float64."""
        here = self.comparison(**(cell or {}))
        return _relative(here.maximum(policy), here.maximum(over))

    def curve(self, name: str, policy: str, load: float, cell: Mapping[str, Any] | None = None) -> np.ndarray:
        """A distribution (see ``evaluate.curves``) as quantiles averaged over the seeds, [quantiles] float64."""
        return self.curves(name, policy, load, cell).mean(axis=0)

    def curves(self, name: str, policy: str, load: float, cell: Mapping[str, Any] | None = None) -> np.ndarray:
        """A curve of every seed, [seeds, ...] float64: [quantiles], or [windows, instances] where it is a load."""
        kept = self.where(cell, policy=policy, load=load)
        by_seed = {r["scores"]["seed"]: r["curves"][name] for r in kept.records}
        return np.array([by_seed[seed] for seed in kept.seeds], dtype=np.float64)


def seeds_of(settings: Mapping[str, Any]) -> list[int]:
    """The seeds of the size that is asked for, or the experiment's ``seeds`` where it has no sizes."""
    size, sizes = settings["size"], settings["sizes"]
    if size not in SIZES:
        raise SmetricError(unknown("size", size, SIZES))
    return list(sizes[size]) if sizes else list(settings["seeds"])


def cells(settings: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(cell, settings of the cell) for every combination of the values in ``vary``."""
    vary = settings["vary"]
    for key, values in vary.items():
        if not isinstance(values, list) or not values:
            raise SmetricError(f"vary.{key} is {values!r}, allowed: a list with at least one value")
    for combination in itertools.product(*vary.values()):
        cell = dict(zip(vary, combination, strict=True))
        yield cell, changed(settings, cell)


def run_grid(
    settings: Mapping[str, Any],
    *,
    jobs: int,
    store: str | Path | None,
    progress: Callable[[int, int], Any] | None = None,
) -> Runs:
    """Run every policy at every load with every seed in every cell; finished runs are taken from the store.

    Args:
        settings: of an experiment: ``policies``, ``loads``, ``vary`` (dotted key to values) and ``sizes``.
        jobs: processes.
        store: folder that keeps finished runs.
        progress: called with (finished, all) runs.
    """
    planned: list[Job] = []
    where: list[dict[str, Any]] = []
    for cell, inside in cells(settings):
        here = plan(inside, inside["policies"], inside["loads"], seeds_of(inside), target=inside["target"])
        planned += here
        where += [cell] * len(here)
    records = run_all(planned, jobs=jobs, store=store, force=settings["force"], progress=progress)
    return Runs([{**r, "cell": cell} for r, cell in zip(records, where, strict=True)], settings["target"])


def changed(settings: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the values of a cell put where their dotted keys point.

    Raises:
        SmetricError: for a key that the configuration does not have.
    """
    result = deepcopy(dict(settings))
    for key, value in cell.items():
        *path, last = key.split(".")
        inside = result
        for name in path:
            if not isinstance(inside.get(name), dict):
                raise SmetricError(f"vary has the key {key!r}, of which {name!r} is no group of the configuration")
            inside = inside[name]
        if last not in inside and path[:1] != ["workload"]:  # whose keys the workload itself knows
            raise SmetricError(unknown("the key of vary", key, [".".join([*path, name]) for name in sorted(inside)]))
        inside[last] = value
    return result


def _relative(ours: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Relative difference; nan to nothing."""
    return np.divide(ours, other, out=np.full_like(ours, np.nan), where=other > 0) - 1


def _float(value: Any) -> float:
    return float("nan") if value is None else float(value)
