"""A reference policy at the wheel of environments: a baseline, or a teacher for behaviour cloning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from smetric_gym.agents.memory import REASON
from smetric_gym.agents.policy import Policy, check_choice, load_policy
from smetric_gym.cluster.cluster import Cluster
from smetric_gym.envs.routing import RoutingEnv
from smetric_gym.envs.vector import VectorRoutingEnv
from smetric_gym.errors import SmetricError


class Teacher:
    """Names the action of a policy for the decision at hand.

    An environment that a teacher drives has the same scores, to the last bit, as `evaluate` of the policy
    with the seed ``info["trace_seed"]``. A wrapper that changes observations or rewards does not matter.

    Args:
        env: an environment of this package, wrapped or not.
        policy: whatever `smetric_gym.agents.policy.load_policy` takes.
        parameters: of the policy.

    Example:
        >>> env = gymnasium.make("smetric_gym:SMetric/Colocated-v0")  # doctest: +SKIP
        >>> teacher = Teacher(env, "smetric")                         # doctest: +SKIP
        >>> env.reset(seed=0)                                         # doctest: +SKIP
        >>> env.step(teacher.action())                                # doctest: +SKIP
    """

    def __init__(
        self, env: gymnasium.Env, policy: str | Policy | Callable[..., int], **parameters: Any
    ) -> None:
        if not isinstance(env.unwrapped, RoutingEnv):
            raise SmetricError(
                f"env is a {type(env.unwrapped).__name__}, allowed: an environment of smetric_gym"
            )
        self._env = env.unwrapped
        self._desk = _Desk(load_policy(policy, disaggregated=self._env.disaggregated, **parameters).compile())

    def action(self) -> int:
        """The policy's choice. Call it once for each decision, since a policy may remember it."""
        action, self._env.reason = self._desk.decide(self._env.cluster, self._env.trace_seed, self._env.rows)
        return action


class VectorTeacher:
    """The same for a vector of environments: every one has a memory of its own.

    Args:
        envs: a vector environment of this package, wrapped or not.
        policy: whatever `smetric_gym.agents.policy.load_policy` takes.
        parameters: of the policy.
    """

    def __init__(
        self, envs: gymnasium.vector.VectorEnv, policy: str | Policy | Callable[..., int], **parameters: Any
    ) -> None:
        if not isinstance(envs.unwrapped, VectorRoutingEnv):
            raise SmetricError(
                f"envs is a {type(envs.unwrapped).__name__}, allowed: a vector environment of smetric_gym"
            )
        self._envs = envs.unwrapped
        chosen = load_policy(policy, disaggregated=self._envs.disaggregated, **parameters).compile()
        self._desks = [_Desk(chosen) for _ in range(envs.num_envs)]

    def actions(self) -> np.ndarray:
        """[envs] int64, the policy's choices. Call it once for each step, since a policy may remember them."""
        envs, actions = self._envs, np.zeros(len(self._desks), dtype=np.int64)
        for i, (desk, cluster, seed) in enumerate(zip(self._desks, envs.clusters, envs.trace_seeds, strict=True)):
            actions[i], envs.reasons[i] = desk.decide(cluster, seed, envs.rows[i])
        return actions


class _Desk:
    """A policy and its memory in the episodes of one environment."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._cluster: Cluster | None = None

    def decide(self, cluster: Cluster, seed: int, rows: np.ndarray) -> tuple[int, int]:
        """The row of the policy's choice, and its reason."""
        if cluster is not self._cluster:  # a new episode
            self._cluster = cluster
            self._memories = cluster.new_memories(self._policy, seed)
            plain = (cluster.state.seen, cluster.state.request_view[0])
            self._sees: tuple[Any, Any] = plain if self._policy.compiled else (cluster.view, cluster.request)
        memory = self._memories[cluster.router]
        choice = self._policy(*self._sees, memory)
        choice = check_choice(str(self._policy.name), choice, cluster.state.seen["alive"])
        return rows.tolist().index(choice), int(memory[REASON])
