"""How each number of the audit is measured: one function per question, one definition per number."""

from __future__ import annotations

import numpy as np

from smetric_gym.workload.audit_kernel import least_in_flight, session_reach
from smetric_gym.workload.trace import Trace, Trigger

MINUTE = np.dtype(
    [("start_s", "f8"), *((n, "i8") for n in ("requests", "prompt", "system", "same", "other"))]
)
WINDOW_S = 60.0


def column(array: np.ndarray, name: str) -> np.ndarray:
    """One field of a structured array as an array of its own, as compiled loops want it."""
    return np.ascontiguousarray(array[name])


def reach_in_session(trace: Trace) -> np.ndarray:
    """[requests] leading prompt tokens that the request's own session has sent or received before."""
    r, n = trace.requests, trace.nodes
    order = np.argsort(r["session"], kind="stable")
    of_requests = (column(r, "node"), column(r, "prompt"), column(r, "session"))
    return session_reach(*of_requests, column(n, "parent"), column(n, "end"), order)


def rates(r: np.ndarray, scored: np.ndarray, warm_up_s: float, instances: int | None) -> dict[str, float]:
    """Requests per minute over the scored time, and in its lowest full minute."""
    arrival = r["arrival"][scored]
    start = warm_up_s if warm_up_s > 0 else float(arrival[0])
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


def lengths_and_triggers(r: np.ndarray, scored: np.ndarray, has_gaps: bool) -> dict[str, float]:
    """Lengths, gaps, and what the scored requests are: first turns, without history, triggered by tools."""
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


def skew(r: np.ndarray, scored: np.ndarray, values: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Lorenz curve of the scored tokens and turns of every session; adds their numbers to ``values``."""
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


def reuse_split(
    r: np.ndarray,
    scored: np.ndarray,
    hit: np.ndarray,
    reach: np.ndarray,
    system: np.ndarray,
    same: np.ndarray,
) -> dict[str, float]:
    """Ideal reuse and whose it is, under both splits; are histories kept; where are new tokens.

    By region (the paper's figure 5, as far as its text says): tokens inside the system prompt are the
    system's whoever used them last, the rest are the session's own if it had them before, else others'.
    Session first: tokens that the session had before are its own, the system prompt included.
    """
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


def interval_quantiles(edges: np.ndarray, tokens: np.ndarray) -> dict[str, float]:
    """Numbers of the histogram of reuse intervals, to its resolution of 1.2 %."""
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

    Where a request released another, the time between them less the gap. Elsewhere the least-squares line
    through those in new prompt tokens and output tokens; without recorded gaps 0.5 s + 0.12 ms per new token
    + 20 ms per output token.
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


def balance_per_minute(trace: Trace, hit: np.ndarray, instances: int, warm_up_s: float) -> np.ndarray:
    """Max/mean over instances in each full scored minute, under plain balancing (the paper's figure 9).

    Each request goes to the instance with the fewest tokens in flight and stays for its recorded duration.
    The paper does not say which load it divides, so both are measured.

    Returns:
        [minutes, 2] of the tokens in flight (averaged over the minute) and of the tokens sent in it; NaN
        where there are none.
    """
    r = trace.requests
    windows = int(r["arrival"][-1] // WINDOW_S)
    tokens = r["prompt"].astype(np.int64) + r["output"]
    durations = recorded_durations(trace, hit)
    loads = least_in_flight(column(r, "arrival"), tokens, durations, instances, WINDOW_S, windows)
    ratios = np.full((windows, 2), np.nan)
    for ratio, load in zip(ratios.T, loads, strict=True):
        busy = load.sum(axis=1) > 0
        ratio[busy] = load[busy].max(axis=1) / load[busy].mean(axis=1)
    return ratios[int(np.ceil(warm_up_s / WINDOW_S)) :]


def per_minute(r: np.ndarray, hit: np.ndarray, system: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Dtype ``MINUTE``: requests, prompt tokens and reused tokens of each minute from time 0."""
    minute = (r["arrival"] // WINDOW_S).astype(np.int64)
    out = np.zeros(int(minute.max()) + 1, dtype=MINUTE)
    out["start_s"] = WINDOW_S * np.arange(len(out))
    out["requests"] = np.bincount(minute, minlength=len(out))
    of = {"prompt": r["prompt"], "system": system, "same": same, "other": hit - system - same}
    for name, tokens in of.items():
        out[name] = np.bincount(minute, weights=tokens, minlength=len(out)).astype(np.int64)
    return out
