"""Be the router: a short game on a small cluster, scored against policies on the same sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from smetric_gym.agents.policy import Policy
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import Setup, prepare
from smetric_gym.experiment.prepare import policy as policy_of
from smetric_gym.experiment.settings import choices
from smetric_gym.play.moment import Moment, owners
from smetric_gym.play.recording import Driver
from smetric_gym.play.scenario import Router, Scenario
from smetric_gym.play.words import count
from smetric_gym.scoring import Scores

GUIDE = "smetric"
"""The policy that fills the caches before the game begins, plays when asked, and gives hints."""
RIVALS = ("smetric", "lmetric", "load_balance", "learned")
"""Who is scored beside the player; those that are not installed are left out."""
OBVIOUS_TOKENS = 1000
"""A cache that holds no more than this beyond that of a less loaded instance is no dilemma."""


class Move(NamedTuple):
    """One decision of the game."""

    request: int
    instance: int
    guide: int
    """what the guide would have chosen"""
    own: bool
    """taken by the player"""


class Standing(NamedTuple):
    """What one router reached."""

    who: str
    tps_within_slo: float
    slo_attainment: float
    ttft_p50_s: float
    local_hit_ratio: float


@dataclass(frozen=True)
class GameSize:
    """How large a game is.

    Attributes:
        instances: to choose from.
        load: multiple of the workload's own rate.
        warm_up_s: s that the guide plays, so that the caches are full.
        length_s: s of arrivals that the player routes, all of them scored.
    """

    instances: int = 4
    load: float = 1.5
    warm_up_s: float = 240.0
    length_s: float = 90.0

    def scenario(self, seed: int) -> Scenario:
        """The scenario of one game."""
        return Scenario(
            instances=self.instances, load=self.load, warm_up_s=self.warm_up_s, window_s=self.length_s, seed=seed
        )


class Game:
    """One game; it stands at a request for which the player must choose, or it is over.

    Requests for which the most cached instance is also a least loaded one are sent there without asking: the
    game is about the others.

    Args:
        seed: of the sessions.
        size: how large it is.

    Attributes:
        moves: all decisions since the game began.

    Example:
        >>> game = Game(seed=0)                          # doctest: +SKIP
        >>> while not game.over:                         # doctest: +SKIP
        ...     game.pick(int(game.moment().view.in_flight.argmin()))
        >>> game.standings()                             # doctest: +SKIP
    """

    def __init__(self, seed: int = 0, size: GameSize | None = None) -> None:
        self.seed, self.size = seed, size or GameSize()
        scenario = self.size.scenario(seed)
        self.setup: Setup = prepare(scenario.settings(Router(GUIDE)))
        self._owners = owners(self.setup.trace)
        self._cluster = self.setup.cluster()
        self._guide = Driver(self._policy(GUIDE), self.setup.trace.sessions, seed)
        self.moves: list[Move] = []
        more = self._cluster.advance()
        while more and self._cluster.now_s < self.size.warm_up_s:
            more = self._cluster.step(*self._guide.choose(self._cluster))
        self.over = not more
        self._start = self._cluster.snapshot(), self._guide.memory.copy()
        self._hint = -1
        self._settle()

    # -- playing

    def moment(self) -> Moment:
        """What the router sees, and the cluster behind it."""
        if self.over:
            raise SmetricError("the game is over, so no request waits for a decision")
        return Moment.of(self._cluster, self._owners, self._guide.memory)

    @property
    def hint(self) -> int:
        """The instance that the guide would choose now."""
        return self._hint

    @property
    def left_s(self) -> float:
        """Time in which requests still arrive, in s."""
        return max(0.0, self.setup.warm_up_s + self.setup.window_s - self._cluster.now_s)

    @property
    def own(self) -> list[Move]:
        """The decisions that the player took."""
        return [move for move in self.moves if move.own]

    def pick(self, instance: int) -> None:
        """The player's decision; runs to the next one.

        Raises:
            SmetricError: when the game is over or there is no such instance.
        """
        if self.over:
            raise SmetricError("the game is over, so no request waits for a decision")
        if not 0 <= instance < self.size.instances:
            raise SmetricError(f"instance {instance} does not exist, allowed: 0 to {self.size.instances - 1}")
        self._send(instance, own=True)
        self._settle()

    def autopilot(self, decisions: int | None = None) -> None:
        """The guide takes the next decisions that the player would be asked for, or all that are left."""
        left = decisions
        while not self.over and left != 0:
            self._send(self._hint, own=False)
            self._settle()
            left = None if left is None else left - 1

    def _settle(self) -> None:
        """Send the requests about which there is nothing to decide, up to one about which there is."""
        while not self.over:
            self._hint, _ = self._guide.choose(self._cluster)
            plain = obvious(self._cluster.view)
            if plain < 0:
                return
            self._send(plain, own=False)

    def _send(self, instance: int, own: bool) -> None:
        self.moves.append(Move(self._cluster.pending, instance, self._hint, own))
        self.over = not self._cluster.step(instance)

    # -- the end

    def standings(self) -> list[Standing]:
        """The player and the rivals on the same sessions from the same start, best first."""
        if not self.over:
            raise SmetricError("the game is not over: decide, or let the autopilot finish it")
        found = [standing("you", Scores.of(self.setup.scored(self._cluster)))]
        cluster = self.setup.cluster()
        for name in RIVALS:
            if name not in choices("policy"):
                continue
            try:
                policy = self._policy(name)
            except SmetricError:  # a learned policy without its extra or its file
                continue
            driver = Driver(policy, self.setup.trace.sessions, self.seed)
            if name == GUIDE:
                driver.memory[:] = self._start[1]
            cluster.restore(self._start[0])
            while cluster.step(*driver.choose(cluster)):
                pass
            found.append(standing(name, Scores.of(self.setup.scored(cluster))))
        return sorted(found, key=lambda s: -s.tps_within_slo)

    def verdict(self, table: list[Standing]) -> str:
        """How it went, in words; `table` is that of `standings`."""
        place, own = [row.who for row in table].index("you") + 1, self.own
        same = sum(move.instance == move.guide for move in own)
        decided = f"You took {count(len(own), 'decision')}, {same} of them as SMetric would have."
        if not own:
            decided = "The autopilot took every decision."
        ahead = "first" if place == 1 else f"number {place}"
        return f"{decided} You are {ahead} of {len(table)}. One short game says little about a router: play another."

    def _policy(self, name: str) -> Policy:
        return policy_of(self.size.scenario(self.seed).settings(Router(name)))


def obvious(view: np.recarray) -> int:
    """The instance on which cache and load agree, or -1 for a dilemma.

    Args:
        view: [instances] ``VIEW``.
    """
    alive = view.alive > 0
    least = alive & (view.in_flight == view.in_flight[alive].min())
    most = float(view.local_hit_tokens[alive].max())
    best = int(np.where(least, view.local_hit_tokens, -1).argmax())
    return best if most - float(view.local_hit_tokens[best]) <= OBVIOUS_TOKENS else -1


def standing(who: str, scores: Scores) -> Standing:
    """A row of the table."""
    return Standing(who, *(scores[name] for name in Standing._fields[1:]))
