"""`smetric-gym train agent=NAME`: find the learner of that name and let it work."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import check_boolean
from smetric_gym.experiment.settings import settings_of, unknown
from smetric_gym.experiment.tables import terminal
from smetric_gym.experiment.tasks import say_if_compiling

POLICY_FILE = "policy.safetensors"
LEARNERS: dict[str, str] = {
    "cmaes": "smetric_gym.experiment.train_cmaes:learn",
    **dict.fromkeys(
        ("ppo", "maskable_ppo", "ppo_single_file", "dqn", "bc", "bandit"), "smetric_gym.experiment.train_network:learn"
    ),
}
"""By the name of their file in ``conf/train``: a function ``(settings, folder, console) -> None`` that writes the
trained policy as ``folder / POLICY_FILE``, keeps its state under ``settings["output"]``, and goes on from there."""

Learner = Callable[[dict[str, Any], Path, Console], None]


def train_task(config: DictConfig) -> None:
    """Train the agent of the configuration; results go into Hydra's output folder."""
    console = terminal()
    settings, folder = settings_of(config), Path(HydraConfig.get().runtime.output_dir)
    check_boolean("force", settings["force"])
    say_if_compiling(console)
    learner(settings["train"]["agent"])(settings, folder, console)
    path = folder / POLICY_FILE
    console.print(f"written to {folder}; to run it: smetric-gym evaluate policy=learned policy.path={path}")


def learner(name: str) -> Learner:
    """The function that trains this agent."""
    if name not in LEARNERS:
        raise SmetricError(unknown("agent", name, list(LEARNERS)))
    module, _, function = LEARNERS[name].partition(":")
    return getattr(importlib.import_module(module), function)


def agent_argument(arguments: list[str]) -> list[str]:
    """The arguments of ``train`` as Hydra wants them: ``agent=NAME`` is the file of the group ``train``."""
    given = [word.partition("=")[2] for word in arguments if word.startswith("agent=")]
    if len(given) != 1 or given[0] not in LEARNERS:
        raise SmetricError(unknown("agent", given[0] if given else None, list(LEARNERS)))
    return [f"train={given[0]}", *(word for word in arguments if not word.startswith("agent="))]
