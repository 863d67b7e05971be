"""What one environment and a vector of them have in common: scenario, observation, reward, and how episodes begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from smetric_gym.agents.policy import Policy, load_policy
from smetric_gym.cluster.cluster import Cluster
from smetric_gym.cluster.config import ClusterConfig
from smetric_gym.cluster.state import UNISSUED
from smetric_gym.envs.distribution import ScenarioDistribution
from smetric_gym.envs.observation import FIELDS, Features, Observation, observation_space
from smetric_gym.envs.reference import earnings
from smetric_gym.envs.rewards import Payer, RewardFunction
from smetric_gym.envs.scenario import KEPT, Episode, Scenario, Workload
from smetric_gym.envs.tally import Tally
from smetric_gym.errors import SmetricError
from smetric_gym.slo import SLO
from smetric_gym.workload.trace import Trace

ELSEWHERE = {
    "policy": "nothing, as the agent is the policy (Teacher lets a policy choose)",
    "seed": "nothing here: reset(seed=...) takes it",
    "debug": "nothing: environments do not check invariants, evaluate(debug=True) does",
}
"""Settings of `evaluate` that an environment does not take, and what is allowed instead."""
OPTIONS = ("trace", "trace_seed", "scenario_seed")


class Contract:
    """The arguments of an environment, checked; `ColocatedEnv` documents them.

    Args:
        default_cluster: file of ``conf/cluster`` that ``cluster`` is a change of.
        disaggregated: whether the cluster must have decode instances.
        kept: episodes that are kept for when their seed comes again.

    Attributes:
        scenario: the episodes.
        payer: the reward.
        features: the observation of the user's own, or None.
        shuffle: whether the order of the instances is another one in every episode.
        rows: rows of an observation.
        observation_space: of one environment.
        action_space: of one environment.
    """

    def __init__(
        self,
        *,
        default_cluster: str,
        disaggregated: bool,
        kept: int = KEPT,
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
        **settings: Any,
    ) -> None:
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
        if scenario is not None and not isinstance(scenario, ScenarioDistribution):
            scenario = ScenarioDistribution(scenario)
        self.scenario = Scenario(default_cluster, workload, cluster, settings, scenario, pool, kept)
        config = self.scenario.setup.config
        if config.disaggregated != disaggregated:
            allowed = "0 (SMetric/Disaggregated-v0 has some)"
            if disaggregated:
                allowed = "1 or more (SMetric/Colocated-v0 has none)"
            raise SmetricError(f"cluster.decode_instances is {config.decode_instances}, allowed here: {allowed}")
        if shuffle is not None and not isinstance(shuffle, bool):
            raise SmetricError(f"shuffle is {shuffle!r}, allowed: true, false, or None for the scenario's own")
        self.shuffle = bool(scenario and scenario.shuffle) if shuffle is None else shuffle
        least = self.scenario.instances
        if max_instances is not None and not (type(max_instances) is int and max_instances >= least):
            raise SmetricError(f"max_instances is {max_instances!r}, allowed: a whole number, {least} or more")
        self.rows = max_instances or least
        self.payer = Payer(reward)
        self._reference = load_policy(reference, disaggregated=disaggregated) if self.payer.relative else None
        self.features = None if observation is None else Features(observation)
        self.action_space = spaces.Discrete(self.rows)
        self.observation_space = self.features.space(self.rows) if self.features else observation_space(self.rows)

    @property
    def columns(self) -> int:
        """Columns that the compiled read-out writes: none where the user's own function does."""
        return 0 if self.features else len(FIELDS)

    def episode(self, random: np.random.Generator, options: Mapping[str, Any] | None) -> Episode:
        """The next episode, or the one that the options of `reset` name."""
        options = options or {}
        allowed = OPTIONS[:2] if self.scenario.distribution is None else OPTIONS[2:]
        for name in sorted(options):
            if name not in allowed:
                raise SmetricError(f"reset(options=...) has the key {name!r}, allowed: {', '.join(allowed)}")
        for name in OPTIONS[1:]:
            if name in options and not (isinstance(options[name], int | np.integer) and options[name] >= 0):
                raise SmetricError(f"options[{name!r}] is {options[name]!r}, allowed: a whole number, 0 or more")
        seed = next((int(options[name]) for name in OPTIONS[1:] if name in options), None)
        if "trace" in options:
            if not isinstance(options["trace"], Trace):
                raise SmetricError(f"options['trace'] is a {type(options['trace']).__name__}, allowed: a Trace")
            return self.scenario.serving(options["trace"], int(random.integers(2**31)) if seed is None else seed)
        return self.scenario.draw(random) if seed is None else self.scenario.episode(seed)

    def begin(self, episode: Episode, random: np.random.Generator) -> tuple[Cluster, Tally]:
        """A cluster at its first decision, and its tally."""
        setup = episode.setup
        cluster = setup.cluster()
        count = setup.config.instances
        if count > self.rows:
            raise SmetricError(f"the scenario draws {count} instances, allowed: up to max_instances, {self.rows}")
        rows = np.full(self.rows, -1, dtype=np.int32)
        rows[:count] = random.permutation(count) if self.shuffle else np.arange(count)
        earned = None
        if self._reference is not None:
            if self._reference.name not in episode.earnings:
                episode.earnings[self._reference.name] = earnings(setup, self._reference.compile())
            earned = episode.earnings[self._reference.name]
        tally = Tally.of(cluster, setup.slo, setup.warm_up_s, setup.window_s, rows, earned)
        if not cluster.advance():
            raise SmetricError(
                f"no request of {setup.trace.name} arrives in the {setup.warm_up_s + setup.window_s:g} s of an "
                "episode: change warm_up_s, window_s or the workload"
            )
        return cluster, tally

    def wrong_action(self, action: Any, mask: np.ndarray, where: str = "") -> SmetricError:
        """One sentence about an action that is not allowed."""
        down = ", ".join(map(str, np.flatnonzero(mask == 0)))
        padded = self.scenario.distribution is not None or self.rows > self.scenario.instances
        return SmetricError(
            f"{where}action is {action!r}, allowed: a whole number in 0..{self.rows - 1}"
            + (f", and not {down} ({'down or without an instance' if padded else 'down'})" if down else "")
        )


def first_info(episode: Episode) -> dict[str, Any]:
    """What ``info`` says of an episode at its beginning, beside the mask."""
    info = {"trace_seed": episode.setup.seed, "instances": episode.setup.config.instances}
    return info | ({"scenario_seed": episode.scenario_seed} if episode.scenario_seed >= 0 else {})


def exhausted(episode: Episode, cluster: Cluster) -> bool:
    """True when a recorded trace was over before the window was, so that nothing more can happen."""
    if episode.endless:
        return False
    setup, requests = episode.setup, cluster.trace.requests
    alone = (requests["parent"] < 0) | (cluster.arrival_mode == "open")
    withheld = alone & (requests["arrival"] >= setup.warm_up_s + setup.window_s)
    return not withheld.any() and not (cluster.state.requests["stage"] == UNISSUED).any()
