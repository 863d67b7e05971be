"""PPO of Stable-Baselines3 (Schulman et al. 2017) with a policy that scores every instance by shared weights.

The policy is a softmax over the scores; the network gives rows without an instance no chance, so a padded scenario
will do, too. SB3 discounts by the step (``gamma`` for each decision, however long it took); the single-file PPO
beside it discounts by simulated time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.logger import configure
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import LinearSchedule
from torch import Tensor, nn

from smetric_gym.agents.network import Critic, Scorer
from smetric_gym.agents.study import Study

OPTIONS = (
    "n_steps", "batch_size", "n_epochs", "learning_rate", "gamma", "gae_lambda", "clip_range", "ent_coef", "target_kl",
)  # fmt: skip
"""Settings that go to SB3 as they are."""


class Rows(BaseFeaturesExtractor):
    """Leaves [batch, rows, FEATURES] as it is; SB3 would flatten it."""

    def __init__(self, observation_space: Any) -> None:
        super().__init__(observation_space, features_dim=observation_space.shape[-1])

    def forward(self, observations: Tensor) -> Tensor:
        """The observations."""
        return observations


class Actor(nn.Module):
    """Scorer and critic, where SB3 has the trunk of its networks.

    Args:
        rows: of an observation.
        scorer: gives the logits of the policy.
    """

    def __init__(self, rows: int, scorer: Scorer) -> None:
        super().__init__()
        self.scorer, self.critic = scorer, Critic()
        self.latent_dim_pi, self.latent_dim_vf = rows, 1

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [batch, rows] and values [batch, 1]."""
        return self.forward_actor(rows), self.forward_critic(rows)

    def forward_actor(self, rows: Tensor) -> Tensor:
        """Logits [batch, rows]."""
        return self.scorer(rows)

    def forward_critic(self, rows: Tensor) -> Tensor:
        """Values [batch, 1]."""
        return self.critic(rows).unsqueeze(-1)


def scoring(base: Any) -> Any:
    """A policy class of SB3 or sb3-contrib with a scorer and a critic in the place of its networks.

    Args:
        base: ``ActorCriticPolicy`` or the maskable one.
    """

    class ScoringPolicy(base):
        def __init__(self, *arguments: Any, scorer: dict[str, Any], **options: Any) -> None:
            self._start = scorer
            super().__init__(*arguments, features_extractor_class=Rows, ortho_init=False, **options)

        def _build_mlp_extractor(self) -> None:
            self.mlp_extractor = Actor(self.observation_space.shape[0], Scorer.starting(**self._start))

        def _build(self, lr_schedule: Any) -> None:
            super()._build(lr_schedule)
            self.action_net = self.value_net = nn.Identity()  # scores are logits, and values are values
            self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    return ScoringPolicy


def learn(study: Study) -> None:
    """Train; see `Study`."""
    learn_with(study, PPO, scoring(ActorCriticPolicy))


def learn_with(study: Study, algorithm: Any, policy: Any) -> None:
    """Train with `algorithm` and its class of `policy`: PPO, or the maskable one."""
    values, envs = study.values, study.sb3_environments()
    if study.checkpoint:
        model = algorithm.load(study.checkpoint, envs, device="cpu")
    else:
        start = {name: values[name] for name in ("start", "hidden", "last", "sharpness")}
        options = {name: values[name] for name in OPTIONS}
        options["learning_rate"] = LinearSchedule(values["learning_rate"], 0, 1)
        model = algorithm(policy, envs, seed=values["seed"], policy_kwargs={"scorer": start}, device="cpu", **options)

    def told() -> dict[str, float]:
        returns = [episode["r"] for episode in model.ep_info_buffer]
        return {"episode_return": sum(returns) / len(returns)} if returns else {}

    run(study, model, model.policy.mlp_extractor.scorer, told)


def run(study: Study, model: Any, scorer: Scorer, told: Callable[[], dict[str, float]]) -> None:
    """Let a model of SB3 learn to the end, with looks on the way.

    It learns in one go, since SB3's schedules run over what a call of ``learn`` is told to learn.
    """
    values = study.values
    model.set_logger(configure(study.tensorboard(), ["tensorboard"]))
    if not study.checkpoint:
        study.look(0, scorer, model.save)

    def tick(*_: Any) -> bool:
        study.tick(model.num_timesteps)
        if model.num_timesteps - study.steps >= values["look_every"]:
            study.look(model.num_timesteps, scorer, model.save, told())
        return True

    try:
        model.learn(values["steps"] - model.num_timesteps, tick, reset_num_timesteps=False)
    finally:
        model.logger.close()
    if model.num_timesteps > study.steps:
        study.look(model.num_timesteps, scorer, model.save, told())
