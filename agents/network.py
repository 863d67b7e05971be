"""The networks of all learners: one score for every instance by shared weights, and the value of a decision.

`Scorer` is the network of ``smetric_gym.agents.learned`` as a torch module, with the same names of tensors, so that
what was learned is a file that runs without torch. Rows without an instance, or of one that is not alive, are zero in
the features; they get no score and are not pooled. So a network works for any number of instances.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from smetric_gym.agents.features import COUNT
from smetric_gym.agents.learned import Weights
from smetric_gym.agents.learned_file import read_learned
from smetric_gym.agents.linear import REFERENCES, linear

NEVER = -1e9
"""The score of a row that must not be chosen; finite, since softmax and losses meet it."""


def alive(rows: Tensor) -> Tensor:
    """[..., rows] bool: rows with an instance that may be chosen. No live instance has only zeros as features."""
    return (rows != 0).any(-1)


def pooled(hidden: Tensor, there: Tensor) -> Tensor:
    """Mean and maximum over the instances, [..., 2 H], of values that are not negative ([..., rows, H])."""
    hidden = hidden * there.unsqueeze(-1)
    mean = hidden.sum(-2) / there.sum(-1, keepdim=True).clamp(min=1)
    return torch.cat([mean, hidden.amax(-2)], -1)


class Scorer(nn.Module):
    """Scores of all instances; the greedy choice is the highest.

    Args:
        hidden: units of the first layer.
        last: units of the second.
    """

    def __init__(self, hidden: int = 32, last: int = 32) -> None:
        super().__init__()
        self.linear = nn.Linear(COUNT, 1, bias=False)
        self.layer1 = nn.Linear(COUNT, hidden)
        self.layer2 = nn.Linear(3 * hidden, last)
        self.score = nn.Linear(last, 1, bias=False)
        nn.init.zeros_(self.linear.weight)
        nn.init.normal_(self.score.weight, std=0.01)  # all instances begin about equal

    def forward(self, rows: Tensor) -> Tensor:
        """[..., rows] scores of [..., rows, FEATURES]; ``NEVER`` for rows without an instance."""
        there = alive(rows)
        hidden = torch.relu(self.layer1(rows))
        around = pooled(hidden, there).unsqueeze(-2).expand(*hidden.shape[:-1], -1)
        out = torch.relu(self.layer2(torch.cat([hidden, around], -1)))
        return (self.linear(rows) + self.score(out)).squeeze(-1).masked_fill(~there, NEVER)

    def tensors(self) -> dict[str, np.ndarray]:
        """The weights by their names in the file of a learned policy."""
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.state_dict().items()}

    @classmethod
    def starting(cls, start: str | Path | None, *, hidden: int, last: int, sharpness: float = 1.0) -> Scorer:
        """A scorer to begin with.

        Args:
            start: a reference of ``agents/linear.py``, a file of a learned policy, or None for chance.
            hidden: units; a file with a network has its own number.
            last: the same.
            sharpness: the scores of `start` are multiplied by it, which changes no greedy choice: under a softmax,
                high ones follow the start closely, and low ones try more.

        Raises:
            SmetricError: if the file cannot be read.
        """
        if not start:
            return cls(hidden, last)
        known = str(start) in REFERENCES
        weights: Weights = linear(REFERENCES[str(start)]) if known else read_learned(start).weights
        if len(weights.layer1):
            hidden, last = weights.layer2.shape[0] // 3, weights.layer2.shape[1]
        scorer = cls(hidden, last)
        arrays = {"linear.weight": weights.linear[None] * sharpness}
        if len(weights.layer1):
            arrays |= {
                "layer1.weight": weights.layer1.T, "layer1.bias": weights.bias1, "layer2.weight": weights.layer2.T,
                "layer2.bias": weights.bias2, "score.weight": weights.score[None] * sharpness,
            }  # fmt: skip
        found = {name: torch.tensor(np.ascontiguousarray(a), dtype=torch.float32) for name, a in arrays.items()}
        scorer.load_state_dict(found, strict=False)
        return scorer


class Critic(nn.Module):
    """The value of a decision from the same features; 0 where nothing is left to decide.

    Args:
        hidden: units of each of its layers.
    """

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.layer1 = nn.Linear(COUNT, hidden)
        self.layer2 = nn.Linear(2 * hidden, hidden)
        self.value = nn.Linear(hidden, 1)

    def forward(self, rows: Tensor) -> Tensor:
        """[...] values of [..., rows, FEATURES]."""
        there = alive(rows)
        out = torch.relu(self.layer2(pooled(torch.relu(self.layer1(rows)), there)))
        return self.value(out).squeeze(-1) * there.any(-1)
