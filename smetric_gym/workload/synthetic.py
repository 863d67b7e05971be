"""The synthetic agent workload: sessions drawn one by one, in a steady state from the first moment."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.workload.sessions import MAX_FAMILY, draw_families
from smetric_gym.workload.synthetic_config import SyntheticConfig
from smetric_gym.workload.trace import REQUEST, Trace
from smetric_gym.workload.window import cut_window

MOST_REQUESTS = 5e7
"""Requests that are drawn at most; they would need several GB of memory."""


def generate(config: SyntheticConfig, *, instances: int, load: float, duration_s: float, seed: int) -> Trace:
    """Draw the requests that reach a cluster in ``[0, duration_s)``, in a steady state from the first moment.

    Sessions that began before 0 are present and go on where they are (their first request here carries a
    history). Session
    k has the same content and the same times within it for every load and number of instances: these only
    change how close together sessions start. The sizes of sessions follow a low-discrepancy sequence, so that
    a small cluster sees the same mix as a large one.

    Args:
        config: the distributions.
        instances: number of serving instances the traffic is for.
        load: multiple of ``config.requests_per_minute`` per instance.
        duration_s: s, length of the trace; leave room for a warm-up (the paper figures: 600 of 2400 s).
        seed: 0 or more; the same seed gives the same trace in any process.

    Raises:
        SmetricError: a value that makes no traffic.
    """
    for name, value, allowed, words in (
        ("instances", instances, _whole(instances) and instances >= 1, "a whole number above 0"),
        ("load", load, math.isfinite(load) and load > 0, "a finite number above 0"),
        (
            "duration_s",
            duration_s,
            math.isfinite(duration_s) and duration_s > 0,
            "a finite number of s above 0",
        ),
        ("seed", seed, _whole(seed) and 0 <= seed < 2**63, "a whole number of 0 or more"),
    ):
        if not allowed:
            raise SmetricError(f"workload.{name} is {value}, allowed: {words}")
    check_size(config, instances=instances, load=load, duration_s=duration_s)
    rate = session_rate(config, instances=instances, load=load)
    starts, numbers = _session_starts(config, rate, duration_s, seed)
    rows = _draw(config, starts, numbers, duration_s, seed)[0]
    requests = cut_window(rows, 0.0, duration_s)
    if len(requests) == 0:
        raise SmetricError(
            f"workload.duration_s is {duration_s}, too short: no request arrives at load {load}"
        )
    return Trace.build(
        requests, name=config.name, report={"sessions under way at the start": _under_way(requests)}
    )


def check_size(config: SyntheticConfig, *, instances: int, load: float, duration_s: float) -> None:
    """Refuse a workload of more than `MOST_REQUESTS`, counting those before 0 that bring the steady state."""
    seconds = duration_s + config.age_s
    count = config.requests_per_minute / 60.0 * instances * load * seconds
    if count > MOST_REQUESTS:
        raise SmetricError(
            f"the workload has about {count:.1e} requests (workload.requests_per_minute {config.requests_per_minute:g} "
            f"x {instances} instances x load {load:g} over {seconds:g} s), allowed: up to {MOST_REQUESTS:.0e}"
        )


def session_rate(config: SyntheticConfig, *, instances: int, load: float) -> float:
    """Main agents that start per second, so that requests arrive at the configured rate."""
    return load * instances * config.requests_per_minute / 60.0 / requests_per_family(config)


@lru_cache(maxsize=64)
def requests_per_family(config: SyntheticConfig) -> float:
    """Mean requests of a main agent and its sub-agents, from a fixed sample of 8192 families."""
    count = 8192
    _, drawn = _draw(config, np.full(count, -1e9), np.arange(count), math.inf, 0)
    return drawn / count


def parameters(config: SyntheticConfig) -> np.void:
    """The numbers of ``config`` as one record of float64, for the compiled loop."""
    names = [f.name for f in fields(config) if isinstance(getattr(config, f.name), (int, float))]
    record = np.zeros(1, dtype=[(n, np.float64) for n in names])
    for n in names:
        record[n] = getattr(config, n)
    return record[0]


def _whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _session_starts(
    config: SyntheticConfig, rate: float, duration_s: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Start (s) and number of every session that can send in the window; numbers below 0 lie in the past."""

    def times(stream: int, length_s: float) -> np.ndarray:
        rng = np.random.default_rng([seed, stream])
        shape = 1.0 / max(config.burstiness, 1e-3) ** 2
        at, steps = 0.0, []
        while at < length_s * rate:
            steps.append(rng.gamma(shape, 1.0 / shape, size=4096))
            at += float(steps[-1].sum())
        t = np.cumsum(np.concatenate(steps)) / rate
        return t[t < length_s]

    ahead, before = times(0, duration_s), times(1, config.age_s)
    starts = np.concatenate([-before[::-1], ahead])
    return starts, np.arange(-len(before), len(ahead), dtype=np.int64)


def _draw(
    config: SyntheticConfig, starts: np.ndarray, numbers: np.ndarray, end: float, seed: int
) -> tuple[np.ndarray, int]:
    """Requests sorted by arrival, led by one per framework for its system prompt; and how many were drawn."""
    systems = np.resize(config.system_tokens, int(config.frameworks) or len(config.system_tokens)).astype(np.int64)
    weight = np.arange(1, len(systems) + 1) ** -config.framework_zipf
    levels = np.array([NormalDist().inv_cdf(x) for x in config.tool_gap_levels])
    values = np.array(config.tool_gap_s, dtype=np.float64)
    counters = np.zeros(2, dtype=np.int64)
    counters[0] = len(systems)  # the heads below are sessions of their own
    scratch = np.zeros(max(1 << 17, 4 * MAX_FAMILY), dtype=REQUEST)
    parts, offset, done = [_heads(systems)], len(systems), 0
    while done < len(starts):
        done, filled = draw_families(
            done, starts, numbers, end, np.uint64(seed), parameters(config), systems, np.cumsum(weight /
            weight.sum()), levels, values, scratch, counters,
        )  # fmt: skip
        part = scratch[:filled].copy()
        for name in ("base", "parent"):
            inside = part[name] >= 0
            part[name][inside] += offset
        head = part["base"] <= -2
        part["base"][head] = -2 - part["base"][head]
        parts.append(part)
        offset += filled
    rows = np.concatenate(parts)
    order = np.argsort(rows["arrival"], kind="stable")
    place = np.empty(len(rows) + 1, dtype=np.int32)
    place[order] = np.arange(len(rows), dtype=np.int32)
    place[-1] = -1
    rows = rows[order]
    for name in ("base", "parent"):
        rows[name] = place[rows[name]]
    return rows, int(counters[1])


def _heads(systems: np.ndarray) -> np.ndarray:
    """One request per framework, before all others, whose prompt is the framework's system prompt."""
    rows = np.zeros(len(systems), dtype=REQUEST)
    rows["arrival"] = -np.inf
    rows["session"] = np.arange(len(systems))
    rows["prompt"], rows["output"] = systems, 1
    rows["base"], rows["parent"] = -1, -1
    return rows


def _under_way(requests: np.ndarray) -> int:
    """Sessions whose first request here is not their first."""
    _, first = np.unique(requests["session"], return_index=True)
    return int((requests["turn"][first] > 0).sum())


__all__ = [
    "MOST_REQUESTS",
    "SyntheticConfig",
    "check_size",
    "generate",
    "parameters",
    "requests_per_family",
    "session_rate",
]
