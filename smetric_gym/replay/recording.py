"""One run again, and what the router saw on the way: the same result as `evaluate`, with the details kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from smetric_gym.cluster.cluster import Cluster
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import Setup, at_load, prepare
from smetric_gym.experiment.prepare import policy as policy_of
from smetric_gym.measures import Scored
from smetric_gym.scoring import Scores

if TYPE_CHECKING:
    from smetric_gym.agents.policy import Policy
    from smetric_gym.workload.trace import Trace

SLICES = 1200
"""Slices of the time that is shown; loads are averaged, and the router's view is kept, once in each."""

DECISION = np.dtype(
    [
        ("best", np.int32),  # instance with most of the prompt cached (the chosen one if equal, then the least loaded)
        ("best_hit_tokens", np.float32),  # prompt tokens cached there; 0 = nowhere, and best is -1
        ("chosen_requests", np.float32),  # requests in flight on the chosen instance,
        ("best_requests", np.float32),  # on the best,
        ("mean_requests", np.float32),  # and on average over those alive
        ("chosen_unprefilled", np.float32),  # the same of un-prefilled tokens
        ("best_unprefilled", np.float32),
        ("mean_unprefilled", np.float32),
    ]
)
"""What stood behind a decision, as the router saw it; of a request that was routed again, the last time."""

SAMPLED = ("waiting", "running", "kv_use", "unprefilled_s", "alive")
"""Fields of the view that are kept over time."""


@dataclass(frozen=True)
class Recording:
    """A run, and what the router saw.

    Attributes:
        policy: who routed.
        setup: trace, cluster, limits and window.
        scored: the requests that count.
        scores: of the run, the same as those of `evaluate`.
        start_s: s, where the shown time begins.
        end_s: s, where it ends.
        decisions: [requests] ``DECISION``; zeros where there was none.
        samples: field of `SAMPLED` to [slices, instances] float32: the view at the first decision of a slice, or
            the last one known before it (before the first: nothing there, all alive).
    """

    policy: Policy
    setup: Setup
    scored: Scored
    scores: Scores
    start_s: float
    end_s: float
    decisions: np.ndarray
    samples: dict[str, np.ndarray]

    @property
    def edges_s(self) -> np.ndarray:
        """[slices + 1] s, between the slices."""
        return np.linspace(self.start_s, self.end_s, SLICES + 1)

    @cached_property
    def everything(self) -> Scored:
        """All requests that arrived as if they counted, for what happened outside the scored window."""
        scored, setup = self.scored, self.setup
        last_s = float(np.nanmax(scored.all["arrival_s"]))
        until_s = float(np.nextafter(last_s, np.inf))
        return Scored(
            setup.trace, scored.all, setup.slo, instances=scored.instances, warm_up_s=0.0, window_s=until_s
        )

    @cached_property
    def shown(self) -> np.ndarray:
        """Indices of the requests that were somewhere in the cluster in the shown time, in order of arrival."""
        run = self.scored.all
        end = np.where(np.isfinite(run["finish_s"]), run["finish_s"], np.inf)
        inside = np.flatnonzero((run["arrival_s"] < self.end_s) & (end >= self.start_s))
        return inside[np.argsort(run["arrival_s"][inside], kind="stable")]


