"""A reference policy at the wheel of an environment: a baseline, or a teacher for behaviour cloning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

from smetric_gym.agents.memory import REASON
from smetric_gym.agents.policy import Policy, check_choice, load_policy
from smetric_gym.cluster.cluster import Cluster
from smetric_gym.envs.routing import RoutingEnv
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
        self._policy = load_policy(policy, disaggregated=self._env.disaggregated, **parameters).compile()
        self._cluster: Cluster | None = None

    def action(self) -> int:
        """The policy's choice. Call it once for each decision, since a policy may remember it."""
        env, cluster = self._env, self._env.cluster
        if cluster is not self._cluster:  # a new episode
            self._cluster = cluster
            self._memory = self._policy.new_memory(cluster.trace.sessions, env.trace_seed)
            plain = (cluster.state.seen, cluster.state.request_view[0])
            self._sees: tuple[Any, Any] = plain if self._policy.compiled else (cluster.view, cluster.request)
        view, request = self._sees
        choice = self._policy(view, request, self._memory)
        env.reason = int(self._memory[REASON])
        return check_choice(str(self._policy.name), choice, env.action_masks())
