"""What an environment serves, episode after episode: fixed settings of `evaluate` with new traces, or drawn ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from smetric_gym.cluster.config import ClusterConfig
from smetric_gym.envs.distribution import ScenarioDistribution
from smetric_gym.envs.reference import Earnings
from smetric_gym.errors import SmetricError
from smetric_gym.experiment import prepare
from smetric_gym.experiment.evaluate import resolve
from smetric_gym.slo import SLO
from smetric_gym.workload.trace import NODE, REQUEST, Trace

Workload = str | Path | Mapping[str, Any] | Trace | Callable[[int], Trace]
KEPT = 4


@dataclass(frozen=True)
class Episode:
    """What one episode serves.

    Attributes:
        setup: trace, cluster, limits and window; its seed is the trace seed.
        endless: True for a generated workload, which would go on after the window.
        scenario_seed: that a `ScenarioDistribution` drew it from, or -1.
        earnings: of reference policies by name, filled in when they are first needed.
    """

    setup: prepare.Setup
    endless: bool
    scenario_seed: int = -1
    earnings: dict[str, Earnings] = field(default_factory=dict, compare=False)


class Scenario:
    """The episodes of one environment, or of a vector of them.

    Args:
        default_cluster: file of ``conf/cluster`` that `cluster` is a change of.
        workload: name of a file of ``conf/workload``, path, mapping of changes, Trace, or function from a
            seed to a Trace.
        cluster: name of a file of ``conf/cluster``, mapping of changes to `default_cluster`, ClusterConfig,
            or None.
        settings: other settings of `evaluate`; None means its default.
        distribution: draws some of the settings anew for every episode; None for none.
        pool: seeds that episodes are drawn from, or how many from 0 on; None for all.
        kept: episodes that are kept for when their seed comes again.

    Attributes:
        setup: what all episodes have in common; its trace is empty.
        instances: most instances that an episode has.
    """

    def __init__(
        self,
        default_cluster: str,
        workload: Workload | None,
        cluster: str | Mapping[str, Any] | ClusterConfig | None,
        settings: Mapping[str, Any],
        distribution: ScenarioDistribution | None = None,
        pool: int | Sequence[int] | None = None,
        kept: int = KEPT,
    ) -> None:
        sources = str | Path | Mapping | Trace | Callable
        _check("workload", workload, sources, "a name, a path, a mapping, a Trace or a function of a seed")
        _check("cluster", cluster, str | Mapping | ClusterConfig, "a name, a mapping or a ClusterConfig")
        _check("slo", settings.get("slo"), str | Mapping | SLO, "a name, a mapping or an SLO")
        given = {"cluster": default_cluster, **{k: v for k, v in settings.items() if v is not None}}
        if isinstance(cluster, str):
            given["cluster"] = cluster
        elif cluster is not None:
            values = vars(cluster) if isinstance(cluster, ClusterConfig) else cluster
            given |= {f"cluster.{name}": _lists(value) for name, value in values.items()}
        self._source = workload if isinstance(workload, Trace) or callable(workload) else None
        if workload is not None and self._source is None:
            given["workload"] = workload
        self.distribution = distribution
        if distribution is not None:
            drawn = distribution.keys | {f"cluster.{key}" for key in distribution.keys}
            twice = sorted(drawn & (set(given) - {"cluster"}))
            if self._source is not None and "workload" in drawn:
                twice = ["workload"]
            if twice:
                name = distribution.name
                raise SmetricError(f"{twice[0]} is given and drawn by scenario {name}, allowed: one of both")
        self._settings, _, _ = resolve(None, given)
        self._nothing = Trace(np.zeros(0, REQUEST), np.zeros(0, NODE))
        if distribution is not None:  # say now what makes no sense
            prepare.check(distribution.settings(distribution.draw(0), self._settings, 0))
        self.setup = prepare.prepare(self._settings, self._nothing)
        self.instances: int = distribution.max_instances if distribution else self.setup.config.instances
        self._pool = _seeds(pool)
        self._kept: OrderedDict[int, Episode] = OrderedDict()
        self._room = max(kept, len(self._pool or ()))

    def draw(self, random: np.random.Generator) -> Episode:
        """The next episode; its seed comes from `random`, or from the pool by it."""
        if self._pool is not None:
            return self.episode(self._pool[int(random.integers(len(self._pool)))])
        return self.episode(int(random.integers(2**31)))

    def episode(self, seed: int) -> Episode:
        """The episode of a trace seed (with a distribution: of a scenario seed); the last few are kept."""
        if seed not in self._kept:
            self._kept[seed] = self._made(seed)
            if len(self._kept) > self._room:
                self._kept.popitem(last=False)
        self._kept.move_to_end(seed)
        return self._kept[seed]

    def serving(self, trace: Trace, seed: int) -> Episode:
        """An episode of another trace, with the seed in its scores."""
        return Episode(replace(self.setup, trace=trace, seed=seed), endless=False)

    def _made(self, seed: int) -> Episode:
        if self.distribution is None:
            return self._serve(self.setup, self._settings | {"seed": seed})
        values = self.distribution.draw(seed)
        settings = self.distribution.settings(values, self._settings, seed)
        return self._serve(prepare.prepare(settings, self._nothing), settings, seed)

    def _serve(self, setup: prepare.Setup, settings: Mapping[str, Any], scenario_seed: int = -1) -> Episode:
        source, seed = self._source, settings["seed"]
        if source is None:
            trace = prepare.workload(settings, setup.config.instances)
        else:
            trace = source if isinstance(source, Trace) else source(seed)
            if not isinstance(trace, Trace):
                raise SmetricError(f"workload({seed}) returned a {type(trace).__name__}, allowed: a Trace")
            trace = prepare.at_load(trace, settings["load"], settings["load_by"], seed)
        endless = source is None and "preset" in settings["workload"]
        return Episode(replace(setup, trace=trace, seed=seed), endless, scenario_seed)


def _seeds(pool: int | Sequence[int] | None) -> Sequence[int] | None:
    if pool is None:
        return None
    seeds = range(pool) if isinstance(pool, int) and not isinstance(pool, bool) and pool > 0 else pool
    good = isinstance(seeds, Sequence) and not isinstance(seeds, str) and len(seeds) > 0
    if not good or not all(isinstance(seed, int) and seed >= 0 for seed in seeds):  # type: ignore[union-attr]
        raise SmetricError(f"pool is {pool!r}, allowed: a number of seeds, 1 or more, or a list of seeds")
    return seeds  # type: ignore[return-value]


def _check(name: str, value: Any, kinds: Any, allowed: str) -> None:
    if value is not None and not isinstance(value, kinds):
        raise SmetricError(f"{name} is {value!r}, allowed: {allowed}")


def _lists(value: Any) -> Any:
    """Tuples as lists, which is what settings are made of."""
    return [_lists(item) for item in value] if isinstance(value, tuple | list) else value
