"""A whole run of one policy that can be visited again at any of its decisions."""

from __future__ import annotations

from functools import cached_property
from threading import Lock

import numpy as np

from smetric_gym.agents.memory import REASON
from smetric_gym.agents.policy import Policy, check_choice
from smetric_gym.cluster import Cluster
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import Setup
from smetric_gym.measures import Scored, in_flight
from smetric_gym.play.moment import Moment, owners
from smetric_gym.scoring import Scores

CHECKPOINTS = 24
"""Snapshots of a run: going to a decision runs on from the one before it, a few milliseconds."""
WORST_EVERY_S = 5.0
MOST_BINS = 120


class Driver:
    """A policy with the memory of one run."""

    def __init__(self, policy: Policy, sessions: int, seed: int) -> None:
        self.policy = policy.compile()
        self.memory = policy.new_memory(sessions, seed)

    def choose(self, cluster: Cluster) -> tuple[int, int]:
        """(instance, reason) for the decision at which the cluster stands."""
        compiled = self.policy.compiled
        view = cluster.state.seen if compiled else cluster.view
        request = cluster.state.request_view[0] if compiled else cluster.request
        choice = self.policy(view, request, self.memory)
        return check_choice(self.policy.name, choice, cluster.state.seen["alive"]), int(self.memory[REASON])


class Recording:
    """One run, with all its decisions.

    Args:
        setup: what is served, and where.
        policy: who routes.
        label: what the page calls it.

    Attributes:
        requests: [decisions] index into the trace.
        times_s: [decisions] s, when each was taken.
        choices: [decisions] instance.
        scored: what happened to the requests that count.
        scores: ``scoring.SCORES`` by name.

    Raises:
        SmetricError: when no request falls into the scored window.
    """

    def __init__(self, setup: Setup, policy: Policy, label: str) -> None:
        self.setup, self.policy, self.label = setup, policy, label
        self._lock = Lock()  # several pages may look at one recording
        self._cluster = cluster = setup.cluster()
        self._driver = driver = Driver(policy, setup.trace.sessions, setup.seed)
        self._every = max(1, len(setup.trace) // CHECKPOINTS)
        self._checkpoints: list[tuple[tuple, np.ndarray]] = []
        requests: list[int] = []
        times_s: list[float] = []
        choices: list[int] = []
        more = cluster.advance()
        while more:
            if len(requests) % self._every == 0:
                self._checkpoints.append((cluster.snapshot(), driver.memory.copy()))
            requests.append(cluster.pending)
            times_s.append(cluster.now_s)
            choice, reason = driver.choose(cluster)
            choices.append(choice)
            more = cluster.step(choice, reason)
        self.requests, self.times_s, self.choices = np.array(requests), np.array(times_s), np.array(choices)
        self._at = len(requests)
        self.scored = setup.scored(cluster)
        if not len(self.scored.outcome):
            raise SmetricError(
                f"no request arrives from {setup.warm_up_s:g} to {self.scored.end_s:g} s, which is what is scored: "
                "raise the load or the length"
            )
        self.scores = Scores.of(self.scored)

    def __len__(self) -> int:
        return len(self.requests)

    # -- going to a decision

    def index_at(self, time_s: float) -> int:
        """The last decision at or before a time (the first one, before all of them)."""
        return max(0, int(np.searchsorted(self.times_s, time_s + 1e-9, side="right")) - 1)

    def visit(self, k: int) -> Moment:
        """The cluster as it stood at decision `k`, 0 to ``len(recording) - 1``."""
        if not 0 <= k < len(self):
            raise SmetricError(f"decision {k} does not exist, allowed: 0 to {len(self) - 1}")
        with self._lock:
            nearest = k // self._every
            if not nearest * self._every <= self._at <= k:
                snapshot, memory = self._checkpoints[nearest]
                self._cluster.restore(snapshot)
                self._driver.memory[:] = memory
                self._at = nearest * self._every
            while self._at < k:
                self._cluster.step(*self._driver.choose(self._cluster))
                self._at += 1
            return Moment.of(self._cluster, self._owners, self._driver.memory, int(self.choices[k]), k)

    @cached_property
    def starts(self) -> np.ndarray:
        """[sessions] instance of the first request of every session, -1 where none was routed."""
        starts = np.full(self.setup.trace.sessions, -1)
        sessions = self.setup.trace.requests["session"][self.requests]
        starts[sessions[::-1]] = self.choices[::-1]  # the earliest decision is written last
        return starts

    @cached_property
    def met(self) -> np.ndarray:
        """[requests] bool, True where both limits are met, also outside the scored window."""
        served = Scored(
            self.setup.trace,
            self.scored.all,
            self.setup.slo,
            instances=self.scored.instances,
            warm_up_s=0.0,
            window_s=self.scored.end_s,
        )
        met = np.zeros(len(served.all), dtype=bool)
        met[served.mask] = served.met
        return met

    @cached_property
    def _owners(self) -> np.ndarray:
        return owners(self.setup.trace)

    # -- over time

    @cached_property
    def bins_s(self) -> np.ndarray:
        """[bins + 1] s, the edges of at most 120 bins over the whole run, at least 5 s long where there is room."""
        count = int(np.clip(self.scored.end_s / WORST_EVERY_S, 1, MOST_BINS))
        return np.linspace(0, self.scored.end_s, count + 1)

    @cached_property
    def in_flight_tokens(self) -> np.ndarray:
        """Prompt tokens in flight, averaged over each bin, [bins, instances]."""
        return self.scored.in_flight_tokens(self.bins_s)

    @cached_property
    def worst_s(self) -> float:
        """The moment of the scored window at which one instance has most tokens in flight above the mean, s."""
        scored = self.scored
        edges_s = np.arange(scored.warm_up_s, scored.end_s + WORST_EVERY_S, WORST_EVERY_S)
        prompt = scored.trace.requests["prompt"].astype(np.float64)
        arrival, place = scored.all["arrival_s"], scored.all["instance"]
        tokens = in_flight(arrival, scored.leaves_s, prompt, place, scored.instances, edges_s)
        excess = tokens.max(axis=1) - tokens.mean(axis=1)
        return float(edges_s[int(excess.argmax())] + WORST_EVERY_S / 2)

    def per_bin(self, weight: np.ndarray, edges_s: np.ndarray) -> np.ndarray:
        """Sum of a weight per scored request over the bins of arrival, per second, [bins]."""
        total, _ = np.histogram(self.scored.outcome["arrival_s"], edges_s, weights=weight)
        return total / np.diff(edges_s)
