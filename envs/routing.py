"""Routing the requests of LLM agents as a Gymnasium environment."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from smetric_gym.cluster.cluster import Cluster
from smetric_gym.cluster.config import ClusterConfig
from smetric_gym.cluster.state import UNISSUED
from smetric_gym.envs.frame import Frame
from smetric_gym.envs.observation import Observer, observation_space
from smetric_gym.envs.render import draw, text
from smetric_gym.envs.rewards import TERMS, Credit, reward_index
from smetric_gym.envs.scenario import Scenario, Workload
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import Setup
from smetric_gym.scoring import Scores
from smetric_gym.slo import SLO
from smetric_gym.workload.trace import Trace

RENDER_MODES = ("ansi", "rgb_array")
ELSEWHERE = {
    "policy": "nothing, as the agent is the policy (Teacher lets a policy choose)",
    "seed": "nothing here: reset(seed=...) takes it",
    "debug": "nothing: environments do not check invariants, evaluate(debug=True) does",
}
"""Settings of `evaluate` that an environment does not take, and what is allowed instead."""


class RoutingEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Choose an instance for every request of an agent workload; `ColocatedEnv` is the specification.

    Attributes:
        setup: trace, cluster, limits and window of the episode.
        trace_seed: seed of the trace of the episode.
        reason: why the next action is chosen (``agents.memory.Reason``), for the scores that count reasons; a
            step sets it back to 0.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 8}
    default_cluster: ClassVar[str] = "colocated"
    disaggregated: ClassVar[bool] = False

    def __init__(
        self,
        *,
        workload: Workload | None = None,
        load: float | None = None,
        cluster: str | Mapping[str, Any] | ClusterConfig | None = None,
        instances: int | None = None,
        decode_instances: int | None = None,
        global_tier: float | None = None,
        arrival_mode: str | None = None,
        warm_up_s: float | None = None,
        window_s: float | None = None,
        slo: str | SLO | None = None,
        reward: str = "goodput",
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise SmetricError(f"render_mode is {render_mode!r}, allowed: {', '.join(RENDER_MODES)}, or None")
        for name, value in settings.items():
            if (group := name.partition(".")[0]) in ELSEWHERE:
                raise SmetricError(f"{name} is {value!r}, allowed: {ELSEWHERE[group]}")
        settings |= {
            "load": load,
            "instances": instances,
            "cluster.decode_instances": decode_instances,
            "global_tier": global_tier,
            "arrival_mode": arrival_mode,
            "warm_up_s": warm_up_s,
            "window_s": window_s,
            "slo": slo,
        }
        self._scenario = Scenario(self.default_cluster, workload, cluster, settings)
        self.setup: Setup = self._scenario.setup
        config = self.setup.config
        if config.disaggregated != self.disaggregated:
            allowed = (
                "1 or more (SMetric/Colocated-v0 has none)"
                if self.disaggregated
                else "0 (SMetric/Disaggregated-v0 has some)"
            )
            raise SmetricError(
                f"cluster.decode_instances is {config.decode_instances}, allowed here: {allowed}"
            )
        self.render_mode = render_mode
        self.reward = reward
        self._reward = reward_index(reward)
        self.instances = config.instances
        self.action_space = spaces.Discrete(self.instances)
        self.observation_space = observation_space(self.instances)
        self._cluster: Cluster | None = None
        self.trace_seed, self.reason = 0, 0
        self._waiting, self._chosen = False, -1
        self._allowed = np.ones(self.instances, dtype=bool)

    # -- the Gymnasium interface

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: of the generator that draws a trace seed for each episode; None goes on with it.
            options: ``{"trace_seed": int}`` or ``{"trace": Trace}`` instead of a drawn one.

        Raises:
            SmetricError: for options that make no sense, or a trace that this cluster cannot serve.
        """
        super().reset(seed=seed)
        trace = self._choose_trace(options or {})
        self.setup = self._scenario.episode(trace, self.trace_seed)
        self._cluster = cluster = self.setup.cluster()
        self._credit = Credit(self.setup.slo, self.setup.warm_up_s, self.setup.window_s)
        self._chosen, self.reason = -1, 0
        self._waiting = cluster.advance()
        if not self._waiting:
            raise SmetricError(
                f"no request of {trace.name} arrives in the {self._scenario.end_s:g} s of an episode: change "
                "warm_up_s, window_s or the workload"
            )
        self._observer = Observer(cluster.state)
        self._allowed = self._observer.mask()
        info = {"action_mask": self._allowed.astype(np.int8), "trace_seed": self.trace_seed}
        return self._observer.observe(), info

    def step(self, action: int | np.integer) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Route the waiting request to instance `action`, and run to the next decision or to the end.

        Raises:
            SmetricError: when no request waits, or `action` is not an instance that is alive.
        """
        if not self._waiting:
            raise SmetricError(
                "step() was called and no request waits: call reset() first, and after an episode"
            )
        self._chosen = self._checked(action)
        cluster = self.cluster
        self._waiting = cluster.step(self._chosen, self.reason)
        self.reason = 0
        terms = self._credit.collect(cluster.state)
        info: dict[str, Any] = {"reward_terms": dict(zip(TERMS, terms, strict=True))}
        if self._waiting:
            self._allowed = self._observer.mask()
            info["action_mask"] = self._allowed.astype(np.int8)
            return self._observer.observe(), terms[self._reward], False, False, info
        rows = cluster.state.instances[: self.instances]
        alive = rows["alive"] > 0
        self._allowed = alive if alive.any() else ~alive  # a learner's mask must leave something
        info["action_mask"] = self._allowed.astype(np.int8)
        info["scores"] = self.scores()
        terminated = self._exhausted()
        observation = self._observer.last(rows, cluster.now_s)
        return observation, terms[self._reward], terminated, not terminated, info

    def render(self) -> np.ndarray | str | None:
        """The decision at hand: a text ("ansi") or a picture, [height, width, 3] uint8 ("rgb_array")."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() shows nothing: make the environment with a render_mode")
            return None
        return text(self.frame()) if self.render_mode == "ansi" else draw(self.frame())

    # -- beyond it

    @property
    def cluster(self) -> Cluster:
        """The simulated cluster of the episode."""
        if self._cluster is None:
            raise SmetricError("no episode has begun: call reset() first")
        return self._cluster

    def action_masks(self) -> np.ndarray:
        """[instances] bool, True where the instance may be chosen (sb3-contrib looks for this name)."""
        return self._allowed.copy()

    def scores(self) -> Scores:
        """All scores of the episode so far; those of the whole episode once it has ended."""
        return Scores.of(self.setup.scored(self.cluster))

    def frame(self) -> Frame:
        """What a picture shows, as plain values."""
        cluster, setup = self.cluster, self.setup
        view = cluster.view if self._waiting else self._observer.drained(cluster.state.instances[: self.instances])
        total = dict(zip(TERMS, self._credit.total.tolist(), strict=True))
        scored_s = min(cluster.now_s - setup.warm_up_s, setup.window_s)
        return Frame(
            title=f"{type(self).__name__.removesuffix('Env')} · {cluster.trace.name}",
            view=view,
            request=cluster.request if self._waiting else None,
            number=cluster.pending,
            chosen=self._chosen,
            now_s=cluster.now_s,
            warm_up_s=setup.warm_up_s,
            end_s=self._scenario.end_s,
            ended=int(total["ended"]),
            within_slo=int(total["within_slo"]),
            goodput_per_s=total["goodput"] / scored_s if scored_s > 0 else 0.0,
        )

    # -- inside

    def _choose_trace(self, options: dict[str, Any]) -> Trace:
        unknown = sorted(set(options) - {"trace", "trace_seed"})
        if unknown:
            raise SmetricError(f"reset(options=...) has the key {unknown[0]!r}, allowed: trace, trace_seed")
        if "trace_seed" in options:
            seed = options["trace_seed"]
            if not isinstance(seed, int | np.integer) or seed < 0:
                raise SmetricError(f"options['trace_seed'] is {seed!r}, allowed: a whole number, 0 or more")
            self.trace_seed = int(seed)
        else:
            self.trace_seed = int(self.np_random.integers(2**31))
        self._endless = self._scenario.endless and "trace" not in options
        if "trace" not in options:
            return self._scenario.trace(self.trace_seed)
        if not isinstance(options["trace"], Trace):
            raise SmetricError(f"options['trace'] is a {type(options['trace']).__name__}, allowed: a Trace")
        return options["trace"]

    def _checked(self, action: Any) -> int:
        try:
            instance = operator.index(action)
        except TypeError:
            instance = -1
        if 0 <= instance < self.instances and self._allowed[instance]:
            return instance
        down = ", ".join(map(str, np.flatnonzero(~self._allowed)))
        raise SmetricError(
            f"action is {action!r}, allowed: a whole number in 0..{self.instances - 1}"
            + (f", and not {down} (down)" if down else "")
        )

    def _exhausted(self) -> bool:
        """True when a recorded trace was over before the window was, so that nothing more can happen."""
        cluster, requests = self.cluster, self.cluster.trace.requests
        if self._endless:
            return False
        alone = (requests["parent"] < 0) | (cluster.arrival_mode == "open")
        withheld = alone & (requests["arrival"] >= self._scenario.end_s)
        return not withheld.any() and not (cluster.state.requests["stage"] == UNISSUED).any()
