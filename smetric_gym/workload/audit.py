"""What a workload is like, in numbers and words: figures 5 and 9 of the SMetric paper for any trace."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.workload.audit_kernel import interval_edges, least_in_flight, reuse_intervals, session_reach
from smetric_gym.workload.audit_words import sentences
from smetric_gym.workload.trace import Trace, Trigger

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
    "balanced_max_over_mean": ("max/mean in-flight tokens under least in-flight, median minute", "ratio"),
    "balanced_max_over_mean_worst": (
        "max/mean in-flight tokens under least in-flight, worst minute",
        "ratio",
    ),
}
"""Every number of an audit: its label and unit. A quantity that the trace cannot give is absent, never 0."""

MINUTE = np.dtype(
    [
        ("start_s", "f8"),
        ("requests", "i8"),
        ("prompt", "i8"),
        ("system", "i8"),
        ("same", "i8"),
        ("other", "i8"),
    ]
)
WINDOW_S = 60.0


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
        minutes: dtype ``MINUTE``, every minute of the trace, warm-up included: requests and tokens (prompt; reused in
            the system region, from the same session, from others).
        interval_edges_s: [bins + 1] s.
        interval_tokens: [bins] reused tokens by the time since their last use.
        lorenz: [101] share of tokens in the largest 0, 1 .. 100 % of the sessions.
        turns: [sessions] requests of each session in the trace.
        balance: [minutes] max/mean in-flight tokens of each scored full minute, empty without ``instances``.
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
        return [
            (*QUANTITIES[k][:1], self.values[k], QUANTITIES[k][1]) for k in QUANTITIES if k in self.values
        ]

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
            f"audit: warm_up_s is {warm_up_s}, allowed: at most {float(r['arrival'].max()):g} s, the last arrival of {trace.name}"
        )
    hit = trace.ideal_hit_tokens(block)
    reach = _session_reach(trace)
    system = np.minimum(hit, r["system"])
    same = np.maximum(np.minimum(hit, reach) - system, 0)
    values = _rates(r, scored, warm_up_s, instances) | _shape(r, scored, trace.has_gaps)
    lorenz, turns = _sessions(r, scored, values)
    edges, tokens = interval_edges(), np.zeros(0, dtype=np.int64)
    if trace.has_content:
        n = trace.nodes
        tokens = reuse_intervals(
            _column(r, "arrival"), _column(r, "node"), hit, _column(n, "parent"), _column(n, "start"),
            _column(n, "end"), scored, edges,
        )  # fmt: skip
        values |= _reuse(r, scored, hit, reach, system, same) | _intervals(edges, tokens)
    balance = np.zeros(0)
    if instances is not None:
        balance = _balance(trace, hit, instances, warm_up_s)
        if len(balance):
            values["balanced_max_over_mean"] = float(np.median(balance))
            values["balanced_max_over_mean_worst"] = float(balance.max())
    return Audit(
        name=trace.name, block=block, instances=instances, warm_up_s=warm_up_s, has_content=trace.has_content,
        values=values, minutes=_minutes(r, hit, system, same), interval_edges_s=edges, interval_tokens=tokens,
        lorenz=lorenz, turns=turns, balance=balance,
    )  # fmt: skip


def _column(array: np.ndarray, name: str) -> np.ndarray:
    return np.ascontiguousarray(array[name])


def _session_reach(trace: Trace) -> np.ndarray:
    r, n = trace.requests, trace.nodes
    order = np.argsort(r["session"], kind="stable")
    columns = (
        _column(r, "node"),
        _column(r, "prompt"),
        _column(r, "session"),
        _column(n, "parent"),
        _column(n, "end"),
    )
    return session_reach(*columns, order)


def _rates(r: np.ndarray, scored: np.ndarray, warm_up_s: float, instances: int | None) -> dict[str, float]:
    arrival = r["arrival"][scored]
    start = max(warm_up_s, float(arrival[0])) if warm_up_s == 0 else warm_up_s
    span = float(arrival[-1]) - start
    values = {"requests": int(scored.sum()), "sessions": len(np.unique(r["session"][scored])), "span_s": span}
    if span > 0:
        values["requests_per_minute"] = len(arrival) / span * 60
    if span >= WINDOW_S:
        edges = start + WINDOW_S * np.arange(int(span // WINDOW_S) + 1)
        values["requests_per_minute_min"] = float(np.histogram(arrival, edges)[0].min())
    if instances is not None:
        for name in ("requests_per_minute", "requests_per_minute_min"):
            if name in values:
                values[name.replace("minute", "minute_per_instance")] = values[name] / instances
    return values


def _shape(r: np.ndarray, scored: np.ndarray, has_gaps: bool) -> dict[str, float]:
    s = r[scored]
    values: dict[str, float] = {}
    for name in ("prompt", "output"):
        values[f"{name}_mean"] = float(s[name].mean())
        for level in (50, 90, 99):
            values[f"{name}_p{level}"] = float(np.quantile(s[name], level / 100))
    gaps = s["gap"][s["parent"] >= 0]
    if has_gaps and len(gaps):
        values["gap_p50_s"], values["gap_p90_s"] = (float(np.quantile(gaps, q)) for q in (0.5, 0.9))
    values["first_turns"] = float((s["turn"] == 0).mean())
    values["without_history"] = float((s["messages"] == 0).mean())
    if (r["trigger"] != Trigger.UNKNOWN).any():
        values["tool_triggered"] = float(np.isin(s["trigger"], (Trigger.TOOL, Trigger.SPAWN)).mean())
    return values


def _sessions(r: np.ndarray, scored: np.ndarray, values: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Lorenz curve of scored tokens and turns of every session in the trace; adds their numbers to ``values``."""
    turns = np.bincount(r["session"])
    turns = turns[turns > 0]
    values["turns_mean"] = float(turns.mean())
    values["turns_p50"], values["turns_p90"] = (float(np.quantile(turns, q)) for q in (0.5, 0.9))
    values["single_turn_sessions"] = float((turns == 1).mean())
    tokens = np.bincount(r["session"][scored], weights=(r["prompt"].astype(np.int64) + r["output"])[scored])
    tokens = np.sort(tokens[tokens > 0])[::-1]
    held = np.append(0.0, np.cumsum(tokens)) / tokens.sum()
    lorenz = np.interp(np.linspace(0, 1, 101), np.linspace(0, 1, len(held)), held)
    for percent in (1, 5, 10, 25, 50):
        values[f"top_{percent}pct_sessions"] = float(lorenz[percent])
    return lorenz, turns


