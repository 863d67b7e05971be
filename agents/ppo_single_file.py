"""PPO from top to bottom in one file, without Stable-Baselines3: to read, to change, and to learn from.

Two things differ from a textbook version (Schulman et al. 2017; Huang et al. 2022 for the details). Decisions are not
evenly spaced, so rewards are discounted by simulated time: ``exp(-seconds / horizon_s)``. And the critic alone
learns first, so that a policy that starts from a good rule is not spoilt by the advantages of a critic that knows
nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributions import Categorical

from smetric_gym.agents.network import Critic
from smetric_gym.agents.study import Study


def learn(study: Study) -> None:
    """Train; see `Study`."""
    values = study.values
    torch.manual_seed(values["seed"] + study.steps)
    random = np.random.default_rng([values["seed"], study.steps])
    envs = study.environments()
    scorer, critic = study.scorer(), Critic()
    optimizer = torch.optim.Adam([*scorer.parameters(), *critic.parameters()], lr=values["learning_rate"], eps=1e-5)
    if study.checkpoint:
        kept = torch.load(study.checkpoint, weights_only=True)
        scorer.load_state_dict(kept["scorer"])
        critic.load_state_dict(kept["critic"])
        optimizer.load_state_dict(kept["optimizer"])

    def save(path: Path) -> None:
        parts: dict[str, Any] = {"scorer": scorer, "critic": critic, "optimizer": optimizer}
        torch.save({name: part.state_dict() for name, part in parts.items()}, path)

    if not study.checkpoint:
        study.look(0, scorer, save)
    rows, _ = envs.reset(seed=values["seed"] + study.steps)
    length, count = values["n_steps"], len(rows)
    shape = (length, count)
    seen = torch.zeros(*shape, *rows.shape[1:])
    actions, chances = torch.zeros(shape, dtype=torch.long), torch.zeros(shape)
    rewards, factors, guesses = np.zeros(shape), np.zeros(shape), np.zeros((length + 1, count))
    steps, looked = study.steps, study.steps
    while steps < values["steps"]:
        # 1. let the policy decide, and write down what came of it
        for k in range(length):
            seen[k] = torch.from_numpy(rows)
            with torch.no_grad():
                choice = Categorical(logits=scorer(seen[k]))
                actions[k] = choice.sample()
                chances[k] = choice.log_prob(actions[k])
                guesses[k] = critic(seen[k]).numpy()
            rows, reward, terminated, truncated, info = envs.step(actions[k].numpy())
            ended = terminated | truncated  # the reward of the last decision has all that came after it, so no value
            elapsed_s = info["elapsed_s"]  # 0 where an episode ended
            rewards[k] = reward * values["reward_scale"]
            factors[k] = np.where(ended, 0.0, np.exp(-elapsed_s / values["horizon_s"]))
            steps += count
            study.tick(steps)
        with torch.no_grad():
            guesses[length] = critic(torch.from_numpy(rows)).numpy()

        # 2. advantages: how much better than the critic expected (generalised advantage estimation)
        gains, ahead = np.zeros(shape), np.zeros(count)
        for k in reversed(range(length)):
            surprise = rewards[k] + factors[k] * guesses[k + 1] - guesses[k]
            gains[k] = ahead = surprise + values["gae_lambda"] * factors[k] * ahead
        gain = torch.from_numpy(gains).float().flatten()
        goal = torch.from_numpy(gains + guesses[:-1]).float().flatten()
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)

        # 3. make good choices likelier, but not much in one go; and teach the critic what came
        for group in optimizer.param_groups:
            group["lr"] = values["learning_rate"] * max(0.0, 1 - steps / values["steps"])
        rows_seen, chosen, before = seen.flatten(0, 1), actions.flatten(), chances.flatten()
        critic_alone = steps <= values["critic_first"]
        entropies, errors, clipped = [], [], []
        for _ in range(values["n_epochs"]):
            for batch in np.array_split(random.permutation(len(chosen)), len(chosen) // values["batch_size"] or 1):
                error = (critic(rows_seen[batch]) - goal[batch]).square().mean()
                loss = values["value_weight"] * error
                if not critic_alone:
                    choice = Categorical(logits=scorer(rows_seen[batch]))
                    ratio = (choice.log_prob(chosen[batch]) - before[batch]).exp()
                    limited = ratio.clamp(1 - values["clip_range"], 1 + values["clip_range"])
                    surrogate = torch.minimum(ratio * gain[batch], limited * gain[batch]).mean()
                    loss = loss - surrogate - values["ent_coef"] * choice.entropy().mean()
                    entropies.append(choice.entropy().mean().item())
                    clipped.append((ratio != limited).float().mean().item())
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_([*scorer.parameters(), *critic.parameters()], 0.5)
                optimizer.step()
                errors.append(error.item())
        if steps - looked >= values["look_every"] or steps >= values["steps"]:
            looked = steps
            found = {"critic_error": errors, "entropy": entropies, "clipped_share": clipped}
            told = {name: float(np.mean(of)) if of else float("nan") for name, of in found.items()}
            told["explained"] = 1 - told["critic_error"] / (goal.var().item() + 1e-12)  # 1: the critic knows it all
            study.look(steps, scorer, save, told)
