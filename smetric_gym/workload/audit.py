"""What a workload is like, in numbers and words: figures 5 and 9 of the SMetric paper for any trace."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.workload.audit_kernel import interval_edges, reuse_intervals
from smetric_gym.workload.audit_numbers import (
    balance_per_minute,
    column,
    interval_quantiles,
    lengths_and_triggers,
    per_minute,
    rates,
    reach_in_session,
    reuse_split,
    skew,
)
from smetric_gym.workload.audit_words import sentences
from smetric_gym.workload.trace import Trace

QUANTITIES: dict[str, tuple[str, str]] = {
    "requests": ("requests scored", "requests"),
    "sessions": ("sessions with a scored request", "sessions"),
    "span_s": ("scored time", "s"),
    "requests_per_minute": ("requests per minute, mean", "1/min"),
    "requests_per_minute_min": ("requests per minute, lowest full minute", "1/min"),
    "requests_per_minute_per_instance": ("requests per minute per instance, mean", "1/min"),
    "requests_per_minute_per_instance_min": ("requests per minute per instance, lowest full minute", "1/min"),
    "prompt_mean": ("prompt, mean", "tokens"),
    "prompt_p50": ("prompt, p50", "tokens"),
    "prompt_p90": ("prompt, p90", "tokens"),
    "prompt_p99": ("prompt, p99", "tokens"),
    "output_mean": ("output, mean", "tokens"),
    "output_p50": ("output, p50", "tokens"),
    "output_p90": ("output, p90", "tokens"),
    "output_p99": ("output, p99", "tokens"),
    "gap_p50_s": ("gap after the completion of the parent, p50", "s"),
    "gap_p90_s": ("gap after the completion of the parent, p90", "s"),
    "turns_mean": ("turns per session in the trace, mean", "turns"),
    "turns_p50": ("turns per session in the trace, p50", "turns"),
    "turns_p90": ("turns per session in the trace, p90", "turns"),
    "single_turn_sessions": ("sessions with one request in the trace", "fraction"),
    "first_turns": ("first turns (turn 0) among requests", "fraction"),
    "without_history": ("requests without carried history among requests", "fraction"),
    "tool_triggered": ("requests triggered by a tool or an agent", "fraction"),
    "top_1pct_sessions": ("tokens in the 1 % largest sessions", "fraction"),
    "top_5pct_sessions": ("tokens in the 5 % largest sessions", "fraction"),
    "top_10pct_sessions": ("tokens in the 10 % largest sessions", "fraction"),
    "top_25pct_sessions": ("tokens in the 25 % largest sessions", "fraction"),
    "top_50pct_sessions": ("tokens in the 50 % largest sessions", "fraction"),
    "ideal_reuse": ("prompt tokens that an infinite store holds", "fraction"),
    "system_share": ("of the reuse: system prompt region", "fraction"),
    "same_session_share": ("of the reuse: same session, past the system region", "fraction"),
    "other_sessions_share": ("of the reuse: other sessions, past the system region", "fraction"),
    "same_session_first_share": ("of the reuse, session first: same session", "fraction"),
    "system_after_session_share": ("of the reuse, session first: system region", "fraction"),
    "other_after_session_share": ("of the reuse, session first: other sessions", "fraction"),
    "reuse_within_100s": ("of the reuse: used within the last 100 s", "fraction"),
    "reuse_interval_p50_s": ("time since the last use of reused tokens, p50", "s"),
    "reuse_interval_p90_s": ("time since the last use of reused tokens, p90", "s"),
    "history_kept": ("follow-ups that reuse 90 % of the session before them", "fraction"),
    "new_tokens_first": ("of the new tokens: in requests without carried history", "fraction"),
    "in_flight_max_over_mean": ("least in-flight: max/mean tokens in flight, median minute", "ratio"),
    "in_flight_max_over_mean_worst": ("least in-flight: max/mean tokens in flight, worst minute", "ratio"),
    "sent_max_over_mean": ("least in-flight: max/mean tokens sent, median minute", "ratio"),
    "sent_max_over_mean_worst": ("least in-flight: max/mean tokens sent, worst minute", "ratio"),
}
"""Every number of an audit: its label and unit. A quantity that the trace cannot give is absent, never 0."""


@dataclass(frozen=True)
class Audit:
    """Measurements of one trace.

    Attributes:
        name: name of the trace.
        block: tokens; reuse counts full blocks only.
        instances: instances that rates and balance are for, or None.
        warm_up_s: s; requests that arrive earlier fill the store and are not scored.
        has_content: False when the trace has lengths only, so that nothing can be said of reuse.
        values: the numbers, by the keys of ``QUANTITIES``.
        minutes: dtype ``audit_numbers.MINUTE``, every minute of the trace, warm-up included: requests,
            tokens (prompt; reused in the system region, from the same session, from others).
        interval_edges_s: [bins + 1] s.
        interval_tokens: [bins] reused tokens by the time since their last use.
        lorenz: [101] share of tokens in the largest 0, 1 .. 100 % of the sessions.
        turns: [sessions] requests of each session in the trace.
        balance: [minutes, 2] max/mean of the tokens in flight and of those sent, in each scored full minute,
            under least in-flight tokens; empty without ``instances``.
    """

    name: str
    block: int
    instances: int | None
    warm_up_s: float
    has_content: bool
    values: dict[str, float]
    minutes: np.ndarray = field(repr=False)
    interval_edges_s: np.ndarray = field(repr=False)
    interval_tokens: np.ndarray = field(repr=False)
    lorenz: np.ndarray = field(repr=False)
    turns: np.ndarray = field(repr=False)
    balance: np.ndarray = field(repr=False)

    def __getitem__(self, key: str) -> float:
        return self.values[key]

    def rows(self) -> list[tuple[str, float, str]]:
        """Label, value and unit of every number, in a fixed order."""
        return [(label, self.values[k], unit) for k, (label, unit) in QUANTITIES.items() if k in self.values]

    def as_dict(self) -> dict[str, object]:
        """Everything but the curves, ready for JSON: plain numbers with labels and units."""
        return {
            "name": self.name,
            "block_tokens": self.block,
            "instances": self.instances,
            "warm_up_s": self.warm_up_s,
            "has_content": self.has_content,
            "numbers": {
                k: {"value": self.values[k], "unit": unit, "label": label}
                for k, (label, unit) in QUANTITIES.items()
                if k in self.values
            },
            "words": self.words(),
        }

    def words(self) -> list[str]:
        """Which of SMetric's assumptions the workload meets, one sentence each, with the number."""
        return sentences(self.values, self.has_content)


