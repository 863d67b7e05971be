"""Routing the requests of LLM agents as a Gymnasium environment."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np

from smetric_gym.agents.policy import Policy
from smetric_gym.cluster.cluster import Cluster
from smetric_gym.cluster.config import ClusterConfig
from smetric_gym.envs.contract import Contract, exhausted, first_info
from smetric_gym.envs.distribution import ScenarioDistribution
from smetric_gym.envs.frame import Frame
from smetric_gym.envs.observation import Observation, drained
from smetric_gym.envs.render import draw, text
from smetric_gym.envs.rewards import TERMS, RewardFunction, credit_of
from smetric_gym.envs.scenario import Workload
from smetric_gym.envs.tally import ended, read
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import Setup
from smetric_gym.scoring import Scores
from smetric_gym.slo import SLO

RENDER_MODES = ("ansi", "rgb_array")


class RoutingEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Choose an instance for every request of an agent workload; `ColocatedEnv` is the specification.

    Attributes:
        setup: trace, cluster, limits and window of the episode.
        trace_seed: seed of the trace of the episode.
        rows: [rows] int32, the instance that each row of the observation and each action stand for; -1: none.
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
        scenario: str | Mapping[str, Any] | ScenarioDistribution | None = None,
        pool: int | Sequence[int] | None = None,
        shuffle: bool | None = None,
        max_instances: int | None = None,
        reward: str | RewardFunction = "goodput",
        reference: str | Policy | Callable[..., int] = "smetric",
        observation: Observation | None = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise SmetricError(f"render_mode is {render_mode!r}, allowed: {', '.join(RENDER_MODES)}, or None")
        self._contract = Contract(
            default_cluster=self.default_cluster,
            disaggregated=self.disaggregated,
            workload=workload,
            load=load,
            cluster=cluster,
            instances=instances,
            decode_instances=decode_instances,
            global_tier=global_tier,
            arrival_mode=arrival_mode,
            warm_up_s=warm_up_s,
            window_s=window_s,
            slo=slo,
            scenario=scenario,
            pool=pool,
            shuffle=shuffle,
            max_instances=max_instances,
            reward=reward,
            reference=reference,
            observation=observation,
            **settings,
        )
        contract = self._contract
        self.setup: Setup = contract.scenario.setup
        self.render_mode, self.reward = render_mode, reward
        self.action_space, self.observation_space = contract.action_space, contract.observation_space
        self.trace_seed, self.reason = 0, 0
        self.rows = np.arange(contract.rows, dtype=np.int32)
        self._cluster: Cluster | None = None
        self._waiting, self._chosen = False, -1
        self._mask = np.ones(contract.rows, dtype=np.int8)
        self._terms = np.zeros(len(TERMS))
        self._elapsed_s = 0.0

    # -- the Gymnasium interface

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: of the generator that draws a trace (or scenario) seed for each episode; None goes on with it.
            options: ``{"trace_seed": int}`` or ``{"trace": Trace}`` instead of a drawn one; with a scenario
                ``{"scenario_seed": int}``.

        Raises:
            SmetricError: for options that make no sense, or a trace that this cluster cannot serve.
        """
        super().reset(seed=seed)
        self._episode = self._contract.episode(self.np_random, options)
        self.setup = self._episode.setup
        self._cluster, self._tally = self._contract.begin(self._episode, self.np_random)
        self.trace_seed, self.rows = self.setup.seed, self._tally.rows
        self._chosen, self.reason, self._waiting = -1, 0, True
        observation = self._read()
        return observation, {"action_mask": self._mask.copy(), **first_info(self._episode)}

    def step(self, action: int | np.integer) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Route the waiting request to the instance of row `action`, and run to the next decision or to the end.

        Raises:
            SmetricError: when no request waits, or `action` is not an instance that is alive.
        """
        if not self._waiting:
            raise SmetricError(
                "step() was called and no request waits: call reset() first, and after an episode"
            )
        self._chosen = self._checked(action)
        self._waiting = self.cluster.step(self._chosen, self.reason)
        self.reason = 0
        observation = self._read()
        payer, terms = self._contract.payer, self._terms.tolist()
        info: dict[str, Any] = {
            "action_mask": self._mask.copy(),
            "elapsed_s": self._elapsed_s,
            "reward_terms": {name: terms[place] for name, place in payer.terms},
        }
        if payer.wants_ended:
            rows = ended(self._tally)
            if payer.credits:
                info["credit"] = credit_of(rows)
        reward = payer.ask(rows, self._elapsed_s) if payer.function else float(payer.pay(self._terms))
        if self._waiting:
            return observation, reward, False, False, info
        info["scores"] = self.scores()
        terminated = exhausted(self._episode, self.cluster)
        return observation, reward, terminated, not terminated, info

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
        """[rows] bool, True where the instance may be chosen (sb3-contrib looks for this name)."""
        return self._mask.astype(np.bool_)

    def scores(self) -> Scores:
        """All scores of the episode so far; those of the whole episode once it has ended."""
        return Scores.of(self.setup.scored(self.cluster))

    def frame(self) -> Frame:
        """What a picture shows, as plain values."""
        cluster, setup = self.cluster, self.setup
        view = cluster.view if self._waiting else drained(cluster)
        total = dict(zip(TERMS, self._tally.total.tolist(), strict=True))
        scored_s = min(cluster.now_s - setup.warm_up_s, setup.window_s)
        return Frame(
            title=f"{type(self).__name__.removesuffix('Env')} · {cluster.trace.name}",
            view=view,
            request=cluster.request if self._waiting else None,
            number=cluster.pending,
            chosen=self._chosen,
            now_s=cluster.now_s,
            warm_up_s=setup.warm_up_s,
            end_s=setup.warm_up_s + setup.window_s,
            ended=int(total["ended"]),
            within_slo=int(total["within_slo"]),
            goodput_per_s=total["goodput"] / scored_s if scored_s > 0 else 0.0,
        )

    # -- inside

    def _read(self) -> np.ndarray:
        """Read the decision at hand out, into the mask, the terms, and a new observation."""
        contract, tally = self._contract, self._tally
        observation = np.empty((contract.rows, contract.columns), dtype=np.float32)
        self._elapsed_s = read(tally, self._waiting, self._mask, observation, self._terms)
        if contract.features is None:
            return observation
        observation = np.zeros((contract.rows, contract.features.width), dtype=np.float32)
        if self._waiting:
            contract.features.observe(self.cluster, tally.rows, observation)
        return observation

    def _checked(self, action: Any) -> int:
        try:
            row = operator.index(action)
        except TypeError:
            row = -1
        if 0 <= row < len(self._mask) and self._mask[row]:
            return int(self.rows[row])
        raise self._contract.wrong_action(action, self._mask)
