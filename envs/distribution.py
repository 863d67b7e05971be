"""Distributions of scenarios: what an episode's cluster and workload are, drawn from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np

from smetric_gym.envs.draws import RANGES, check_draw, check_region, draw, holds, keys_of
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.settings import choices, group_file, unknown

KEYS = ("max_instances", "shuffle", "trace_seeds", "draw", "held_out", "held_out_of")
OWN = ("hardware", "outages", "outage_s")
"""Keys of ``draw`` that are no settings of `evaluate`."""
GROUPS = ("workload", "slo")
"""Groups of ``conf/`` whose files can be drawn by name."""
TRIES = 10_000
LAST_SEED = 2**31 - 1


class ScenarioDistribution:
    """Draws the settings of an episode from a seed; ``conf/scenario/train.yaml`` explains the form.

    Args:
        spec: name of a file of ``conf/scenario``, or a mapping like one.

    Attributes:
        name: of the file, or "own".
        max_instances: rows that an observation needs.
        shuffle: whether the order of the instances is another one in every episode.
        trace_seeds: first and last seed of the workload.
        keys: the keys that a draw may set.

    Raises:
        SmetricError: for a form that makes no sense.

    Example:
        >>> ScenarioDistribution("one").draw(7)["instances"]
        8
    """

    def __init__(self, spec: str | Mapping[str, Any]) -> None:
        if isinstance(spec, str):
            self.name, values = spec, group_file("scenario", spec)
        elif isinstance(spec, Mapping):
            self.name, values = "own", deepcopy(dict(spec))
        else:
            raise SmetricError(f"scenario is {spec!r}, allowed: a name, a mapping or a ScenarioDistribution")
        for key in values:
            if key not in KEYS:
                raise SmetricError(unknown(f"a key of scenario {self.name}", key, KEYS))
        self._inside = "held_out_of" in values
        seeds = values.get("trace_seeds")
        if self._inside:
            parent = ScenarioDistribution(values["held_out_of"])
            values = parent._values | values
            self._check_parent(parent, seeds)
        self._values: dict[str, Any] = values
        self._draw: Mapping[str, Any] = values.get("draw") or {}
        self._regions: list[Mapping[str, Any]] = values.get("held_out") or []
        self.max_instances: int = values.get("max_instances")  # type: ignore[assignment]
        self.shuffle: bool = values.get("shuffle", False)
        self.keys = frozenset(keys_of(self._draw))
        self._check(seeds)
        self.trace_seeds: tuple[int, int] = (seeds[0], seeds[1])  # type: ignore[index]
        drawn = max(self.draw(seed).get("instances", 1) for seed in range(32))
        if drawn > self.max_instances:
            raise self._error(f"draws {drawn} instances, allowed: up to max_instances, {self.max_instances}")

    def draw(self, seed: int) -> dict[str, Any]:
        """The drawn keys of an episode and its ``trace_seed``; the same for the same seed.

        Raises:
            SmetricError: when the regions leave nothing to draw from.
        """
        random = np.random.default_rng([seed, 0])
        region = self._regions[random.integers(len(self._regions))] if self._inside else None
        for _ in range(TRIES):
            values: dict[str, Any] = {}
            for key, choice in self._draw.items():
                draw(key, choice, random, values)
            if not self.is_held_out(values) if region is None else holds(region, values):
                values["trace_seed"] = int(random.integers(self.trace_seeds[0], self.trace_seeds[1] + 1))
                return values
        where = "outside held_out" if region is None else f"into {region}"
        raise self._error(f"no draw of {TRIES:,} falls {where}")

    def is_held_out(self, values: Mapping[str, Any]) -> bool:
        """True when a draw falls into a held-out region."""
        return any(holds(region, values) for region in self._regions)

    def settings(self, values: Mapping[str, Any], base: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """The settings of an episode.

        Args:
            values: from `draw`.
            base: settings of `evaluate` for everything that is not drawn.
            seed: of the draw, which also places the outages.
        """
        result = deepcopy(dict(base))
        for key, value in values.items():
            if key not in OWN and key != "trace_seed":
                _set(result, key, value)
        result["seed"] = values["trace_seed"]
        cluster = result["cluster"]
        count = cluster["instances"]
        if "instances" in values and cluster["decode_instances"]:
            cluster["decode_instances"] = count
        hardware = values.get("hardware", cluster["hardware"])
        if isinstance(hardware, list) and "hardware" in values:
            total = count + cluster["decode_instances"]
            hardware = [hardware[k % len(hardware)] for k in range(total)]
        cluster["hardware"] = hardware
        away = min(values.get("outages", 0), count - 1)  # one instance stays
        if away:
            random, end_s = np.random.default_rng([seed, 1]), result["warm_up_s"] + result["window_s"]
            for instance in random.choice(count, away, replace=False).tolist():
                gone_s = float(random.uniform(0, end_s))
                cluster["schedule"] += [[gone_s, instance, False], [gone_s + values["outage_s"], instance, True]]
        return result

    def _check(self, seeds: Any) -> None:
        if type(self.max_instances) is not int or self.max_instances < 1:
            raise self._error(f"max_instances is {self.max_instances!r}, allowed: a whole number, 1 or more")
        if not isinstance(self.shuffle, bool):
            raise self._error(f"shuffle is {self.shuffle!r}, allowed: true or false")
        good = isinstance(seeds, list | tuple) and len(seeds) == 2 and all(type(seed) is int for seed in seeds)
        if not good or not 0 <= seeds[0] <= seeds[1] <= LAST_SEED:
            raise self._error(f"trace_seeds must be [first, last], whole numbers from 0 to {LAST_SEED}")
        for key, choice in self._draw.items():
            check_draw(key, choice)
        if "outages" in self.keys and "outage_s" not in self.keys:
            raise self._error("outages are drawn, but not outage_s")
        for region in self._regions:
            check_region(region)
            for key in region:
                if key not in self.keys:
                    raise self._error(f"held_out names {unknown('a key', key, sorted(self.keys))}")

    def _check_parent(self, parent: ScenarioDistribution, seeds: Any) -> None:
        if not parent._regions:
            raise self._error(f"held_out_of is {parent.name!r}, which holds nothing out")
        first, last = parent.trace_seeds
        if not isinstance(seeds, list | tuple) or not (seeds[-1] < first or seeds[0] > last):
            raise self._error(f"trace_seeds overlap those of {parent.name}, allowed: others than {first} to {last}")

    def _error(self, words: str) -> SmetricError:
        return SmetricError(f"scenario {self.name}: {words}")


def _set(settings: dict[str, Any], key: str, value: Any) -> None:
    """Set a setting by its dotted name, ``instances`` and ``global_tier`` in the cluster, groups by name."""
    if key in ("instances", "global_tier"):
        key = f"cluster.{key}"
    if key in GROUPS and isinstance(value, str):
        value = dict(_file(key, value))
    *groups, name = key.split(".")
    place: Any = settings
    for group in groups:
        place = place.get(group) if isinstance(place, dict) else None
    if not isinstance(place, dict) or (name not in place and groups != ["workload"]):
        raise SmetricError(unknown("a drawn key", key, [*settings, *OWN, *RANGES]))
    place[name] = value


@cache
def _file(group: str, name: str) -> dict[str, Any]:
    if name not in choices(group):
        raise SmetricError(unknown(group, name, choices(group)))
    return group_file(group, name)
