"""What would have come of another choice: a run is stopped at a decision, copied, and goes on in several ways.

Everything after a decision is known here, so a replay tells what a choice was worth in hindsight. Two things blur it:

- One changed choice shifts everything after it a little, and soon other requests meet other queues. The tokens that
  two replays differ by are mostly such accidents. So every choice is replayed in several *futures*, in which every
  later request comes up to 0.5 s later, and its worth is the mean over them.
- The best of many noisy means is too good to be true. What is picked in one half of the futures is therefore measured
  in the other half (`halves`), and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from smetric_gym.agents.memory import REASON, Reason
from smetric_gym.agents.policy import Policy
from smetric_gym.cluster import Cluster
from smetric_gym.cluster.state import Kind
from smetric_gym.cluster.steptime import TICKS_PER_S
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import Setup
from smetric_gym.measures import Scored

JITTER_S = 0.5
"""Requests come up to this much later in another future."""


@dataclass(frozen=True)
class Horizon:
    """How long a choice is followed, and how often.

    Attributes:
        stretch_s: s from the decision on; the requests that arrive in it are counted.
        settle_s: s more in which they may finish; what takes longer counts as late.
        futures: replays of each choice, even, so that there are two halves.
    """

    stretch_s: float = 60.0
    settle_s: float = 60.0
    futures: int = 4

    def __post_init__(self) -> None:
        if self.stretch_s <= 0 or self.settle_s < 0:
            raise SmetricError(
                f"replay has stretch_s {self.stretch_s} and settle_s {self.settle_s}, allowed: above 0, and 0 or more"
            )
        if self.futures < 2 or self.futures % 2:
            raise SmetricError(f"replay.futures is {self.futures}, allowed: an even number, 2 or more")


class Rerun:
    """A run of a policy that can be stopped at its decisions, asked, and replayed from there.

    Args:
        setup: the run; agents wait for answers (``arrival_mode: closed``), or all futures are the same.
        policy: routes, before a decision and after it.
        horizon: of the replays.
    """

    def __init__(self, setup: Setup, policy: Policy, horizon: Horizon) -> None:
        if setup.arrival_mode != "closed":
            raise SmetricError(f"arrival_mode is {setup.arrival_mode!r}, allowed in replays: closed")
        self.setup, self.policy, self.horizon = setup, policy.compile(), horizon
        self.cluster, self.memory = setup.cluster(), policy.new_memory(setup.trace.sessions, setup.seed)
        self.more = self.cluster.advance()

    def until(self, request: int) -> bool:
        """Run on to the decision on a request; False when it never comes."""
        while self.more and self.cluster.pending != request:
            self._follow()
        return self.more

    def reasons(self, judge: Policy) -> np.ndarray:
        """Run to the end; [requests] int, why ``judge`` would have decided as it would, NONE for requests not seen."""
        found = np.zeros(len(self.setup.trace), dtype=np.int64)
        while self.more:
            found[self.cluster.pending] = self.choice(judge)[1]
            self._follow()
        return found

    @property
    def arrival_s(self) -> np.ndarray:
        """[requests] float64 s, nan for those that have not arrived."""
        return self.cluster.outcome["arrival_s"]

    def choice(self, policy: Policy) -> tuple[int, Reason]:
        """What a policy would choose here, and why; nothing changes.

        Its memory is that of the policy that routes: equal scores are broken as that one would.
        """
        memory = self.memory.copy()
        state = self.cluster.state
        chosen = policy.compile()(state.seen, state.request_view[0], memory)
        return int(chosen), Reason(int(memory[REASON]))

    def after(self, choices: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Replay the waiting request's choices; afterwards the run is where it was.

        Args:
            choices: instances.

        Returns:
            [choices, futures] int64 tokens within SLO (prompt and output) of the requests that arrive in the stretch
            after the decision, and [choices, futures] float64 TTFT of this request in s, at most the horizon.
        """
        snapshot, memory = self.cluster.snapshot(), self.memory.copy()
        shape = len(choices), self.horizon.futures
        tokens, ttft_s = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        for k, choice in enumerate(choices):
            for future, delays in enumerate(self._delays):
                delay(self.cluster, delays)
                tokens[k, future], ttft_s[k, future] = self._replay(choice)
                self.cluster.restore(snapshot)
                self.memory = memory.copy()
        self.more = True
        return tokens, ttft_s

    def _follow(self) -> None:
        """Take the policy's own choice."""
        state = self.cluster.state
        chosen = self.policy(state.seen, state.request_view[0], self.memory)
        self.more = self.cluster.step(chosen, int(self.memory[REASON]))

    def _replay(self, choice: int) -> tuple[int, float]:
        request, now_s = self.cluster.pending, self.cluster.now_s
        longest_s = self.horizon.stretch_s + self.horizon.settle_s
        self.more = self.cluster.step(choice)
        while self.more and self.cluster.now_s < now_s + longest_s:
            self._follow()
        outcome = self.cluster.outcome
        counted = Scored(
            self.setup.trace,
            outcome,
            self.setup.slo,
            instances=self.setup.config.instances,
            warm_up_s=float(outcome["arrival_s"][request]),
            window_s=self.horizon.stretch_s,
        )
        tokens = int((counted.prompt + counted.output)[counted.met].sum())
        ttft_s = outcome["first_token_s"][request] - outcome["arrival_s"][request]
        return tokens, float(np.fmin(ttft_s, longest_s))  # nan where there is no first token yet

    @cached_property
    def _delays(self) -> list[np.ndarray]:
        """[requests] int64 ticks for every future, the same at every decision."""
        random = np.random.default_rng(self.setup.seed)
        size = self.horizon.futures, len(self.setup.trace)
        return list(np.rint(random.uniform(0, JITTER_S * TICKS_PER_S, size)).astype(np.int64))


def delay(cluster: Cluster, delays: np.ndarray) -> None:
    """Let every request that has not arrived come later: those that agents will send, or are about to.

    Args:
        cluster: in closed loop; changed in place, `Cluster.restore` takes it back.
        delays: [requests] int64 ticks, 0 or more. First requests all take that of request 0, which keeps their order.
    """
    state = cluster.state
    state.requests["gap"] += delays
    state.requests["arrival"][state.roots[state.cluster["next_root"][0] :]] += delays[0]
    events = state.events[: state.cluster["heap_size"][0]]
    sent = np.flatnonzero(events["key"] >> 40 == Kind.ARRIVAL)
    events["time"][sent] += delays[events["key"][sent] & (2**40 - 1)]
    events[:] = np.sort(events, order=("time", "key"))  # in order, so a heap


def halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of [..., futures] over the even futures and over the odd ones."""
    return values[..., ::2].mean(axis=-1), values[..., 1::2].mean(axis=-1)
