"""DQN of Stable-Baselines3 (Mnih et al. 2015), dueling: a decision's value, and every instance's advantage.

The advantages are the scores, so the highest is the greedy choice and the scorer alone is the policy. SB3's DQN knows
no masks and tries instances at random: its scenario must have no empty rows and no outages. After an
interruption the replay memory begins empty, and learning waits until ``learning_starts`` decisions are in it.
"""

from __future__ import annotations

from typing import Any

from stable_baselines3 import DQN
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import Tensor, nn

from smetric_gym.agents.network import NEVER, Critic, Scorer, alive
from smetric_gym.agents.ppo import Rows, run
from smetric_gym.agents.study import Study

OPTIONS = (
    "buffer_size", "learning_starts", "batch_size", "learning_rate", "gamma", "n_steps", "train_freq", "gradient_steps",
    "target_update_interval", "exploration_fraction", "exploration_initial_eps", "exploration_final_eps",
)  # fmt: skip
"""Settings that go to SB3 as they are."""


class Dueling(nn.Module):
    """Q values: the value of the decision, and what an instance is better than the mean of them.

    Args:
        scorer: gives the advantages.
    """

    def __init__(self, scorer: Scorer) -> None:
        super().__init__()
        self.scorer, self.critic = scorer, Critic()

    def forward(self, rows: Tensor) -> Tensor:
        """[batch, rows]; ``NEVER`` for rows without an instance, 0 where nothing is left to decide."""
        there, scores = alive(rows), self.scorer(rows)
        mean = scores.masked_fill(~there, 0).sum(-1) / there.sum(-1).clamp(min=1)
        q = self.critic(rows).unsqueeze(-1) + scores - mean.unsqueeze(-1)
        return q.masked_fill(~there, NEVER).masked_fill(~there.any(-1, keepdim=True), 0)


class DuelingPolicy(DQNPolicy):
    """For ``DQN``."""

    def __init__(self, *arguments: Any, scorer: dict[str, Any], **options: Any) -> None:
        self._start = scorer
        super().__init__(*arguments, **options)

    def make_q_net(self) -> QNetwork:
        """The network, and again as the target."""
        network = super().make_q_net()
        network.q_net = Dueling(Scorer.starting(**self._start))  # type: ignore[assignment]
        return network.to(self.device)


def learn(study: Study) -> None:
    """Train; see `Study`."""
    values, envs = study.values, study.sb3_environments()
    if study.checkpoint:
        chosen: dict[str, Any] = {"replay_buffer_class": None, "replay_buffer_kwargs": {}}  # SB3 chooses by n_steps
        model = DQN.load(study.checkpoint, envs, device="cpu", custom_objects=chosen)
        model.learning_starts += model.num_timesteps
    else:
        start = {name: values[name] for name in ("start", "hidden", "last", "sharpness")}
        options = {name: values[name] for name in OPTIONS}
        networks = {"scorer": start, "features_extractor_class": Rows}
        model = DQN(DuelingPolicy, envs, seed=values["seed"], policy_kwargs=networks, device="cpu", **options)
    scorer: Any = model.q_net.q_net.scorer
    run(study, model, scorer, lambda: {"exploration": model.exploration_rate})