def audit(trace: Trace, *, block: int = 16, instances: int | None = None, warm_up_s: float = 0.0) -> Audit:
    """Measure a trace.

    Args:
        trace: any workload.
        block: tokens; reuse counts full blocks only, as a cache would.
        instances: serving instances, for rates per instance and for the balance; None leaves these out.
        warm_up_s: s from time 0; earlier requests fill the infinite store and are not scored.

    Raises:
        SmetricError: a value out of range, or a warm-up that leaves nothing to score.
    """
    if block < 1 or (instances is not None and instances < 1):
        raise SmetricError(f"audit: block is {block} and instances is {instances}, allowed: 1 or more")
    r = trace.requests
    scored = r["arrival"] >= warm_up_s
    if not scored.any():
        raise SmetricError(
            f"audit: warm_up_s is {warm_up_s}, allowed: at most {float(r['arrival'][-1]):g} s, "
            f"the last arrival of {trace.name}"
        )
    hit = trace.ideal_hit_tokens(block)
    reach = reach_in_session(trace)
    system = np.minimum(hit, r["system"])
    same = np.maximum(np.minimum(hit, reach) - system, 0)
    values = rates(r, scored, warm_up_s, instances) | lengths_and_triggers(r, scored, trace.has_gaps)
    lorenz, turns = skew(r, scored, values)
    edges, tokens = interval_edges(), np.zeros(0, dtype=np.int64)
    if trace.has_content:
        n = trace.nodes
        tokens = reuse_intervals(
            column(r, "arrival"), column(r, "node"), hit, column(n, "parent"), column(n, "start"),
            column(n, "end"), scored, edges,
        )  # fmt: skip
        values |= reuse_split(r, scored, hit, reach, system, same) | interval_quantiles(edges, tokens)
    balance = np.zeros((0, 2))
    if instances is not None:
        balance = balance_per_minute(trace, hit, instances, warm_up_s)
        for ratio, name in zip(balance.T, ("in_flight", "sent"), strict=True):
            if np.isfinite(ratio).any():
                values[f"{name}_max_over_mean"] = float(np.nanmedian(ratio))
                values[f"{name}_max_over_mean_worst"] = float(np.nanmax(ratio))
    return Audit(
        name=trace.name, block=block, instances=instances, warm_up_s=warm_up_s, has_content=trace.has_content,
        values=values, minutes=per_minute(r, hit, system, same), interval_edges_s=edges,
        interval_tokens=tokens,
        lorenz=lorenz, turns=turns, balance=balance,
    )  # fmt: skip
