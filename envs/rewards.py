"""What the agent is rewarded for, by name; the sums behind the names are in `smetric_gym.envs.tally`."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from smetric_gym.errors import SmetricError

TERMS = ("goodput", "output_goodput", "prefill_goodput", "ended", "within_slo", "smooth", "reference_goodput")
"""Named terms of a step, over scored requests that ended since the last decision.

goodput: prompt + output tokens of those that met both limits; output_goodput: output tokens of the same;
prefill_goodput: prompt tokens of those that met the TTFT limit; ended: how many; within_slo: met both;
smooth: prompt + output tokens x min(1, TTFT limit / TTFT) x min(1, TPOT limit / TPOT); reference_goodput: goodput
of the reference policy on the same trace in the same stretch of simulated time (0 where none runs).
"""


@dataclass(frozen=True)
class Reward:
    """A reward: its meaning, and the score that a return divided by ``window_s`` is (None: no score)."""

    meaning: str
    score: str | None = None


REWARDS: dict[str, Reward] = {
    "goodput": Reward(
        "prompt + output tokens of requests that met both limits, when they end", "tps_within_slo"
    ),
    "output_goodput": Reward("output tokens of the same", "output_tps_within_slo"),
    "prefill_goodput": Reward(
        "prompt tokens of requests that met the TTFT limit, when they end", "prefill_tps_within_slo"
    ),
    "decision_goodput": Reward(
        "goodput, and info['credit'] says which decision each token is owed to, for credit_to_decisions",
        "tps_within_slo",
    ),
    "relative_goodput": Reward(
        "goodput less that of a reference policy on the same trace in the same stretch of simulated time"
    ),
    "smooth": Reward(
        "tokens of all requests that end, less the later they are: never nothing, so none is worth giving up"
    ),
}
"""The rewards that have a name. A function of `ENDED` rows and seconds can be given instead."""

ENDED = np.dtype(
    [
        ("request", np.int32),  # index in the trace
        ("decision", np.int32),  # number of the decision of the episode that routed it (the last one), from 0
        ("instance", np.int32),
        ("session", np.int32),
        ("turn", np.int32),
        ("prompt_tokens", np.int32),
        ("output_tokens", np.int32),
        ("arrival_s", np.float64),
        ("first_token_s", np.float64),
        ("finish_s", np.float64),
        ("ttft_s", np.float64),
        ("ttft_limit_s", np.float64),
        ("tpot_s", np.float64),  # nan for a request of one output token
        ("tpot_limit_s", np.float64),
        ("scored", np.bool_),  # arrived in the scored window
        ("met", np.bool_),  # both limits
    ]
)
"""A request that ended, as a reward function of your own gets it."""

RewardFunction = Callable[[np.recarray, float], float]
"""``reward(ended, elapsed_s) -> float``: `ended` has a row of ``ENDED`` for each request that ended since the last
decision (also of the warm-up; often none), `elapsed_s` is the simulated time since then in s."""


def check_reward(reward: str | RewardFunction) -> str | RewardFunction:
    """The reward itself.

    Raises:
        SmetricError: if it is neither a name of ``REWARDS`` nor a function.
    """
    if callable(reward) or (isinstance(reward, str) and reward in REWARDS):
        return reward
    near = difflib.get_close_matches(str(reward), REWARDS, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise SmetricError(
        f"reward is {reward!r}{hint}, allowed: {', '.join(REWARDS)}, or a function of (ended, elapsed_s)"
    )


class Payer:
    """Turns the terms of a step into its reward.

    Args:
        reward: a name of ``REWARDS`` or a function.

    Attributes:
        wants_ended: the function, or ``decision_goodput``, needs the ``ENDED`` rows of a step.
        terms: names of the terms that ``info["reward_terms"]`` shows, and their places in ``TERMS``.
    """

    def __init__(self, reward: str | RewardFunction) -> None:
        self.reward = check_reward(reward)
        self.function = reward if callable(reward) else None
        self.relative = reward == "relative_goodput"
        self.credits = reward == "decision_goodput"
        self.wants_ended = self.function is not None or self.credits
        name = reward if reward in TERMS else "goodput"
        self._place = TERMS.index(str(name))
        shown = TERMS if self.relative else TERMS[:-1]
        self.terms = tuple((name, TERMS.index(name)) for name in shown)

    def pay(self, terms: np.ndarray) -> np.ndarray:
        """Rewards of the named kind.

        Args:
            terms: [..., terms] float64.

        Returns:
            [...] float64.
        """
        if self.relative:
            return terms[..., TERMS.index("goodput")] - terms[..., TERMS.index("reference_goodput")]
        return terms[..., self._place]

    def ask(self, ended: np.ndarray, elapsed_s: float) -> float:
        """The reward of the user's function for one step."""
        assert self.function is not None
        value = self.function(ended.view(np.recarray), elapsed_s)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise SmetricError(f"the reward function returned {value!r}, allowed: a number") from None


def credit_of(ended: np.ndarray) -> list[tuple[int, float]]:
    """(decision, tokens) of each request that earned something, from ``ENDED`` rows; what ``info["credit"]`` is."""
    paid = ended[ended["scored"] & ended["met"]]
    tokens = paid["prompt_tokens"].astype(np.float64) + paid["output_tokens"]
    return list(zip(paid["decision"].tolist(), tokens.tolist(), strict=True))
