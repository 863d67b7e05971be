"""`smetric-gym tune policy=NAME`: the parameters of a policy that serve the training scenarios best."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.box import Axis, around, axes, points
from smetric_gym.experiment.cells import Scenario, scenarios
from smetric_gym.experiment.gains import GAINS, gain, percent, reference_jobs
from smetric_gym.experiment.prepare import check_boolean
from smetric_gym.experiment.prepare import policy as policy_of
from smetric_gym.experiment.rollouts import Job, Rollouts
from smetric_gym.experiment.settings import settings_of, unknown
from smetric_gym.experiment.store import as_json, digest_of, write_whole
from smetric_gym.experiment.tables import number, plain_table, terminal, write_csv
from smetric_gym.experiment.tasks import progress_bar, say_if_compiling

BESIDE = "smetric"
"""The policy whose result on the same trace, at its defaults, is the unit."""


def tune_task(config: DictConfig) -> None:
    """Tune the policy of the configuration; results go into Hydra's output folder and ``tune.folder``."""
    console = terminal()
    settings, folder = settings_of(config), Path(HydraConfig.get().runtime.output_dir)
    check_boolean("force", settings["force"])
    values = checked(settings["tune"], settings["policy"])
    policy = with_defaults(settings["policy"], values["box"])
    say_if_compiling(console)
    key = digest_of([values, settings["cells"], policy])
    state = Path(settings["output"]) / "store" / "tune" / f"{key}.json"
    if settings["force"]:
        state.unlink(missing_ok=True)
    with Rollouts(settings["jobs"]) as rollouts:
        try:
            found = Tuning(values, policy, settings["cells"], rollouts, state, console).run()
        except KeyboardInterrupt:
            console.print(f"interrupted: what was tried is kept in {state}; the same command goes on from there")
            raise
    names = list(values["box"])
    tried = enumerate(found["tried"])
    rows = [[f"{k}", *(row[name] for name in names), f"{row['percent']:+.2f} %"] for k, row in tried]
    console.print(plain_table(["", *names, f"to {BESIDE}"], rows, policy["name"]))
    name = policy["name"].rpartition(":")[2]
    for path in (folder / "tuned.json", Path(settings["tune"]["folder"]) / f"{name}.json"):
        write_whole(path, as_json(found))
    write_csv(folder / "tried.csv", found["tried"])
    words = ", ".join(f"{key}={number(value)}" for key, value in found["tuned"].items() if key in names)
    console.print(
        f"tuned: {words}; on the validation seeds {found['validation_percent']:+.2f} % to {BESIDE}, "
        f"at its defaults {found['default_validation_percent']:+.2f} %; written to {folder} and {path.parent}"
    )


def checked(values: dict[str, Any], policy: dict[str, Any]) -> dict[str, Any]:
    """The settings ``tune`` that decide what is found, with the box of this policy.

    Raises:
        SmetricError: naming the key that makes no sense, or when nobody says what to search.
    """
    for name, least in (("budget", 2), ("seeds", 1), ("seed", 0)):
        if type(values[name]) is not int or values[name] < least:
            raise SmetricError(f"tune.{name} is {values[name]!r}, allowed: a whole number, {least} or more")
    if not isinstance(values["clip"], (int, float)) or not values["clip"] > 0:
        raise SmetricError(f"tune.clip is {values['clip']!r}, allowed: more than 0")
    if values["target"] not in GAINS:
        raise SmetricError(unknown("tune.target", values["target"], GAINS))
    boxes, name = values["boxes"], policy["name"]
    box = values["box"] or boxes.get(name)
    if not box:
        raise SmetricError(f"policy {name} has no box to search, allowed: tune.box={{KEY: [low, high]}}, or a policy "
                           f"that has one ({', '.join(boxes)})")  # fmt: skip
    for axis in axes(box):
        for place in (0.0, 1.0):  # the policy says what it does not take
            changed = {**policy, axis.name: axis.value(place)}
            policy_of({"policy": changed, "cluster": {"decode_instances": 0}})
    return {key: value for key, value in values.items() if key not in ("boxes", "folder")} | {"box": dict(box)}


