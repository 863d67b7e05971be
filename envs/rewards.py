"""What the agent is rewarded for: tokens of requests that met their limits, credited when they end."""

from __future__ import annotations

import difflib

import numba
import numpy as np

from smetric_gym.cluster.state import State
from smetric_gym.errors import SmetricError
from smetric_gym.slo import SLO

TERMS = ("goodput", "output_goodput", "prefill_goodput", "ended", "within_slo")
"""Named terms of a step, over scored requests that ended since the last decision.

goodput: prompt + output tokens of those that met both limits; output_goodput: output tokens of the same;
prefill_goodput: prompt tokens of those that met the TTFT limit; ended: how many; within_slo: met both.
"""

REWARDS: dict[str, str] = {
    "goodput": "tps_within_slo",
    "output_goodput": "output_tps_within_slo",
    "prefill_goodput": "prefill_tps_within_slo",
}
"""Reward names, and the score that the return of an episode is, times the seconds of the scored window."""


def reward_index(name: str) -> int:
    """Place in ``TERMS`` of the reward called `name`."""
    if name not in REWARDS:
        near = difflib.get_close_matches(str(name), REWARDS, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise SmetricError(f"reward is {name!r}{hint}, allowed: {', '.join(REWARDS)}")
    return TERMS.index(name)


class Credit:
    """Credits requests as they end, each once.

    Args:
        slo: the limits.
        warm_up_s: s; requests that arrive earlier are not scored.
        window_s: s of the scored window, which begins then.

    Attributes:
        step: [terms] float64, what the last `collect` credited.
        total: [terms] float64, the sum over the episode; tokens are whole numbers, so it is exact.
    """

    def __init__(self, slo: SLO, warm_up_s: float, window_s: float) -> None:
        self._limits = np.array(
            [warm_up_s, warm_up_s + window_s, slo.ttft_s, slo.ttft_s_per_token, slo.tpot_s]
        )
        self._seen = 0
        self.step = np.zeros(len(TERMS))
        self.total = np.zeros(len(TERMS))

    def collect(self, state: State) -> list[float]:
        """Credit the requests that ended since the last call; returns ``step`` as Python floats."""
        self._seen = _credit(
            state.cluster, state.requests, state.finished, self._seen, self._limits, self.step, self.total
        )
        return self.step.tolist()


@numba.njit(cache=True, nogil=True)
def _credit(cluster, requests, finished, seen, limits, step, total):
    # The same float64 operations as measures.Scored: a request on the edge of a limit falls on the same side.
    for k in range(len(step)):
        step[k] = 0.0
    done = cluster[0].done
    for k in range(seen, done):
        q = requests[finished[k]]
        arrival, first, finish = q.arrived / 1e12, q.first_token / 1e12, q.finish / 1e12
        if not (arrival >= limits[0] and arrival < limits[1]):
            continue
        step[3] += 1
        if not first - arrival <= limits[2] + limits[3] * q.prompt:
            continue
        step[2] += q.prompt
        if q.output == 1 or (finish - first) / (q.output - 1) <= limits[4]:
            step[0] += np.int64(q.prompt) + q.output
            step[1] += q.output
            step[4] += 1
    for k in range(len(step)):
        total[k] += step[k]
    return done
