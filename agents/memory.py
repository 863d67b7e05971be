"""The memory of a policy: one float64 array per run, and which of its places mean what.

A policy must keep nothing anywhere else: then a run can be repeated, copied and compiled.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

CURSOR = 0  # round robin among equal scores: the next instance in turn
REASON = 1  # why the last decision was taken, a Reason
RANDOM_STATE = 2  # of `smetric_gym.agents.ties.draw`
HIT_CURSOR = 3  # round robin among equal hits: a rotation of its own, or the two would skip instances in step
FREE = 8  # memory[8:64] is the policy's own
SESSIONS = 64  # memory[64 + session] is the policy's own, one number per session


class Reason(IntEnum):
    """Why a request was sent where it was."""

    NONE = 0
    STICK = 1
    FIRST_TURN = 2
    OVERLOAD = 3
    """The instance with the hits was overloaded."""
    EVICTED = 4
    """The session's KV cache was gone from it."""
    SCORE = 5


# Plain integers for compiled code.
STICK, FIRST_TURN, OVERLOAD, EVICTED, SCORE = (int(reason) for reason in list(Reason)[1:])


def new_memory(sessions: int, seed: int = 0) -> np.ndarray:
    """Memory at the start of a run.

    Args:
        sessions: ids of sessions are below this.
        seed: of the random choices; neighbouring seeds give unrelated runs.

    Returns:
        [64 + sessions] float64.
    """
    memory = np.zeros(SESSIONS + sessions)
    memory[RANDOM_STATE] = np.random.SeedSequence(seed).generate_state(1)[0]
    return memory
