"""Many independent clusters in one set of arrays, advanced by one compiled call."""

from __future__ import annotations

import numpy as np

from smetric_gym.cluster import engine
from smetric_gym.cluster.cluster import Cluster, used_part
from smetric_gym.cluster.state import State
from smetric_gym.errors import SmetricError


class Fleet:
    """Clusters that are stepped together, each with a trace, a size and a clock of its own.

    The arrays of all clusters are laid one behind the other, and every cluster's own state becomes a window on them,
    so a cluster can still be looked at and scored by itself; from here on only the fleet steps it.

    Args:
        clusters: clusters with the same ``max_batched_tokens`` and ``max_seqs``.

    Attributes:
        waiting: [clusters] bool, True where a request waits for a decision.
    """

    def __init__(self, clusters: list[Cluster]) -> None:
        if len({(c.config.max_batched_tokens, c.config.max_seqs) for c in clusters}) != 1:
            raise SmetricError("the clusters of a fleet must have the same max_batched_tokens and max_seqs")
        self.clusters = clusters
        self._codes = np.array([c._code for c in clusters], dtype=np.int64)
        self._pack()

    @property
    def waiting(self) -> np.ndarray:
        """[clusters] bool, True where a request waits for a decision."""
        return self._codes == engine.DECISION

    def step(self, choices: np.ndarray, reasons: np.ndarray | None = None) -> np.ndarray:
        """Answer the decision of every waiting cluster and run each to its next one; other choices are ignored.

        Args:
            choices: [clusters] int64, an alive instance for each waiting cluster; -1 to start a cluster.
            reasons: [clusters] int64, the policy's reasons, or None.

        Returns:
            ``waiting`` after the step; False where a cluster has drained.
        """
        choices = np.ascontiguousarray(choices, dtype=np.int64)
        reasons = np.zeros(len(choices), dtype=np.int64) if reasons is None else np.ascontiguousarray(reasons, np.int64)
        for c in np.flatnonzero(self.waiting).tolist():
            mask = self.clusters[c].action_mask
            if not (0 <= choices[c] < len(mask) and mask[choices[c]]):
                raise SmetricError(
                    f"cluster {c}: instance {choices[c]} was chosen, allowed: an alive one of {len(mask)}"
                )
        engine.advance_many(self._state, self._bounds, choices, reasons, self._codes)
        while (self._codes == engine.GROW).any():
            full = self._codes == engine.GROW
            for c in np.flatnonzero(full).tolist():
                self.clusters[c]._grow()
            self._pack()
            again = np.where(full, engine.PAUSED, engine.DRAINED)  # DRAINED: left alone in this call
            engine.advance_many(self._state, self._bounds, np.full(len(choices), -1), reasons, again)
            self._codes[full] = again[full]
        for c, cluster in enumerate(self.clusters):
            cluster._code = int(self._codes[c])
        return self.waiting

    def _pack(self) -> None:
        states = [c.state for c in self.clusters]
        sizes = np.array([[len(array) for array in state] for state in states])
        ends = np.cumsum(sizes, axis=0)
        self._bounds = np.stack([ends - sizes, ends], axis=2)
        fields = [
            np.zeros((size, *like.shape[1:]), dtype=like.dtype)
            for size, like in zip(sizes.sum(axis=0), states[0], strict=True)
        ]
        for state, bounds in zip(states, self._bounds, strict=True):
            for field, used, (start, _) in zip(fields, used_part(state), bounds, strict=True):
                field[start : start + len(used)] = used
        self._state = State(*fields)
        for c, cluster in enumerate(self.clusters):
            cluster.state = State(
                *(array[a:b] for array, (a, b) in zip(fields, self._bounds[c], strict=True))
            )
            cluster._show()
