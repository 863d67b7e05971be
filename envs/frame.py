"""What a picture of the cluster shows, as plain values and words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Frame:
    """What a picture shows.

    Attributes:
        title: name of the environment and of the workload.
        view: [instances] ``cluster.VIEW``, with attribute access.
        request: the waiting request, a ``REQUEST_VIEW`` record; None once the episode is over.
        number: index of that request in the trace.
        chosen: instance of the last decision, -1 before the first.
        now_s: simulated time in s.
        warm_up_s: s before the scored window.
        end_s: s, end of the scored window.
        ended: scored requests that have ended.
        within_slo: of these, requests that met both limits.
        goodput_per_s: tokens of these per second of the scored window so far.
    """

    title: str
    view: np.recarray
    request: np.record | None
    number: int
    chosen: int
    now_s: float
    warm_up_s: float
    end_s: float
    ended: int
    within_slo: int
    goodput_per_s: float

    @property
    def hits(self) -> np.ndarray:
        """[instances] share of the waiting request's prompt that each instance has cached, 0..1."""
        if self.request is None:
            return np.zeros(len(self.view))
        return self.view.local_hit_tokens / float(self.request.prompt_tokens)

    @property
    def best_hits(self) -> np.ndarray:
        """[instances] bool, True where the most is cached (nowhere when nothing is)."""
        hits = self.hits
        return (hits > 0) & (hits == hits.max())

    def clock(self) -> str:
        """Where the episode is."""
        if self.request is None:
            return f"t = {self.now_s:,.1f} s · over"
        phase = "warm-up" if self.now_s < self.warm_up_s else "scored"
        return f"t = {self.now_s:,.1f} of {self.end_s:,.0f} s · {phase}"

    def score(self) -> str:
        """How well it goes."""
        if not self.ended:
            return "SLO met: no scored request has ended yet"
        share = 100 * self.within_slo / self.ended
        return (
            f"SLO met: {share:.1f} % of {self.ended:,} ended · {self.goodput_per_s:,.0f} tokens/s within it"
        )

    def asks(self) -> tuple[str, str]:
        """Who waits: two lines."""
        r = self.request
        if r is None:
            return "No request waits", "the cluster has served everything that arrived"
        kind = "first turn" if r.messages == 0 else f"turn {int(r.turn)} of session {int(r.session)}"
        return (
            f"Request {self.number:,} waits: {int(r.prompt_tokens):,} prompt tokens, {kind}",
            f"history {int(r.history_tokens):,} · global tier {int(r.global_hit_tokens):,} · "
            f"best local hit {int(self.view.local_hit_tokens.max()):,} · "
            f"first token due in {float(r.ttft_limit_s):.2f} s",
        )
