"""Names for the blocks of a Weka session, whose ids are local: equal where sessions are taken to share.

Model, calibrated by v6 (81 % of tools + system warm on a first turn): sessions with the same number of tool
tokens share the blocks of the tools, and with the same pair (tools, system) also those of the system
prompt. Inside a session the recorded ids have the last word: one id gets one name, and two ids never the
same.
"""

from __future__ import annotations

import numpy as np

from smetric_gym.workload.readers.blockids import mix


class Names:
    """Turns the ids of one session into names that hold in all sessions."""

    def __init__(self, salt: np.ndarray | int, block: int):
        self._salt, self._block = salt, block
        self._name: dict[int, int] = {}
        self._taken: set[int] = set()
        self._known: dict[tuple, np.ndarray] = {}

    def of(self, ids: np.ndarray, tools: int, system: int) -> np.ndarray:
        """The names of a request's ids, int64.

        Args:
            ids: recorded, int64.
            tools: tokens of the tools at the head of the prompt.
            system: tokens of the system prompt behind them.
        """
        region = min((tools + system) // self._block, len(ids))
        names = mix(ids, self._salt)
        key = (tools, system, ids[:region].tobytes())
        if key not in self._known:
            self._known[key] = self._named(ids[:region].tolist(), names[:region].tolist(), tools, system)
        names[:region] = self._known[key]
        return names

    def _named(self, ids: list[int], local: list[int], tools: int, system: int) -> np.ndarray:
        places = np.arange(len(ids))
        shared = np.where(
            places < tools // self._block, mix(mix(tools, -1), places), mix(mix(tools, system), places)
        ).tolist()
        for k, block in enumerate(ids):
            if block not in self._name:
                free = shared[k] not in self._taken
                self._name[block] = shared[k] if free else local[k]
                self._taken.add(shared[k])
        return np.array([self._name[block] for block in ids], dtype=np.int64)
