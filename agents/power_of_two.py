"""Power of two choices: of two random instances the one with less load; equal loads keep the first drawn.

Source: Mitzenmacher; in use in SGLang's router, AIBrix and Ray Serve, with queue lengths as load. Blind to
the cache.
"""

from __future__ import annotations

from typing import NamedTuple

from smetric_gym.agents.load import REQUESTS, load_of
from smetric_gym.agents.memory import REASON, SCORE
from smetric_gym.agents.ties import draw, nth


class Params(NamedTuple):
    """Parameters of power of two."""

    load: int = REQUESTS


def power_of_two(view, request, memory, params):
    """Route one request; see the module."""
    load = load_of(view, params.load)
    alive = view.alive > 0
    count = 0
    for i in range(len(view)):
        if alive[i]:
            count += 1
    first = nth(alive, draw(memory, count))
    memory[REASON] = SCORE
    if count < 2:
        return first
    alive[first] = False
    second = nth(alive, draw(memory, count - 1))
    return first if load[first] <= load[second] else second