def _reuse(r, scored, hit, reach, system, same) -> dict[str, float]:
    total = int(hit[scored].sum())
    prompt = int(r["prompt"][scored].sum(dtype=np.int64))
    values = {"ideal_reuse": total / prompt}
    if total:
        session = np.minimum(hit, reach)
        late_system = np.maximum(system - session, 0)
        parts = {
            "system_share": system,
            "same_session_share": same,
            "other_sessions_share": hit - system - same,
            "same_session_first_share": session,
            "system_after_session_share": late_system,
            "other_after_session_share": hit - session - late_system,
        }
        values |= {name: int(part[scored].sum()) / total for name, part in parts.items()}
    length = r["prompt"].astype(np.int64) + r["output"]
    before = np.zeros(len(r), dtype=np.int64)
    order = np.argsort(r["session"], kind="stable")
    follows = r["session"][order[1:]] == r["session"][order[:-1]]
    before[order[1:][follows]] = length[order[:-1][follows]]
    follow = scored & (before > 0)
    if follow.any():
        values["history_kept"] = float((reach[follow] >= 0.9 * before[follow]).mean())
    new = r["prompt"] - hit
    if new[scored].sum() > 0:
        values["new_tokens_first"] = float(new[scored & (r["messages"] == 0)].sum() / new[scored].sum())
    return values


def _intervals(edges: np.ndarray, tokens: np.ndarray) -> dict[str, float]:
    total = tokens.sum()
    if total == 0:
        return {}
    held = np.cumsum(tokens) / total
    within = np.searchsorted(edges, 100.0 * (1 + 1e-9)) - 1  # bins that end at 100 s or earlier
    return {
        "reuse_within_100s": float(held[within - 1]),
        "reuse_interval_p50_s": float(edges[np.searchsorted(held, 0.5) + 1]),
        "reuse_interval_p90_s": float(edges[np.searchsorted(held, 0.9) + 1]),
    }


def recorded_durations(trace: Trace, hit: np.ndarray) -> np.ndarray:
    """Seconds from sending a request to its completion, as recorded.

    Where a request released another, the time between them less the gap. Elsewhere the least-squares line through those
    in new prompt tokens and output tokens; without recorded gaps 0.5 s + 0.12 ms per new token + 20 ms per output token.
    """
    r = trace.requests
    known = np.full(len(r), np.inf)
    if trace.has_gaps:
        child = np.flatnonzero(r["parent"] >= 0)
        parent = r["parent"][child]
        np.minimum.at(known, parent, r["arrival"][child] - r["gap"][child] - r["arrival"][parent])
    features = np.stack([np.ones(len(r)), r["prompt"] - hit, r["output"]], axis=1).astype(np.float64)
    sure = np.isfinite(known) & (known >= 0)
    line = np.array([0.5, 1.2e-4, 0.02])
    if sure.sum() >= 16:
        line = np.linalg.lstsq(features[sure], known[sure], rcond=None)[0]
    return np.where(sure, known, np.maximum(features @ line, 0.05))


def _balance(trace: Trace, hit: np.ndarray, instances: int, warm_up_s: float) -> np.ndarray:
    r = trace.requests
    windows = int(r["arrival"][-1] // WINDOW_S)
    if windows < 1:
        return np.zeros(0)
    tokens = r["prompt"].astype(np.int64) + r["output"]
    durations = recorded_durations(trace, hit)
    load = least_in_flight(_column(r, "arrival"), tokens, durations, instances, WINDOW_S, windows + 1)[
        :windows
    ]
    load = load[int(np.ceil(warm_up_s / WINDOW_S)) :]
    load = load[load.sum(axis=1) > 0]
    return load.max(axis=1) / load.mean(axis=1)


def _minutes(r: np.ndarray, hit: np.ndarray, system: np.ndarray, same: np.ndarray) -> np.ndarray:
    minute = (r["arrival"] // WINDOW_S).astype(np.int64)
    out = np.zeros(int(minute.max()) + 1, dtype=MINUTE)
    out["start_s"] = WINDOW_S * np.arange(len(out))
    out["requests"] = np.bincount(minute, minlength=len(out))
    for name, tokens in (
        ("prompt", r["prompt"]),
        ("system", system),
        ("same", same),
        ("other", hit - system - same),
    ):
        out[name] = np.bincount(minute, weights=tokens, minlength=len(out)).astype(np.int64)
    return out
