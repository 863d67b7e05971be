"""Behaviour cloning: learn to choose what a reference policy chooses, as a start for reinforcement learning.

The loss is the cross entropy of the teacher's choice. A student that only sees what its teacher does is lost after
its first mistake, so a share of the decisions is the student's own while the teacher goes on naming what it would
have done (DAgger, Ross et al. 2011).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from smetric_gym.agents.study import Study


def learn(study: Study) -> None:
    """Train; see `Study`."""
    values = study.values
    envs = study.environments()
    teacher = study.teacher(envs, values["teacher"])
    torch.manual_seed(values["seed"] + study.steps)
    random = np.random.default_rng([values["seed"], study.steps])
    scorer = study.scorer()
    optimizer = torch.optim.Adam(scorer.parameters(), lr=values["learning_rate"])
    if study.checkpoint:
        kept = torch.load(study.checkpoint, weights_only=True)
        scorer.load_state_dict(kept["scorer"])
        optimizer.load_state_dict(kept["optimizer"])

    def save(path: Path) -> None:
        torch.save({"scorer": scorer.state_dict(), "optimizer": optimizer.state_dict()}, path)

    rows, _ = envs.reset(seed=values["seed"] + study.steps)
    seen = np.zeros((values["memory"], *rows.shape[1:]), dtype=np.float32)  # a ring of decisions
    taught = np.zeros(values["memory"], dtype=np.int64)
    steps, filled, place = study.steps, 0, 0
    while steps < values["steps"]:
        # gather decisions, and how many of them the student would have made alike
        agreed, before = 0, steps
        while steps < min(before + values["look_every"], values["steps"]):
            right = teacher.actions()
            with torch.no_grad():
                own = scorer(torch.from_numpy(rows)).argmax(-1).numpy()
            agreed += int((own == right).sum())
            where = (place + np.arange(len(rows))) % len(seen)
            seen[where], taught[where] = rows, right
            place, filled = place + len(rows), min(filled + len(rows), len(seen))
            rows, *_ = envs.step(np.where(random.random(len(rows)) < values["student_share"], own, right))
            steps += len(rows)
            study.tick(steps)

        # learn from everything in the memory
        losses = []
        for _ in range(values["passes"]):
            for batch in np.array_split(random.permutation(filled), max(1, filled // values["batch_size"])):
                loss = cross_entropy(scorer(torch.from_numpy(seen[batch])), torch.from_numpy(taught[batch]))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        study.look(steps, scorer, save, {"agreement": agreed / (steps - before), "loss": float(np.mean(losses))})