def record(
    settings: Mapping[str, Any],
    *,
    trace: Trace | None = None,
    function: Callable | Policy | None = None,
    start_s: float = 0.0,
    end_s: float | None = None,
    progress: Callable[[float], Any] | None = None,
) -> Recording:
    """Run what settings describe, and keep the details.

    Args:
        settings: from `experiment.settings.compose`, or of a result.
        trace: served at their load instead of their workload, as `experiment.evaluate.run` takes it.
        function: routes instead of their policy.
        start_s: s, where the shown time begins.
        end_s: s, where it ends; None for the end of the scored window.
        progress: called now and then with the simulated time in s.

    Raises:
        SmetricError: for settings that make no sense, or when nothing happens in the shown time.
    """
    setup = prepare(settings, trace)
    if trace is not None:
        setup = replace(setup, trace=at_load(trace, settings["load"], settings["load_by"], setup.seed))
    until_s = setup.warm_up_s + setup.window_s if end_s is None else end_s
    policy = policy_of(settings, function).compile()
    cluster = setup.cluster(debug=settings["debug"])
    seen = _Seen(len(setup.trace), setup.config.instances, start_s, until_s)
    _run(cluster, policy, setup.seed, seen, progress)
    scored = setup.scored(cluster)
    recording = Recording(
        policy=policy,
        setup=setup,
        scored=scored,
        scores=Scores.of(scored),
        start_s=start_s,
        end_s=until_s,
        decisions=seen.decisions,
        samples=seen.filled(),
    )
    if not len(scored.outcome):
        raise SmetricError("no request arrived in the scored window: change warm_up_s, window_s or load")
    if not len(recording.shown):
        raise SmetricError(f"nothing is in the cluster from {start_s:g} to {until_s:g} s: change from_s or to_s")
    return recording


def _run(cluster: Cluster, policy: Policy, seed: int, seen: _Seen, progress: Callable[[float], Any] | None) -> None:
    """`Cluster.run`, with a look at every decision."""
    from smetric_gym.agents.memory import REASON
    from smetric_gym.agents.policy import check_choice

    memories = cluster.new_memories(policy, seed)
    plain = (cluster.state.seen, cluster.state.request_view[0])
    view, request = plain if policy.compiled else (cluster.view, cluster.request)
    count, more = 0, cluster.advance()
    while more:
        memory = memories[cluster.router]
        choice = check_choice(str(policy.name), policy(view, request, memory), cluster.view.alive)
        seen.look(cluster, choice)
        count += 1
        if progress is not None and count % 1024 == 0:
            progress(cluster.now_s)
        more = cluster.step(choice, int(memory[REASON]))


class _Seen:
    """What the router saw so far."""

    def __init__(self, requests: int, instances: int, start_s: float, end_s: float) -> None:
        self.decisions = np.zeros(requests, DECISION)
        self._start_s, self._slice_s = start_s, (end_s - start_s) / SLICES
        self._samples = np.zeros((len(SAMPLED), SLICES, instances), np.float32)
        self._taken = np.zeros(SLICES, bool)
        self._before = np.zeros((len(SAMPLED), instances), np.float32)
        self._before[SAMPLED.index("alive")] = 1

    def look(self, cluster: Cluster, choice: int) -> None:
        """Keep what matters of the decision at hand."""
        view = cluster.view
        alive, hits = view["alive"] > 0, view["local_hit_tokens"]
        requests, todo = view["in_flight"], view["unprefilled_tokens"]
        best = int(np.lexsort((requests, np.arange(len(view)) != choice, -hits, ~alive))[0])
        found = hits[best] > 0
        self.decisions[cluster.pending] = (
            best if found else -1, hits[best],
            requests[choice], requests[best], requests[alive].mean(),
            todo[choice], todo[best], todo[alive].mean(),
        )  # fmt: skip
        at = int((cluster.now_s - self._start_s) // self._slice_s)
        if at < 0:
            self._before = self._fields(view)
        elif at < SLICES and not self._taken[at]:
            self._taken[at] = True
            self._samples[:, at] = self._fields(view)

    def filled(self) -> dict[str, np.ndarray]:
        """Field to [slices, instances]; a slice without a decision repeats the one before it."""
        source = np.maximum.accumulate(np.where(self._taken, np.arange(SLICES), -1))
        samples = np.where((source >= 0)[:, None], self._samples[:, np.maximum(source, 0)], self._before[:, None])
        return dict(zip(SAMPLED, samples, strict=True))

    @staticmethod
    def _fields(view: np.ndarray) -> np.ndarray:
        return np.stack([view[name] for name in SAMPLED])
