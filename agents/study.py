"""What a learner is given: environments, and somebody who looks at what it has learned so far.

A learner is a module of this package with ``learn(study)``. It knows nothing of clusters, files and consoles: it
asks the study for environments, learns from them for ``values["steps"]`` decisions, and every now and then shows its
network. `smetric_gym.experiment.train_network` is the study that ``smetric-gym train`` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from smetric_gym.agents.network import Scorer


class Study(Protocol):
    """The learner's side of a training.

    Attributes:
        values: the settings ``train`` of ``conf/``.
        steps: decisions learned from so far; more than 0 after an interruption.
        checkpoint: what `look` was told to save then, or None at the beginning.
    """

    values: dict[str, Any]
    steps: int
    checkpoint: Path | None

    def environments(self, **changes: Any) -> Any:
        """A vector environment whose observations are the features ([envs, rows, FEATURES] float32).

        Args:
            changes: arguments that differ from the settings (``num_envs``, ``reward``, ...).
        """

    def sb3_environments(self) -> Any:
        """The same as a ``VecEnv`` of Stable-Baselines3, rewards scaled by ``values["reward_scale"]``."""

    def teacher(self, envs: Any, policy: str) -> Any:
        """A policy at the wheel of `envs`: its ``actions()`` are [envs] int64, asked once for each step."""

    def scorer(self) -> Scorer:
        """The network to begin with."""

    def tensorboard(self) -> str:
        """Folder of the event files."""

    def tick(self, steps: int) -> None:
        """Show how far it is; cheap."""

    def look(
        self, steps: int, scorer: Scorer, save: Callable[[Path], Any], told: Mapping[str, float] | None = None
    ) -> None:
        """Score the network on the validation seeds, keep the best so far, tell, log, and make it possible to go on.

        Args:
            steps: decisions learned from.
            scorer: the network.
            save: writes everything that the learner needs to go on to the path that it is given.
            told: numbers of the learner's own, by name, for the log.
        """
