"""What an environment serves, episode after episode: the settings of `evaluate`, a new trace each time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from smetric_gym.cluster.config import ClusterConfig
from smetric_gym.errors import SmetricError
from smetric_gym.experiment import prepare
from smetric_gym.experiment.evaluate import resolve
from smetric_gym.slo import SLO
from smetric_gym.workload.trace import NODE, REQUEST, Trace

Workload = str | Path | Mapping[str, Any] | Trace | Callable[[int], Trace]
KEPT = 4


class Scenario:
    """The episodes of one environment.

    Args:
        default_cluster: file of ``conf/cluster`` that `cluster` is a change of.
        workload: name of a file of ``conf/workload``, path, mapping of changes, Trace, or function from a
            seed to a Trace.
        cluster: name of a file of ``conf/cluster``, mapping of changes to `default_cluster`, ClusterConfig,
            or None.
        settings: other settings of `evaluate`; None means its default.

    Attributes:
        setup: what all episodes have in common; its trace is empty.
        endless: True for a generated workload, which would go on after the window.
    """

    def __init__(
        self,
        default_cluster: str,
        workload: Workload | None,
        cluster: str | Mapping[str, Any] | ClusterConfig | None,
        settings: Mapping[str, Any],
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
        self._settings, _, _ = resolve(None, given)
        nothing = Trace(np.zeros(0, REQUEST), np.zeros(0, NODE))
        self.setup = prepare.prepare(self._settings, nothing)
        self.endless = self._source is None and "preset" in self._settings["workload"]
        self._kept: OrderedDict[int, Trace] = OrderedDict()

    @property
    def end_s(self) -> float:
        """End of the scored window in s."""
        return self.setup.warm_up_s + self.setup.window_s

    def trace(self, seed: int) -> Trace:
        """The workload of a seed, the same that `evaluate` serves for it; the last few are kept."""
        if seed not in self._kept:
            self._kept[seed] = self._made(seed)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(seed)
        return self._kept[seed]

    def episode(self, trace: Trace, seed: int) -> prepare.Setup:
        """The run of one episode."""
        return replace(self.setup, trace=trace, seed=seed)

    def _made(self, seed: int) -> Trace:
        source = self._source
        if source is None:
            return prepare.workload(self._settings | {"seed": seed}, self.setup.config.instances)
        trace = source if isinstance(source, Trace) else source(seed)
        if not isinstance(trace, Trace):
            raise SmetricError(f"workload({seed}) returned a {type(trace).__name__}, allowed: a Trace")
        return prepare.at_load(trace, self._settings["load"], self._settings["load_by"], seed)


def _check(name: str, value: Any, kinds: Any, allowed: str) -> None:
    if value is not None and not isinstance(value, kinds):
        raise SmetricError(f"{name} is {value!r}, allowed: {allowed}")


def _lists(value: Any) -> Any:
    """Tuples as lists, which is what settings are made of."""
    return [_lists(item) for item in value] if isinstance(value, tuple | list) else value