def with_defaults(policy: dict[str, Any], box: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a policy, with its own default where a parameter of the box is not given."""
    params = policy_of({"policy": policy, "cluster": {"decode_instances": 0}}).params
    return {name: getattr(params, name) for name in box} | policy


class Tuning:
    """The search: half of the budget over the whole box, half in a quarter of each axis about the best so far.

    Args:
        values: the settings ``tune``, `checked`.
        policy: its settings, the defaults.
        cells: the settings ``cells``.
        rollouts: where runs take place.
        state: file that keeps what was tried.
        console: where progress is told.
    """

    def __init__(
        self,
        values: dict[str, Any],
        policy: dict[str, Any],
        cells: dict[str, Any],
        rollouts: Rollouts,
        state: Path,
        console: Console,
    ) -> None:
        self.values, self.policy, self.rollouts, self.state, self.console = values, policy, rollouts, state, console
        self.axes: list[Axis] = axes(values["box"])
        self.train = scenarios(cells, cells["seeds"][: values["seeds"]])
        self.held = scenarios(cells, cells["validation_seeds"])
        self.kept: dict[str, list[float]] = orjson.loads(state.read_bytes()) if state.is_file() else {}

    def run(self) -> dict[str, Any]:
        """Search; what was found, for JSON."""
        budget, seed = self.values["budget"], self.values["seed"]
        wide = points(len(self.axes), (budget - 1) // 2, seed)
        tried = [self.policy, *map(self._at, wide)]
        gains = self._gains(self.train, tried, "train")
        best = int(np.argmax(gains))
        centre = wide[best - 1] if best else wide[int(np.argmax(gains[1:]))]
        near = around(centre, points(len(self.axes), budget - len(tried), seed + 1))
        tried += map(self._at, near)
        gains = self._gains(self.train, tried, "train")
        tuned = tried[int(np.argmax(gains))]  # the first of equals, so the defaults if nothing is better
        default_held, tuned_held = self._gains(self.held, [self.policy, tuned], "held")
        names = [axis.name for axis in self.axes]
        return {
            "policy": self.policy["name"],
            "default": self.policy,
            "tuned": tuned,
            "percent": percent(max(gains)),
            "default_percent": percent(gains[0]),
            "validation_percent": percent(tuned_held),
            "default_validation_percent": percent(default_held),
            "tried": [{**{n: p[n] for n in names}, "percent": percent(g)} for p, g in zip(tried, gains, strict=True)],
            "settings": self.values,
        }  # fmt: skip

    def _at(self, places: np.ndarray) -> dict[str, Any]:
        return {**self.policy, **{a.name: a.value(float(x)) for a, x in zip(self.axes, places, strict=True)}}

    def _gains(self, where: list[Scenario], policies: list[dict[str, Any]], kind: str) -> list[float]:
        """The mean gain of each policy over `BESIDE`; only what is not known yet is run, and kept."""
        beside = np.array(self._scores(where, None, kind))
        scored = [np.array(self._scores(where, policy, kind)) for policy in policies]
        return [float(gain(values, beside, self.values["clip"]).mean()) for values in scored]

    def _scores(self, where: list[Scenario], policy: dict[str, Any] | None, kind: str) -> list[float]:
        key = f"{kind} {BESIDE if policy is None else digest_of(policy)}"
        if key not in self.kept:
            jobs = reference_jobs(where, [BESIDE]) if policy is None else [Job(s, policy) for s in where]
            with progress_bar(self.console, len(jobs), f"runs of setting {len(self.kept)}") as progress:
                self.kept[key] = self.rollouts.run(jobs, progress)[self.values["target"]].tolist()
            write_whole(self.state, as_json(self.kept))
        return self.kept[key]
