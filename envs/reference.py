"""What a reference policy earns on the trace of an episode, which relative rewards are measured against."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smetric_gym.agents.policy import Policy
from smetric_gym.experiment.prepare import Setup


class Earnings(NamedTuple):
    """Requests that earned something, in the order in which they ended."""

    seconds: np.ndarray
    """[requests] float64, when each ended, s of simulated time."""
    tokens: np.ndarray
    """[requests] float64, prompt + output tokens."""


def earnings(setup: Setup, policy: Policy) -> Earnings:
    """Serve the trace of `setup` with `policy`, and list the scored requests that met both limits.

    Args:
        setup: of the episode; the policy draws with its seed, as in `evaluate`.
        policy: compiled, or it takes longer.
    """
    cluster = setup.cluster()
    cluster.run(policy, seed=setup.seed)
    scored = setup.scored(cluster)
    finish_s = scored.outcome["finish_s"][scored.met]
    tokens = (scored.prompt + scored.output)[scored.met].astype(np.float64)
    order = np.argsort(finish_s, kind="stable")
    return Earnings(finish_s[order], tokens[order])
