"""Session affinity: a session's first request goes to the least load, all others to the same instance.

Source: the session rings and affinity filters of production-stack, llm-d and AIBrix; with "first by least
load" it is prime-rl's sticky-least-loaded. It keeps a table of sessions, which SMetric avoids, and knows
neither load nor eviction later on (the later SMetric paper measures a mean imbalance of 2.17 for it). When
an instance is gone, its sessions are placed anew.
"""

from __future__ import annotations

from typing import NamedTuple

from smetric_gym.agents.load import REQUESTS, load_of
from smetric_gym.agents.memory import EVICTED, FIRST_TURN, REASON, SESSIONS, STICK
from smetric_gym.agents.ties import ROUND_ROBIN, argmin


class Params(NamedTuple):
    """Parameters of session affinity."""

    load: int = REQUESTS
    ties: int = ROUND_ROBIN


def session_sticky(view, request, memory, params):
    """Route one request; see the module."""
    place = SESSIONS + int(request.session)
    home = int(memory[place]) - 1
    if home >= 0 and view.alive[home] > 0:
        memory[REASON] = STICK
        return home
    memory[REASON] = FIRST_TURN if home < 0 else EVICTED
    home = argmin(load_of(view, params.load), view, memory, params.ties)
    memory[place] = home + 1
    return home
