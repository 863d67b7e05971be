"""What the controls of the page say, as one value that can be compared, and as the settings of a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import policy as policy_of
from smetric_gym.experiment.prepare import prepare
from smetric_gym.experiment.settings import choices, compose, group_file
from smetric_gym.play.recording import Recording

FILE = "file"
"""The entry of the workload menu that reads a trace from disk."""
STEPS: dict[str, tuple[float, ...]] = {
    "overload": (0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 6, 8),
    "slack": (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4),
    "hit_ratio": (0, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95),
    "lam": (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1),
    "overlap": (0, 0.25, 0.5, 1, 2, 4),
    "decay": (0, 0.25, 0.5, 1, 2),
    "scale": (0, 0.5, 1, 2),
    "request_weight": (0, 16, 64, 256, 1024),
    "queued": (0, 1),
    "global_hits": (0, 1),
}
"""Where the sliders of the policies' parameters stop; each value is inside ``agents.params.RANGES``."""
KEPT = 8
"""Recordings that are kept: moving a slider back is free."""


@dataclass(frozen=True)
class Router:
    """A policy with its parameters.

    Attributes:
        name: a registered policy, or ``FILE.py:FUNCTION``.
        parameters: (name, value) of those that differ from ``conf/policy``.
    """

    name: str
    parameters: tuple[tuple[str, float], ...] = ()

    @property
    def label(self) -> str:
        """The name, with the parameters that were changed."""
        short = self.name.rpartition(":")[2]
        changed = ", ".join(f"{name} {value:g}" for name, value in self.parameters)
        return f"{short} ({changed})" if changed else short


@dataclass(frozen=True)
class Scenario:
    """Everything that both policies of the page meet alike.

    Attributes:
        cluster: a file of ``conf/cluster``.
        instances: that take requests, and as many that decode where the cluster is disaggregated; None takes
            the number of the file (clusters of mixed hardware or with a schedule have theirs).
        workload: a preset of ``conf/workload``, or "file".
        path: of the trace, for "file".
        load: multiple of the workload's own rate.
        global_tier: multiples of the local tiers together, 0 for none.
        loads: "blocking" or "async".
        nics: per server.
        nic_gbytes_per_s: GB/s of one NIC.
        slo: a file of ``conf/slo``.
        slo_scale: multiplies every limit of it.
        warm_up_s: s before the scored window.
        window_s: s, the scored window.
        seed: of workload and policies.
    """

    cluster: str = "colocated"
    instances: int | None = 16
    workload: str = "trace1"
    path: str = ""
    load: float = 1.5
    global_tier: float = 3.2
    loads: str = "blocking"
    nics: int = 4
    nic_gbytes_per_s: float = 10.0
    slo: str = "paper"
    slo_scale: float = 1.0
    warm_up_s: float = 300.0
    window_s: float = 900.0
    seed: int = 0

    def settings(self, router: Router) -> dict[str, Any]:
        """The settings of a run, as ``conf/`` has them.

        Raises:
            SmetricError: naming what makes no sense.
        """
        changes: dict[str, Any] = {
            "load": self.load,
            "seed": self.seed,
            "warm_up_s": self.warm_up_s,
            "window_s": self.window_s,
            "cluster.global_tier": self.global_tier,
            "cluster.loads": self.loads,
            "cluster.nics_per_server": self.nics,
            "cluster.nic_bytes_per_s": 1e9 * self.nic_gbytes_per_s,
        }
        if self.instances is not None and not fixed_size(self.cluster):
            changes["cluster.instances"] = self.instances
            if disaggregated(self.cluster):
                changes["cluster.decode_instances"] = self.instances
        changes |= {f"slo.{name}": self.slo_scale * value for name, value in group_file("slo", self.slo).items()}
        words = [f"cluster={self.cluster}", f"workload={self.workload}"]
        if self.workload == FILE:
            if not self.path:
                raise SmetricError("no trace file is named, allowed: the path of one, e.g. traces/mooncake.jsonl")
            changes |= {"workload.path": self.path, "load_by": "time", "arrival_mode": "causal"}
        if router.name in choices("policy"):
            words.append(f"policy={router.name}")
        else:
            words.append("policy=custom")
            changes["policy.name"] = router.name
        changes |= {f"policy.{name}": value for name, value in router.parameters}
        return compose(words, changes)


def fixed_size(cluster: str) -> bool:
    """True where a file of ``conf/cluster`` names its instances one by one, so that their number is fixed."""
    values = group_file("cluster", cluster)
    return bool(values.get("schedule")) or isinstance(values.get("hardware"), list)


def disaggregated(cluster: str) -> bool:
    """True for a file of ``conf/cluster`` with a decode pool."""
    return bool(group_file("cluster", cluster).get("decode_instances"))


def workloads() -> list[str]:
    """What the workload menu offers: the generated ones, and "file"."""
    return [name for name in choices("workload") if "preset" in group_file("workload", name)] + [FILE]


def parameters(policy: str) -> dict[str, tuple[tuple[float, ...], float]]:
    """The numbers of a policy that a slider moves: name to (stops, default)."""
    if policy not in choices("policy"):
        return {}
    found = {}
    for name, value in group_file("policy", policy).items():
        if name in STEPS and isinstance(value, (int, float)):
            found[name] = tuple(sorted({*STEPS[name], value})), value
    return found


_ONE_AT_A_TIME = Lock()  # pages share the process, and Hydra composes for one at a time


def record(scenario: Scenario, router: Router) -> Recording:
    """The run of a policy in a scenario; kept, so that asking again costs nothing.

    Raises:
        SmetricError: in one sentence, what makes no sense.
    """
    with _ONE_AT_A_TIME:
        return _record(scenario, router)


@lru_cache(maxsize=KEPT)
def _record(scenario: Scenario, router: Router) -> Recording:
    settings = scenario.settings(router)
    return Recording(prepare(settings), policy_of(settings), router.label)
