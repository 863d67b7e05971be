"""The study of a learner that trains a network: its environments, its validation, its files (extra ``rl``)."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from hydra.core.hydra_config import HydraConfig
from rich.console import Console

from smetric_gym.agents.features import FEATURES, observe
from smetric_gym.agents.learned_file import NETWORK, read_learned, save_learned, weights_of
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.cells import scenarios
from smetric_gym.experiment.gains import GAINS
from smetric_gym.experiment.rollouts import Rollouts
from smetric_gym.experiment.settings import unknown
from smetric_gym.experiment.store import as_json, digest_of, write_whole
from smetric_gym.experiment.tables import plain_table, write_csv
from smetric_gym.experiment.tasks import progress_bar
from smetric_gym.experiment.train import POLICY_FILE
from smetric_gym.experiment.validation import BESIDE, Validation

if TYPE_CHECKING:
    from smetric_gym.agents.network import Scorer

CLUSTERS = ("colocated", "disaggregated")
BEST, STATE = "best.safetensors", "state.json"
LATE = 0.1
POSITIVE = ("learning_rate", "horizon_s", "reward_scale", "sharpness", "clip")
COUNTS = (
    "steps", "look_every", "envs", "share", "hidden", "last", "threads", "n_steps", "batch_size", "n_epochs", "passes",
    "memory", "newest", "coreset", "retrain_every", "buffer_size", "seed",
)  # fmt: skip


def learn(settings: dict[str, Any], folder: Path, console: Console) -> None:
    """Train, and write ``policy.safetensors``, ``history.csv``, ``validation.csv`` and ``training.json`` to `folder`.

    At every look the state is kept under ``output/store/train``; the same settings go on from it.
    """
    values = checked(settings["train"])
    learner = learner_module(values["agent"])
    store = Path(settings["output"]) / "store" / "train"
    state = store / digest_of([values, settings["cells"]])
    if settings["force"]:
        (state / STATE).unlink(missing_ok=True)
    held = scenarios(settings["cells"], settings["cells"]["validation_seeds"])
    held = [one for one in held if bool(one["cluster"]["decode_instances"]) == (values["cluster"] == CLUSTERS[1])]
    if not held:
        raise SmetricError(f"cells has no cell of a {values['cluster']} cluster, allowed: one or more, to validate on")
    with Rollouts(settings["jobs"]) as rollouts, progress_bar(console, values["steps"], "decisions") as tick:
        study = NetworkStudy(values, Validation(values, held, rollouts, store), state, console, tick)
        try:
            learner.learn(study)
        except KeyboardInterrupt:
            console.print(
                f"interrupted: {study.steps:,} decisions are kept in {state}; the same command goes on from there"
            )
            raise
        finally:
            study.close()
    study.save(folder, settings["cells"], command_of(HydraConfig.get().overrides.task))


def learner_module(agent: str) -> ModuleType:
    """The module of a learner.

    Raises:
        SmetricError: when a package that it needs is missing.
    """
    try:
        importlib.import_module("torch.utils.tensorboard")
        return importlib.import_module(f"smetric_gym.agents.{agent}")
    except ImportError as error:
        raise SmetricError(
            f"agent={agent} needs the package {error.name}, which is not installed: pip install 'smetric-gym[rl]'"
        ) from error


def checked(values: dict[str, Any]) -> dict[str, Any]:
    """The settings ``train`` of a network.

    Raises:
        SmetricError: naming the key that makes no sense.
    """
    for name in set(COUNTS) & set(values):
        if type(values[name]) is not int or values[name] < 1:
            raise SmetricError(f"train.{name} is {values[name]!r}, allowed: a whole number, 1 or more")
    for name in set(POSITIVE) & set(values):
        if not isinstance(values[name], (int, float)) or not values[name] > 0:
            raise SmetricError(f"train.{name} is {values[name]!r}, allowed: a number above 0")
    for name, allowed in (("cluster", CLUSTERS), ("target", GAINS)):
        if values[name] not in allowed:
            raise SmetricError(unknown(f"train.{name}", values[name], allowed))
    return values


def command_of(overrides: Iterable[str]) -> str:
    """The command that Hydra was given, to be written beside what it made."""
    words = [f"agent{word.removeprefix('train')}" if word.startswith("train=") else word for word in overrides]
    return shlex.join(["smetric-gym", "train", *words])


def patient(ended: Any, elapsed_s: float) -> float:
    """A reward: goodput, less 10 % of the tokens of a late request for every e-fold of its TTFT above the limit.

    With goodput alone a late request is worth nothing, however late it is, and a learner finds out that requests which
    wait for minutes serve the others well: tokens within the SLO rise, and the p99 TTFT with them.
    """
    if not len(ended):
        return 0.0
    tokens = (ended.prompt_tokens + ended.output_tokens) * ended.scored
    late = np.log(np.maximum(ended.ttft_s / ended.ttft_limit_s, 1))
    return float((tokens * (ended.met - LATE * late)).sum())


OWN_REWARDS = {"patient": patient}
"""Rewards for training beside those of ``envs.REWARDS``."""


class NetworkStudy:
    """What `smetric_gym.agents.study.Study` promises.

    Args:
        values: the settings ``train``, `checked`.
        validation: scores networks.
        state: folder that keeps what is needed to go on.
        console: where progress is told.
        tick: shows how many decisions are done.
    """

    def __init__(
        self, values: dict[str, Any], validation: Validation, state: Path, console: Console, tick: Callable[..., None]
    ) -> None:
        import torch
        from torch.utils.tensorboard import SummaryWriter

        torch.set_num_threads(values["threads"])
        self.values, self.validation, self.state, self.console, self.tick = values, validation, state, console, tick
        self.steps, self.checkpoint = 0, None
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Any] = {}
        self._cpu_s, self._since_s = 0.0, process_time()
        if (state / STATE).is_file():
            kept = orjson.loads((state / STATE).read_bytes())
            self.steps, self.history, self.best = kept["steps"], kept["history"], kept["best"]
            self.checkpoint, self._cpu_s = state / kept["checkpoint"], kept["cpu_s"]
            console.print(f"going on after {self.steps:,} decisions, kept in {state}")
        else:
            state.mkdir(parents=True, exist_ok=True)
        self._log = SummaryWriter(self.tensorboard(), purge_step=self.steps)
        console.print(f"to watch: tensorboard --logdir {self.tensorboard()}", style="dim")
        console.print(
            "every look: mean gain over the best reference of each validation trace, less the guard; *: the best so far"
        )

    def environments(self, **changes: Any) -> Any:
        """A vector environment that observes the features; see `Study`."""
        from smetric_gym.envs import VectorColocatedEnv, VectorDisaggregatedEnv

        values = self.values
        kind = VectorDisaggregatedEnv if values["cluster"] == CLUSTERS[1] else VectorColocatedEnv
        arguments = {
            "num_envs": values["envs"], "share": values["share"], "scenario": values["scenario"],
            "reward": OWN_REWARDS.get(values["reward"], values["reward"]), "reference": values["reference"],
            "observation": observe,
        }  # fmt: skip
        return kind(**{**arguments, **changes})

    def sb3_environments(self) -> Any:
        """The same for Stable-Baselines3."""
        from smetric_gym.envs.sb3 import SB3VecEnv

        envs = SB3VecEnv(self.environments(), self.values["reward_scale"])
        envs.seed(self.values["seed"] + self.steps)
        return envs

    def teacher(self, envs: Any, policy: str) -> Any:
        """A policy that says what it would do; see `Study`."""
        from smetric_gym.envs import VectorTeacher

        return VectorTeacher(envs, policy)

    def scorer(self) -> Scorer:
        """The network to begin with."""
        from smetric_gym.agents.network import Scorer

        return Scorer.starting(**{name: self.values[name] for name in ("start", "hidden", "last", "sharpness")})

    def tensorboard(self) -> str:
        """Folder of the event files."""
        return str(self.state / "tensorboard")

    def look(
        self, steps: int, scorer: Scorer, save: Callable[[Path], Any], told: Mapping[str, float] | None = None
    ) -> None:
        """Validate, keep the best, tell and log, and write a checkpoint; see `Study`."""
        tensors = scorer.tensors()
        found = self.validation.of(weights_of("of the training", "mlp", tensors, tuple(FEATURES)))
        row = {"steps": steps, "validation_percent": found.percent, f"{BESIDE}_percent": self.validation.beside(),
               **(told or {})}  # fmt: skip
        better = not self.best or found.percent > self.best["percent"]
        if better:
            self.best = {"steps": steps, "percent": found.percent, "scored": found.scored}
            save_learned(self.state / BEST, tensors)
        for name, value in row.items():
            self._log.add_scalar(name if name in (told or {}) else f"validation/{name}", value, steps)
        self._log.flush()
        self.history.append(row)
        self._keep(steps, save)
        more = ", ".join(f"{name} {value:.3g}" for name, value in (told or {}).items())
        self.console.print(
            f"{steps:9,} decisions: {row['validation_percent']:+6.2f} %{' *' if better else '  '} "
            f"({BESIDE} {row[f'{BESIDE}_percent']:+.2f} %) {more}"
        )

    def close(self) -> None:
        """Close the event file."""
        self._log.close()

    def save(self, folder: Path, cells: dict[str, Any], command: str) -> None:
        """Write the best network, and how it came about."""
        rows = self.validation.rows(self.best["scored"])
        made = {"command": command, "train": self.values, "cells": cells, "kept_steps": self.best["steps"],
                "validation_percent": self.best["percent"], "validation": rows, "cpu_s": self._cpu()}  # fmt: skip
        best = read_learned(self.state / BEST).weights
        arrays = [best.layer1.T, best.bias1, best.layer2.T, best.bias2, best.score[None]]
        tensors = dict(zip(NETWORK, arrays, strict=True)) | {"linear.weight": best.linear[None].astype("float32")}
        save_learned(folder / POLICY_FILE, tensors, tuple(FEATURES), made)
        names = list(dict.fromkeys(name for row in self.history for name in row))
        history = [{name: row.get(name, float("nan")) for name in names} for row in self.history]
        write_csv(folder / "history.csv", history)
        write_csv(folder / "validation.csv", rows)
        write_whole(folder / "training.json", as_json(made))
        shown = [[row["cell"], *(f"{value:+.1f} %" for name, value in row.items() if name != "cell")] for row in rows]
        self.console.print(plain_table(list(rows[0]), shown, "Validation: to the best reference on the same trace"))

    def _cpu(self) -> float:
        """CPU seconds of this process, and of those before it that were interrupted."""
        return self._cpu_s + process_time() - self._since_s

    def _keep(self, steps: int, save: Callable[[Path], Any]) -> None:
        """Write a checkpoint beside the one before, then say that it counts, then drop the one before."""
        before, name = self.checkpoint, f"checkpoint-{steps}.zip"
        save(self.state / name)
        kept = {"steps": steps, "checkpoint": name, "history": self.history, "best": self.best, "cpu_s": self._cpu()}
        write_whole(self.state / STATE, as_json(kept))
        self.steps, self.checkpoint = steps, self.state / name
        if before is not None and before != self.checkpoint:
            before.unlink(missing_ok=True)
