"""An online contextual bandit in the manner of Lodestar (arXiv 2606.00946).

A network that all instances share predicts what sending the request there brings, and the best prediction is taken.
It is trained again after every ``retrain_every`` outcomes, from the newest ones (a queue) and a sample of all older
ones (the coreset, here a uniform reservoir). It learns online, from one running cluster and from its own decisions:
one that was trained on another router's decisions meets other states once it decides itself, and Lodestar saw such a
one collapse.

What it is not: Lodestar's network has three layers of 128 units, this one the two layers of the learned policy's file,
so that it runs natively; its second candidates by consistent hashing where KV use is above 80 % are left out. A
bandit is blind for what a choice costs later requests, which is its limit here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import smooth_l1_loss

from smetric_gym.agents.network import Scorer
from smetric_gym.agents.study import Study
from smetric_gym.errors import SmetricError

WORST = 4.0
"""TTFT in multiples of its limit, at most: beyond it is simply lost."""


def ttft(row: Any) -> float:
    """Minus the TTFT of a request that ended (an ``ENDED`` row), in multiples of its limit, at least -4."""
    return -min(float(row.ttft_s / row.ttft_limit_s), WORST)


def goodput(row: Any) -> float:
    """Prompt and output tokens within the SLO, in units of 10,000."""
    return (row.prompt_tokens + row.output_tokens) / 1e4 if row.met else 0.0


OUTCOMES = {"ttft": ttft, "goodput": goodput}


class Experience:
    """Decisions whose outcome is known: the newest, and a uniform sample of those that are older.

    Args:
        newest: size of the queue.
        coreset: size of the sample.
        random: draws the sample.
    """

    def __init__(self, newest: int, coreset: int, random: np.random.Generator) -> None:
        self._newest, self._coreset, self._random = newest, coreset, random
        self._queue: list[tuple[np.ndarray, int, float]] = []
        self._sample: list[tuple[np.ndarray, int, float]] = []
        self._left = 0

    def add(self, rows: np.ndarray, choice: int, outcome: float) -> None:
        """Remember a decision ([rows, FEATURES], the row chosen) and what came of it."""
        self._queue.append((rows, choice, outcome))
        if len(self._queue) <= self._newest:
            return
        old = self._queue.pop(0)
        self._left += 1
        if len(self._sample) < self._coreset:
            self._sample.append(old)
        elif (place := int(self._random.integers(self._left))) < self._coreset:
            self._sample[place] = old

    def everything(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """All that is remembered: [n, rows, FEATURES] float32, choices [n] and outcomes [n]."""
        rows, choices, outcomes = zip(*self._queue, *self._sample, strict=True)
        return torch.from_numpy(np.stack(rows)), torch.tensor(choices), torch.tensor(outcomes, dtype=torch.float32)


def learn(study: Study) -> None:
    """Train; see `Study`."""
    values = study.values
    if values["outcome"] not in OUTCOMES:
        raise SmetricError(f"train.outcome is {values['outcome']!r}, allowed: {', '.join(OUTCOMES)}")
    outcome_of = OUTCOMES[values["outcome"]]
    random = np.random.default_rng([values["seed"], study.steps])
    torch.manual_seed(values["seed"] + study.steps)
    scorer = study.scorer()
    if study.checkpoint:
        scorer.load_state_dict(torch.load(study.checkpoint, weights_only=True))
    experience = Experience(values["newest"], values["coreset"], random)
    undecided: dict[int, tuple[np.ndarray, int]] = {}  # by number of the decision in the episode
    waiting: list[tuple[np.ndarray, int, float]] = []  # outcomes since the last training

    def hear(ended: Any, elapsed_s: float) -> float:
        """The reward function of the environment: it hears of every request that ends."""
        for row in ended:
            if (known := undecided.pop(int(row.decision), None)) is not None:
                waiting.append((*known, outcome_of(row)))
        return 0.0

    def save(path: Path) -> None:
        torch.save(scorer.state_dict(), path)

    envs = study.environments(num_envs=1, share=1, reward=hear)  # one cluster: it learns while it routes
    teacher = study.teacher(envs, values["teacher"])
    rows, _ = envs.reset(seed=values["seed"] + study.steps)
    steps, looked, decision, error, trained = study.steps, study.steps, 0, float("nan"), bool(study.checkpoint)
    while steps < values["steps"]:
        action = teacher.actions() if not trained else _choose(scorer, rows, random, values["explore"])
        undecided[decision] = rows[0].copy(), int(action[0])
        rows, _, terminated, truncated, _ = envs.step(action)
        steps, decision = steps + 1, decision + 1
        study.tick(steps)
        if (terminated | truncated)[0]:
            undecided.clear()
            decision = 0
        if len(waiting) >= values["retrain_every"]:
            for known in waiting:
                experience.add(*known)
            waiting.clear()
            error, trained = _train(scorer, experience, random, values), True
        if steps - looked >= values["look_every"] or steps >= values["steps"]:
            looked = steps
            study.look(steps, scorer, save, {"error": error})


def _choose(scorer: Scorer, rows: np.ndarray, random: np.random.Generator, explore: float) -> np.ndarray:
    """The best prediction, or in a share of `explore` of the decisions any instance that is alive; [1] int64."""
    if random.random() < explore:
        return random.choice(np.flatnonzero(rows[0].any(-1)), 1)
    with torch.no_grad():
        return scorer(torch.from_numpy(rows)).argmax(-1).numpy()


def _train(scorer: Scorer, experience: Experience, random: np.random.Generator, values: dict[str, Any]) -> float:
    """Fit the predictions of the choices that were made; the mean loss of the last pass."""
    optimizer = torch.optim.Adam(scorer.parameters(), lr=values["learning_rate"])
    rows, choices, outcomes = experience.everything()
    for _ in range(values["passes"]):
        losses = []
        for batch in np.array_split(random.permutation(len(rows)), len(rows) // values["batch_size"] or 1):
            predicted = scorer(rows[batch]).gather(1, choices[batch, None]).squeeze(1)
            loss = smooth_l1_loss(predicted, outcomes[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return float(np.mean(losses))
