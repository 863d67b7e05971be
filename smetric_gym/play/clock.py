"""The clock of the page: one time for both runs, and the ways to move it."""

from __future__ import annotations

from collections.abc import Sequence

from smetric_gym.play.recording import Recording


class Clock:
    """A time in s that stays inside the runs it is shown for.

    Until somebody moves it, it stands at the worst moment of the first run.

    Attributes:
        time_s: s.
    """

    def __init__(self) -> None:
        self.time_s, self.end_s = 0.0, 0.0
        self._pair: Sequence[Recording] = ()
        self._moved = False

    def follow(self, pair: Sequence[Recording]) -> Clock:
        """Show these runs from now on; returns the clock itself."""
        self._pair = pair
        self.end_s = min(float(run.times_s[-1]) for run in pair)
        self.time_s = self._inside(self.time_s if self._moved else pair[0].worst_s)
        return self

    def go(self, time_s: float) -> None:
        """To a time."""
        self._moved = True
        self.time_s = self._inside(time_s)

    def forward(self, seconds: float) -> None:
        """On by some seconds, back if negative."""
        self.go(self.time_s + seconds)

    def step(self) -> None:
        """To the next decision of any run."""
        later = [run.times_s[run.times_s > self.time_s + 1e-9] for run in self._pair]
        times = [float(after[0]) for after in later if len(after)]
        self.go(min(times, default=self.end_s))

    def worst(self, k: int) -> None:
        """To the worst moment of run `k`."""
        self.go(self._pair[k].worst_s)

    @property
    def ended(self) -> bool:
        """True at the last decision."""
        return self.time_s >= self.end_s

    def _inside(self, time_s: float) -> float:
        return min(max(time_s, 0.0), self.end_s)
