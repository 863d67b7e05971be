"""Less of a trace: whole sessions, a window of time, a slower clock.

Load is scaled by sampling sessions or by stretching time, never by dropping requests of a session, which
destroys the reuse. Sampling sessions still thins the sharing between them (at 0.15 % nearly
nothing of it is left), so `sample_sessions` reports it before and after.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numba
import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.workload.trace import Trace
from smetric_gym.workload.tree import best_bases


def sample_sessions(trace: Trace, fraction: float, seed: int = 0) -> Trace:
    """Keep a random ``fraction`` of the sessions (at least one), each whole, at their recorded times.

    Returns:
        The smaller trace. Its report has the reuse (ideal, of all prompt tokens) and the part of it that
        only other sessions give, before and after.

    Raises:
        SmetricError: when the fraction is not in (0, 1], or the seed is negative.
    """
    _number("fraction", fraction, 0 < _finite(fraction) <= 1, "a number above 0, up to 1")
    _number("seed", seed, type(seed) is int and seed >= 0, "a whole number, 0 or more")
    count = max(1, round(fraction * trace.sessions))
    chosen = np.zeros(trace.sessions, dtype=bool)
    chosen[np.random.default_rng(seed).permutation(trace.sessions)[:count]] = True
    sampled = _keep(trace, chosen[trace.requests["session"]])
    for when, one in (("before sampling", trace), ("after sampling", sampled)):
        reuse, across = _reuse(one)
        sampled.report[f"reuse {when}"] = reuse
        sampled.report[f"reuse across sessions {when}"] = across
    sampled.report["sessions sampled"] = count
    return sampled


def window(trace: Trace, start: float, end: float) -> Trace:
    """Keep the requests that arrive in ``[start, end)`` s; times count from ``start``.

    Turns, messages and histories stay as recorded, so a session that began before is seen in the middle of
    its conversation. What only requests before the window held is not shared, and parents before it are
    forgotten.

    Raises:
        SmetricError: when the window is empty.
    """
    _number("start", start, _finite(start) >= 0, "a time in s, 0 or more")
    _number(
        "end", end, type(end) in (int, float) and end > start, f"a time in s after the start at {start:g}"
    )
    arrival = trace.requests["arrival"]
    inside = (arrival >= start) & (arrival < end)
    if not inside.any():
        raise SmetricError(
            f"no request arrives in {start:g} .. {end:g} s, allowed: a part of 0 .. {arrival[-1]:g} s"
        )
    cut = _keep(trace, inside)
    cut.requests["arrival"] -= start
    cut.report["requests outside the window, left out"] = int(np.sum(~inside))
    return cut


def stretch_time(trace: Trace, factor: float, gaps: bool = True) -> Trace:
    """Multiply all times by ``factor``: 2 halves the load.

    Args:
        trace: left as it is.
        factor: above 0.
        gaps: stretch the recorded gaps as well, so that the ``closed`` arrival mode is slowed down too;
        False keeps
            the agents' own pace and only spreads the sessions.
    """
    _number("factor", factor, _finite(factor) > 0, "a finite number above 0")
    requests = trace.requests.copy()
    requests["arrival"] *= factor
    if gaps:
        requests["gap"] *= factor
    return replace(trace, requests=requests, report={**trace.report, "times multiplied by": float(factor)})


def _finite(value: float) -> float:
    return value if type(value) in (int, float) and math.isfinite(value) else -1.0


def _number(name: str, value: float, good: bool, allowed: str) -> None:
    if not good:
        raise SmetricError(f"{name} is {value!r}, allowed: {allowed}")


def _keep(trace: Trace, kept: np.ndarray) -> Trace:
    """The trace of some requests, with the best remaining bases and the nearest remaining parents."""
    r, nodes = trace.requests, trace.nodes
    out = r[kept].copy()
    base, shared = best_bases(out, nodes)
    number = np.full(len(r) + 1, -1, dtype=np.int32)
    number[:-1][kept] = np.arange(len(out))
    for i in np.flatnonzero(~kept):
        number[i] = number[r["parent"][i]]
    out["parent"] = number[r["parent"][kept]]
    out["gap"][out["parent"] < 0] = 0.0
    out["base"], out["shared"] = base, shared
    out["session"] = np.unique(out["session"], return_inverse=True)[1]
    return Trace.build(
        out,
        name=trace.name,
        has_content=trace.has_content,
        has_gaps=trace.has_gaps,
        report=dict(trace.report),
    )


def _reuse(trace: Trace) -> tuple[float, float]:
    """Ideal reuse, and the part that no earlier request of the same session gives; of all prompt tokens."""
    r, nodes = trace.requests, trace.nodes
    up, end = np.ascontiguousarray(nodes["parent"]), np.ascontiguousarray(nodes["end"])
    order = np.argsort(r["session"], kind="stable")
    own = np.zeros(len(r), dtype=np.int64)
    own[order] = _own_shared(r["node"][order], r["session"][order], r["prompt"][order], up, end)
    total = float(r["prompt"].sum(dtype=np.int64))
    return float(trace.ideal_hit_tokens().sum()) / total, float(
        np.maximum(r["shared"] - own, 0).sum()
    ) / total


@numba.njit(cache=True)
def _own_shared(leaf, session, prompt, up, end):
    """Tokens that each request shares with earlier ones of its session; requests come session by session."""
    seen = np.full(len(up), -1, dtype=np.int32)
    shared = np.zeros(len(leaf), dtype=np.int64)
    for r in range(len(leaf)):
        at = leaf[r]
        while at > 0 and seen[at] != session[r]:
            seen[at] = session[r]
            at = up[at]
        shared[r] = min(end[at], prompt[r])
    return shared
