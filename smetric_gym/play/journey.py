"""The path of one session over the instances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.play.recording import Recording
from smetric_gym.play.why import reason_words
from smetric_gym.play.words import count


class Stop(NamedTuple):
    """One request of a session; times in s, nan for what never happened."""

    request: int
    turn: int
    instance: int
    arrival_s: float
    first_token_s: float
    finish_s: float
    prompt: int
    local: int
    fetched: int
    ttft_limit_s: float
    within_slo: bool
    why: str

    @property
    def ttft_s(self) -> float:
        """Time to the first token in s."""
        return self.first_token_s - self.arrival_s


def journey(recording: Recording, request: int) -> list[Stop]:
    """Every request of the session of `request` that arrived, in order."""
    trace, scored = recording.setup.trace, recording.scored
    if not 0 <= request < len(trace):
        raise SmetricError(f"request {request} does not exist, allowed: 0 to {len(trace) - 1}")
    rows, out = trace.requests, scored.all
    mine = np.flatnonzero((rows["session"] == rows["session"][request]) & np.isfinite(out["arrival_s"]))
    mine = mine[np.argsort(out["arrival_s"][mine], kind="stable")]
    met = recording.met
    return [
        Stop(
            request=int(r),
            turn=int(rows["turn"][r]),
            instance=int(out["instance"][r]),
            arrival_s=float(out["arrival_s"][r]),
            first_token_s=float(out["first_token_s"][r]),
            finish_s=float(out["finish_s"][r]),
            prompt=int(rows["prompt"][r]),
            local=int(out["local_hit_tokens"][r]),
            fetched=int(out["global_hit_tokens"][r]),
            ttft_limit_s=float(scored.slo.ttft_limit_s(rows["prompt"][r])),
            within_slo=bool(met[r]),
            why=reason_words(int(out["reason"][r])),
        )
        for r in mine
    ]


def told(recording: Recording, stops: list[Stop]) -> str:
    """The path in one sentence."""
    if not stops:
        return f"{recording.label}: no request of this session arrived."
    places = [stop.instance for stop in stops]
    moves = sum(a != b for a, b in zip(places, places[1:], strict=False))
    late = sum(not stop.within_slo for stop in stops)
    prompt = sum(stop.prompt for stop in stops)
    local = 100 * sum(stop.local for stop in stops) / prompt
    return (
        f"{recording.label}: {count(len(stops), 'request')} on {count(len(set(places)), 'instance')}, "
        f"{count(moves, 'move')}, {local:.0f} % of the prompt tokens found in place, {late or 'none'} missed the SLO."
    )
