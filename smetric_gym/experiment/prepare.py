"""From settings to what a run needs: the trace, the cluster, the limits and the policy."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from smetric_gym.cluster import Cluster, ClusterConfig
from smetric_gym.cluster.cluster import LATEST_S, MODES
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.settings import unknown, unknown_key
from smetric_gym.measures import Scored
from smetric_gym.slo import SLO
from smetric_gym.workload.trace import Trace

if TYPE_CHECKING:
    from smetric_gym.agents.policy import Policy
    from smetric_gym.workload.synthetic_config import SyntheticConfig

LOAD_BY = ("sessions", "time")
CLOSED_LOOP = 2.0
"""Recorded s that a closed loop may need for a s of its own; with more the arrivals of a window stay the same."""


@dataclass(frozen=True)
class Setup:
    """Everything that one run needs.

    Attributes:
        settings: the settings that it was made from.
        trace: what arrives; ``warm_up_s + window_s`` of it are served.
        config: the cluster.
        slo: the limits.
        arrival_mode: "closed", "causal" or "open".
        warm_up_s: s before the scored window.
        window_s: length of the scored window in s.
        seed: of workload and policy.
    """

    settings: Mapping[str, Any]
    trace: Trace
    config: ClusterConfig
    slo: SLO
    arrival_mode: str
    warm_up_s: float
    window_s: float
    seed: int

    def cluster(self, debug: bool = False) -> Cluster:
        """A new cluster before its first decision."""
        return Cluster(
            self.trace,
            self.config,
            arrival_mode=self.arrival_mode,
            window_s=self.warm_up_s + self.window_s,
            ttft_limit_s=(self.slo.ttft_s, self.slo.ttft_s_per_token),
            debug=debug,
        )

    def scored(self, cluster: Cluster) -> Scored:
        """The requests of a cluster that count."""
        return Scored(
            self.trace,
            cluster.outcome,
            self.slo,
            instances=self.config.instances,
            warm_up_s=self.warm_up_s,
            window_s=self.window_s,
            kv_bytes_per_token=cluster.kv_bytes_per_token,
            block_tokens=self.config.block_tokens,
            imbalance_window_s=self.settings["imbalance_window_s"],
            arrival_mode=self.arrival_mode,
            seed=self.seed,
        )


def prepare(settings: Mapping[str, Any], trace: Trace | None = None) -> Setup:
    """Build a run from settings.

    Args:
        settings: from `settings.compose` or `settings.settings_of`.
        trace: served as it is, instead of the workload of the settings; `at_load` scales it.

    Raises:
        SmetricError: naming the key that makes no sense, or whatever the trace's reader found.
    """
    config, slo = check(settings)
    if trace is None:
        trace = workload(settings, config.instances)
    return Setup(
        settings=settings,
        trace=trace,
        config=config,
        slo=slo,
        arrival_mode=settings["arrival_mode"],
        warm_up_s=float(settings["warm_up_s"]),
        window_s=float(settings["window_s"]),
        seed=settings["seed"],
    )


def check(settings: Mapping[str, Any]) -> tuple[ClusterConfig, SLO]:
    """The cluster and the limits of settings; refuses whatever makes no sense beside the workload."""
    _check_numbers(settings)
    check_boolean("debug", settings["debug"])
    for name, allowed in (("load_by", LOAD_BY), ("arrival_mode", MODES)):
        if settings[name] not in allowed:
            raise SmetricError(unknown(name, settings[name], allowed))
    return cluster_config(settings["cluster"]), _made(SLO, settings["slo"], "slo")


def check_boolean(name: str, value: Any) -> None:
    """Refuse what only looks like true or false."""
    if not isinstance(value, bool):
        raise SmetricError(f"{name} is {value!r}, allowed: true or false")


def check_workload(settings: Mapping[str, Any], instances: int, trace: Trace | None = None) -> None:
    """Refuse keys, a size or a load of the workload that make no sense, without reading or drawing it.

    Args:
        settings: of one run.
        instances: of the cluster that take requests.
        trace: served instead of the workload of the settings.
    """
    from smetric_gym.workload.synthetic import check_size

    values, load = settings["workload"], settings["load"]
    if trace is None and "preset" in values:
        check_size(_synthetic_config(values), instances=instances, load=load, duration_s=_recorded_s(settings))
        return
    if trace is None:
        _check_reader_keys(values)
    _check_load(load, settings["load_by"])


def cluster_config(values: Mapping[str, Any]) -> ClusterConfig:
    """The cluster of the settings ``cluster``; lists become tuples."""
    values = dict(values)
    if isinstance(values.get("hardware"), (list, tuple)):
        values["hardware"] = tuple(values["hardware"])
    if not isinstance(values.get("schedule", ()), (list, tuple)):
        found = values["schedule"]
        raise SmetricError(f"cluster.schedule is {found!r}, allowed: a list of [time_s, instance, up]")
    rows = values.get("schedule", ())  # ClusterConfig says which row is none
    values["schedule"] = tuple(tuple(row) if isinstance(row, (list, tuple)) else row for row in rows)
    return _made(ClusterConfig, values, "cluster")


def policy(settings: Mapping[str, Any], function: Callable | Policy | str | None = None) -> Policy:
    """The policy of the settings, or ``function`` with the parameters of the settings."""
    from smetric_gym.agents.policy import load_policy

    parameters = dict(settings.get("policy") or {})
    name = parameters.pop("name", None)
    spec = name if function is None else function
    return load_policy(spec, disaggregated=settings["cluster"]["decode_instances"] > 0, **parameters)


def workload(settings: Mapping[str, Any], instances: int) -> Trace:
    """The trace of the settings, at their load. Do not change it: it is kept for the next run."""
    names = ("workload", "load", "load_by", "seed", "warm_up_s", "window_s", "arrival_mode")
    return _workload(json.dumps([{name: settings[name] for name in names}, instances], sort_keys=True))


@lru_cache(maxsize=1)  # a sweep serves the same trace with one policy after the other
def _workload(key: str) -> Trace:
    settings, instances = json.loads(key)
    values, load, seed = settings["workload"], settings["load"], settings["seed"]
    if "preset" in values:
        return _synthetic(values, instances, load, _recorded_s(settings), seed)
    return _recorded(values, load, settings["load_by"], seed)


def _recorded_s(settings: Mapping[str, Any]) -> float:
    """Length of a generated trace in s of its recorded times.

    In a closed loop an agent waits for the answers of this cluster, and where they come sooner than the recorded
    ones, it sends more in the same time: the trace must go on, or the end of the window would run dry.
    """
    seconds = settings["warm_up_s"] + settings["window_s"]
    return CLOSED_LOOP * seconds if settings["arrival_mode"] == "closed" else seconds


def _synthetic(values: dict[str, Any], instances: int, load: float, duration_s: float, seed: int) -> Trace:
    from smetric_gym.workload.synthetic import generate

    return generate(
        _synthetic_config(values), instances=instances, load=load, duration_s=duration_s, seed=seed
    )


def _synthetic_config(values: Mapping[str, Any]) -> SyntheticConfig:
    from smetric_gym.workload.presets import PRESETS
    from smetric_gym.workload.synthetic import SyntheticConfig

    values = dict(values)
    preset = values.pop("preset")
    if preset not in PRESETS:
        raise SmetricError(unknown("workload.preset", preset, sorted(PRESETS)))
    base = {f.name: getattr(PRESETS[preset], f.name) for f in fields(SyntheticConfig)}
    return _made(SyntheticConfig, base | values, "workload")


def _recorded(values: dict[str, Any], load: float, load_by: str, seed: int) -> Trace:
    from smetric_gym.workload.readers import read_trace

    _check_reader_keys(values)
    _check_load(load, load_by)
    return at_load(read_trace(seed=seed, **values), load, load_by, seed)


def at_load(trace: Trace, load: float, load_by: str, seed: int) -> Trace:
    """A trace at a multiple of its own rate.

    Args:
        trace: what arrives at load 1; left as it is.
        load: above 0.
        load_by: "sessions" keeps a random share of the whole sessions (load up to 1), "time" squeezes the times.
        seed: of the sessions that are kept.

    Raises:
        SmetricError: when sessions would have to be added.
    """
    from smetric_gym.workload.sampling import sample_sessions, stretch_time

    _check_load(load, load_by)
    if load == 1:
        return trace
    return stretch_time(trace, 1 / load) if load_by == "time" else sample_sessions(trace, load, seed)


def _check_load(load: float, load_by: str) -> None:
    if load_by not in LOAD_BY:
        raise SmetricError(unknown("load_by", load_by, LOAD_BY))
    if load > 1 and load_by == "sessions":
        raise SmetricError(
            f"load is {load}, but load_by=sessions only thins a recorded trace: use up to 1, or load_by=time"
        )


def _check_reader_keys(values: Mapping[str, Any]) -> None:
    from smetric_gym.workload.readers import read_trace

    known = [name for name in inspect.signature(read_trace).parameters if name != "seed"]
    for name in values:
        if name not in known:
            raise unknown_key("workload", name, known)


def _made(kind, values: Mapping[str, Any], group: str):
    """A dataclass from settings, with a sentence about names and types that it does not take."""
    allowed = [f.name for f in fields(kind)]
    for name in values:
        if name not in allowed:
            raise unknown_key(group, name, allowed)
    try:
        return kind(**values)
    except SmetricError:
        raise
    except (TypeError, ValueError) as error:
        words = ", ".join(f"{k}={v!r}" for k, v in values.items() if isinstance(v, (str, dict, list)))
        raise SmetricError(f"{group} has a value of the wrong type: {error} (no numbers: {words})") from error


def _check_numbers(settings: Mapping[str, Any]) -> None:
    for name in ("warm_up_s", "window_s", "imbalance_window_s", "load"):
        value, zero = settings[name], name == "warm_up_s"
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not number or value < 0 or (value == 0 and not zero):
            allowed = "0 or more" if zero else "above 0"
            raise SmetricError(f"{name} is {value!r}, allowed: a finite number {allowed}")
    if settings["warm_up_s"] + settings["window_s"] > LATEST_S:
        window_s = settings["window_s"]
        raise SmetricError(f"window_s is {window_s!r}, allowed: up to {LATEST_S:g} s with the warm-up")
    if type(settings["seed"]) is not int or settings["seed"] < 0:
        raise SmetricError(f"seed is {settings['seed']!r}, allowed: a whole number, 0 or more")
