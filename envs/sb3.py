"""The vector environment as Stable-Baselines3 wants it (extra ``rl``)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from smetric_gym.envs.vector import VectorRoutingEnv
from smetric_gym.errors import SmetricError

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:  # pragma: no cover
    raise SmetricError(
        "smetric_gym.envs.sb3 needs stable-baselines3, which is not installed: pip install 'smetric-gym[rl]'"
    ) from error


class SB3VecEnv(VecEnv):
    """A `VectorRoutingEnv` as a ``VecEnv``, for PPO, DQN and sb3-contrib's MaskablePPO.

    Observations stay [envs, instances, fields]. The ``infos`` of an environment that is done have
    ``terminal_observation``, ``TimeLimit.truncated`` (true when the window ended, so that values are bootstrapped),
    ``episode`` (return r, length l, s of wall time t) and the ``scores``; those of every step ``elapsed_s``. Masks
    are answered to ``env_method("action_masks")``. Rewards are tokens, thousands per request: `reward_scale`
    multiplies them, also in the episode's return.

    Args:
        envs: the environments, or their ``gymnasium.make_vec`` result.
        reward_scale: factor of every reward.

    Example:
        >>> from sb3_contrib import MaskablePPO                                        # doctest: +SKIP
        >>> envs = SB3VecEnv(VectorColocatedEnv(16, scenario="train"), 1e-5)            # doctest: +SKIP
        >>> MaskablePPO("MlpPolicy", envs).learn(100_000)                              # doctest: +SKIP
    """

    def __init__(self, envs: Any, reward_scale: float = 1.0) -> None:
        inner = getattr(envs, "unwrapped", envs)
        if not isinstance(inner, VectorRoutingEnv):
            raise SmetricError(f"envs is a {type(inner).__name__}, allowed: a vector environment of smetric_gym")
        if not np.isfinite(reward_scale) or reward_scale <= 0:
            raise SmetricError(f"reward_scale is {reward_scale!r}, allowed: a finite number above 0")
        self.envs, self.reward_scale = inner, reward_scale
        self.render_mode = None
        self._seed: int | None = None
        self._returns, self._lengths = np.zeros(inner.num_envs), np.zeros(inner.num_envs, dtype=np.int64)
        self._since = time.monotonic()
        super().__init__(inner.num_envs, inner.single_observation_space, inner.single_action_space)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the next `reset`; the seeds of the environments."""
        self._seed = seed
        return [None if seed is None else seed + i // self.envs.share for i in range(self.num_envs)]

    def reset(self) -> np.ndarray:
        """Start an episode in every environment; [envs, instances, fields] float32."""
        observations, info = self.envs.reset(seed=self._seed)
        self._seed = None
        self._returns[:], self._lengths[:] = 0, 0
        self.reset_infos = [
            {"trace_seed": int(info["trace_seed"][i]), "instances": int(info["instances"][i])}
            for i in range(self.num_envs)
        ]
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:  # type: ignore[override]
        """Step every environment."""
        observations, rewards, terminated, truncated, info = self.envs.step(self._actions)
        rewards = (rewards * self.reward_scale).astype(np.float32)
        dones = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{"elapsed_s": s} for s in info["elapsed_s"].tolist()]
        if "credit" in info:
            for one, pairs in zip(infos, info["credit"], strict=True):
                one["credit"] = pairs
        for i in np.flatnonzero(dones).tolist():
            final = info["final_info"]
            scores = {name: of[i] for name, of in final["scores"].items() if not name.startswith("_")}
            infos[i] = {
                "elapsed_s": float(final["elapsed_s"][i]),
                "terminal_observation": info["final_obs"][i],
                "TimeLimit.truncated": bool(truncated[i] and not terminated[i]),
                "episode": {
                    "r": float(self._returns[i]),
                    "l": int(self._lengths[i]),
                    "t": round(time.monotonic() - self._since, 6),
                },
                "scores": scores,
                **({"credit": final["credit"][i]} if "credit" in final else {}),
            }
            self._returns[i], self._lengths[i] = 0, 0
        return observations, rewards, dones, infos

    def close(self) -> None:
        """Nothing is open."""

    def action_masks(self) -> np.ndarray:
        """[envs, instances] bool, True where the instance may be chosen."""
        return self.envs.action_masks()

    def has_attr(self, attr_name: str) -> bool:
        """Whether the environments have an attribute (sb3-contrib asks for ``action_masks``)."""
        return attr_name == "action_masks" or hasattr(self.envs, attr_name)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the vector environment, once for each of `indices`."""
        return [getattr(self.envs, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the vector environment, for all."""
        setattr(self.envs, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """``action_masks`` of some environments; they have no other method of their own."""
        if method_name != "action_masks":
            raise SmetricError(f"env_method is {method_name!r}, allowed: action_masks")
        masks = self.action_masks()
        return [masks[i] for i in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """``[False, ...]``, except that episodes are counted as a Monitor does."""
        counted = wrapper_class.__name__ == "Monitor"
        return [counted] * len(list(self._get_indices(indices)))

    def get_images(self) -> Sequence[np.ndarray | None]:
        """No pictures: make a single environment for them."""
        return [None] * self.num_envs
