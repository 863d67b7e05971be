"""CMA-ES over the weights of a linear score (``smetric_gym.agents.linear``), with the library ``cma``.

It needs no gradients, only whose score was better on the same traces. The state of a search is what it was
told: the same questions and answers lead to the same place, so a search is kept as plain numbers and goes
on after an interruption by being told again.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from smetric_gym.errors import SmetricError


def _cma() -> ModuleType:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of plotting packages that it does not need here
            import cma
    except ImportError as error:
        raise SmetricError("agent=cmaes needs the package cma (pip install 'smetric-gym[rl]')") from error
    return cma


class Search:
    """An evolution strategy that maximises.

    Args:
        start: [D] the first mean.
        step: standard deviation of the first generation.
        population: candidates of a generation.
        seed: of the candidates, 1 or more.
        diagonal: adapt only the variance of each weight: learns faster in few generations.
    """

    def __init__(
        self, start: Sequence[float], *, step: float, population: int, seed: int, diagonal: bool = True
    ) -> None:
        random = np.random.default_rng(seed)
        options: dict[str, Any] = {
            "popsize": population, "seed": seed, "verbose": -9, "CMA_diagonal": diagonal,
            "randn": lambda *shape: random.standard_normal(shape),  # instead of NumPy's global state
        }  # fmt: skip
        self._es = _cma().CMAEvolutionStrategy(list(start), step, options)
        self.told: list[list[float]] = []
        """the values of every generation so far: the state of the search"""

    def ask(self) -> np.ndarray:
        """The candidates of the next generation, [population, D]."""
        self._asked = np.array(self._es.ask())
        return self._asked

    def tell(self, values: Sequence[float]) -> None:
        """What the candidates are worth, [population], more is better."""
        self._es.tell(list(self._asked), [-value for value in values])
        self.told.append([float(value) for value in values])

    def replay(self, told: Sequence[Sequence[float]]) -> None:
        """Go to where a search of the same arguments was after it was told these generations."""
        for values in told:
            self.ask()
            self.tell(values)

    @property
    def mean(self) -> np.ndarray:
        """[D] the middle of the search, the best guess under noise."""
        return np.array(self._es.mean)

    @property
    def step(self) -> float:
        """The present step size."""
        return float(self._es.sigma)
