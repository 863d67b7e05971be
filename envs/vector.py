"""Many environments in one: all clusters are stepped and read out in compiled code, without the GIL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from smetric_gym.cluster.cluster import Cluster
from smetric_gym.cluster.fleet import Fleet, Table
from smetric_gym.envs.contract import Contract, exhausted, first_info
from smetric_gym.envs.rewards import TERMS, credit_of
from smetric_gym.envs.scenario import Episode
from smetric_gym.envs.tally import choose, ended, read, read_many
from smetric_gym.errors import SmetricError
from smetric_gym.scoring import Scores


class VectorRoutingEnv(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """``num_envs`` environments in step; every argument that is not listed here is that of `ColocatedEnv`.

    It is equal to the last bit to a ``SyncVectorEnv`` of single environments, and several times faster. An
    environment that is done starts its next episode in the same step (``AutoresetMode.SAME_STEP``):
    ``info["final_obs"]`` and ``info["final_info"]`` tell of the end, with the scores; the observation and the mask
    are those of the new episode. ``reset(seed=s)`` seeds environment i with s + i // share.

    Args:
        num_envs: how many.
        share: so many neighbouring environments meet the same episodes (common random numbers): differences
            between them come from the actions alone. 1 for none; it divides `num_envs`.
        copy: False returns the arrays that the next step writes again: faster, and nothing of them can be kept.
        max_episode_steps: not taken, since an episode ends with its window (``gymnasium.make_vec`` passes None).

    Attributes:
        reasons: [envs] int64, why the next actions are chosen (``agents.memory.Reason``), for the scores that count
            reasons; a step sets them back to 0.
        rows: [envs, rows] int32, the instance that each row and action stand for, -1 for none; only to be read.

    Example:
        >>> envs = gymnasium.make_vec("smetric_gym:SMetric/Colocated-v0", num_envs=4, instances=8, window_s=60)
        >>> observations, info = envs.reset(seed=0)
        >>> observations.shape
        (4, 8, 21)
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
    default_cluster: ClassVar[str] = "colocated"
    disaggregated: ClassVar[bool] = False

    def __init__(
        self,
        num_envs: int = 1,
        *,
        share: int = 1,
        copy: bool = True,
        max_episode_steps: None = None,
        render_mode: None = None,
        **arguments: Any,
    ) -> None:
        for name, value in (("num_envs", num_envs), ("share", share)):
            if type(value) is not int or value < 1:
                raise SmetricError(f"{name} is {value!r}, allowed: a whole number, 1 or more")
        if num_envs % share:
            raise SmetricError(f"share is {share}, allowed: a divisor of num_envs, {num_envs}")
        for name, nothing in (("render_mode", render_mode), ("max_episode_steps", max_episode_steps)):
            if nothing is not None:
                raise SmetricError(f"{name} is {nothing!r}, allowed for a vector of environments: None")
        self._contract = contract = Contract(
            default_cluster=self.default_cluster,
            disaggregated=self.disaggregated,
            kept=2 * num_envs,
            **arguments,
        )
        self.num_envs, self.share, self.copy, self.reward = num_envs, share, copy, contract.payer.reward
        self.single_action_space, self.single_observation_space = contract.action_space, contract.observation_space
        self.action_space = batch_space(contract.action_space, num_envs)
        self.observation_space = batch_space(contract.observation_space, num_envs)
        self._random: list[np.random.Generator | None] = [None] * num_envs
        self._served: list[Episode | None] = [None] * num_envs
        self._fleet: Fleet | None = None
        self._tallies = Table(num_envs)
        rows, width = contract.observation_space.shape or (0, 0)
        self._observations = np.zeros((num_envs, rows, width), dtype=np.float32)
        self._read_into = self._observations if contract.columns else np.zeros((num_envs, rows, 0), dtype=np.float32)
        self._masks = np.ones((num_envs, rows), dtype=np.int8)
        self.rows = np.full((num_envs, rows), -1, dtype=np.int32)
        self._terms = np.zeros((num_envs, len(TERMS)))
        self._elapsed_s, self._rewards = np.zeros(num_envs), np.zeros(num_envs)
        self._choices, self.reasons = np.zeros(num_envs, dtype=np.int64), np.zeros(num_envs, dtype=np.int64)
        self._all, self._none = np.ones(num_envs, dtype=np.bool_), np.zeros(num_envs, dtype=np.bool_)
        self._read_many = read_many()

    # -- the Gymnasium interface

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode in every environment.

        Args:
            seed: of the first environment, the others follow (see `share`); or one for each; None goes on.
            options: as in `RoutingEnv.reset`, for all of them.

        Returns:
            [envs, rows, fields] float32, and ``info``: its values are arrays of one value for each environment.
        """
        self._seed(seed)
        begun = [self._begin(i, options) for i in range(self.num_envs)]
        self._fleet = Fleet(begun)
        infos: dict[str, Any] = {}
        for i in range(self.num_envs):
            infos = self._add_info(infos, self._read_first(i), i)
        return self._out(self._observations), infos

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Route the waiting request of every environment to the instance of its row.

        Args:
            actions: [envs] whole numbers.

        Returns:
            Observations, rewards (float64), terminated, truncated, and ``info``.

        Raises:
            SmetricError: naming the environment whose action is not allowed; nothing has been stepped then.
        """
        if self._fleet is None:
            raise SmetricError("step() was called and no request waits: call reset() first")
        fleet, payer, tallies = self._fleet, self._contract.payer, self._tallies
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,) or actions.dtype.kind not in "iu":
            raise SmetricError(
                f"actions are {actions.dtype} of shape {actions.shape}, "
                f"allowed: whole numbers of shape ({self.num_envs},)"
            )
        rows = actions.astype(np.int64)
        wrong = choose(rows, self._masks, self.rows, self._choices)
        if wrong >= 0:
            raise self._contract.wrong_action(rows[wrong].item(), self._masks[wrong], f"environment {wrong}: ")
        waiting = fleet.advance(self._choices, self.reasons)
        self.reasons[:] = 0
        self._read_many(
            tallies.like, tallies.addresses, tallies.lengths,
            waiting, self._masks, self._read_into, self._terms, self._elapsed_s,
        )  # fmt: skip
        if self._contract.features is not None:
            self._contract.features.observe_many(fleet.clusters, tallies, waiting, self._observations)
        info = self._step_info()
        if payer.wants_ended:
            self._look_at_ended(info)
        if payer.function is None:
            self._rewards[:] = payer.pay(self._terms)
        terminated, truncated = self._none.copy(), self._none.copy()
        for i in np.flatnonzero(~waiting).tolist():
            terminated[i] = exhausted(self._episode(i), fleet.clusters[i])
            truncated[i] = not terminated[i]
            info = self._end(i, info)
        return self._out(self._observations), self._rewards.copy(), terminated, truncated, info

    # -- beyond it

    @property
    def clusters(self) -> list[Cluster]:
        """The simulated clusters of the episodes under way."""
        return [] if self._fleet is None else self._fleet.clusters

    @property
    def trace_seeds(self) -> list[int]:
        """Seeds of the traces of the episodes under way."""
        return [self._episode(i).setup.seed for i in range(self.num_envs)]

    def action_masks(self) -> np.ndarray:
        """[envs, rows] bool, True where the instance may be chosen."""
        return self._masks.astype(np.bool_)

    # -- inside

    def _seed(self, seed: int | Sequence[int | None] | None) -> None:
        """Give environments the generators of their seeds; those without one go on, or begin with a random one."""
        if isinstance(seed, int | np.integer):
            seed = [int(seed) + i // self.share for i in range(self.num_envs)]
        elif seed is None:
            fresh = np.random.SeedSequence().generate_state(self.num_envs).tolist()
            seed = [fresh[i // self.share] if self._random[i] is None else None for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise SmetricError(f"seed has {len(seed)} values, allowed: one for each of {self.num_envs} environments")
        for i, value in enumerate(seed):
            if value is not None or self._random[i] is None:
                self._random[i] = np_random(value)[0]

    def _episode(self, i: int) -> Episode:
        episode = self._served[i]
        assert episode is not None
        return episode

    def _begin(self, i: int, options: dict[str, Any] | None) -> Cluster:
        random = self._random[i]
        assert random is not None
        self._served[i] = episode = self._contract.episode(random, options)
        cluster, tally = self._contract.begin(episode, random)
        self._tallies.put(i, tally)
        return cluster

    def _read_first(self, i: int) -> dict[str, Any]:
        """Read the first decision of an episode out; its info."""
        tally, features = self._tallies.kept[i], self._contract.features
        read(tally, True, self._masks[i], self._read_into[i], np.zeros(len(TERMS)))
        if features is not None:
            features.observe(self.clusters[i], tally.rows, self._observations[i])
        self.rows[i] = tally.rows
        return {"action_mask": self._masks[i].copy(), **first_info(self._episode(i))}

    def _step_info(self) -> dict[str, Any]:
        terms: dict[str, Any] = {}
        for name, place in self._contract.payer.terms:
            terms[name], terms[f"_{name}"] = self._terms[:, place].copy(), self._all.copy()
        return {
            "action_mask": self._masks.copy(),
            "_action_mask": self._all.copy(),
            "elapsed_s": self._elapsed_s.copy(),
            "_elapsed_s": self._all.copy(),
            "reward_terms": terms,
            "_reward_terms": self._all.copy(),
        }

    def _look_at_ended(self, info: dict[str, Any]) -> None:
        """Ask the reward function of the user, or put the credit into `info`, for each environment."""
        payer, credit = self._contract.payer, np.full(self.num_envs, None, dtype=object)
        for i, tally in enumerate(self._tallies.kept):
            rows = ended(tally)
            if payer.function is not None:
                self._rewards[i] = payer.ask(rows, float(self._elapsed_s[i]))
            else:
                credit[i] = credit_of(rows)
        if payer.credits:
            info["credit"], info["_credit"] = credit, self._all.copy()

    def _end(self, i: int, info: dict[str, Any]) -> dict[str, Any]:
        """Move what `info` says of environment i into its final info, and start its next episode."""
        assert self._fleet is not None
        final = {
            "action_mask": info["action_mask"][i].copy(),
            "elapsed_s": float(info["elapsed_s"][i]),
            "reward_terms": {name: float(self._terms[i, place]) for name, place in self._contract.payer.terms},
            **({"credit": info["credit"][i]} if "credit" in info else {}),
            "scores": Scores.of(self._episode(i).setup.scored(self.clusters[i])),
        }
        info = self._add_info(info, {"final_obs": self._observations[i].copy(), "final_info": final}, i)
        for name, nothing in (("elapsed_s", 0.0), ("credit", None)):
            if name in info:
                info[name][i], info[f"_{name}"][i] = nothing, False
        for name, _ in self._contract.payer.terms:
            info["reward_terms"][name][i], info["reward_terms"][f"_{name}"][i] = 0.0, False
        info["_reward_terms"][i] = False
        self._fleet.replace(i, self._begin(i, None))
        return self._add_info(info, self._read_first(i), i)

    def _out(self, array: np.ndarray) -> np.ndarray:
        return array.copy() if self.copy else array


class VectorColocatedEnv(VectorRoutingEnv):
    """``SMetric/Colocated-v0``, many at once."""


class VectorDisaggregatedEnv(VectorRoutingEnv):
    """``SMetric/Disaggregated-v0``, many at once."""

    default_cluster = "disaggregated"
    disaggregated = True
