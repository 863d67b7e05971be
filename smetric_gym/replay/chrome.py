"""A run as a Chrome trace, which Perfetto opens: a track per instance, slices per request, an arrow per migration.

The format is the JSON array of "Trace Event Format" (Google, 2016): ``X`` complete slices in microseconds, ``s`` and
``f`` the two ends of an arrow, ``C`` counters, ``M`` names. Slices of a thread must nest, so the requests that an
instance serves at the same time are dealt over the first threads that are free.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson

from smetric_gym.agents.memory import Reason
from smetric_gym.replay.page import LATE, SLOW, UNFINISHED, verdicts
from smetric_gym.replay.recording import Recording
from smetric_gym.replay.series import lane_names, lane_tokens

VERDICTS = {LATE: "first token late", SLOW: "output too slow", UNFINISHED: "not finished"}
COUNTER_EVERY = 5
"""Slices between two values of a counter."""


def chrome_trace(recording: Recording) -> bytes:
    """The trace as JSON, one event per line, in order of time."""
    events = sorted(_events(recording), key=_order)
    lines = b",\n".join(orjson.dumps(event) for event in events)
    return b'{"displayTimeUnit":"ms","traceEvents":[\n' + lines + b"\n]}\n"


def _order(event: dict[str, Any]) -> tuple[bool, int, int]:
    """Names first, then by time, and a slice before those that it contains."""
    return event["ph"] != "M", event.get("ts", 0), -event.get("dur", 0)


def _events(recording: Recording) -> Iterator[dict[str, Any]]:
    names = lane_names(recording)
    for lane, name in enumerate(names):
        yield {"ph": "M", "name": "process_name", "pid": lane, "args": {"name": f"instance {name}"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": lane, "args": {"sort_index": lane}}
    yield from _counters(recording)
    verdict, threads = verdicts(recording), _Threads(len(names))
    stays = sorted(stay for r in recording.shown for stay in _stays(recording, int(r)))
    where: dict[int, list[tuple[int, int, int, int]]] = {}  # request to its slices: lane, thread, from, to
    for start_us, end_us, lane, r, parts in stays:
        thread = threads.take(lane, start_us, end_us)
        where.setdefault(r, []).append((lane, thread, start_us, end_us))
        at = {"pid": lane, "tid": thread}
        about = _about(recording, r, int(verdict[r]))
        yield at | about | {"ph": "X", "cat": "request", "ts": start_us, "dur": end_us - start_us}
        for name, part_us, until_us in parts:
            yield at | {"ph": "X", "cat": "phase", "name": name, "ts": part_us, "dur": until_us - part_us}
    yield from _arrows(recording, where)


def _stays(recording: Recording, r: int) -> Iterator[tuple[int, int, int, int, list[tuple[str, int, int]]]]:
    """Where a request was: start and end in us, lane, itself, and the named parts."""
    run = recording.scored.all[r]
    arrival, admitted, first, handed, finish = (
        _us(run[name]) for name in ("arrival_s", "admitted_s", "first_token_s", "handed_over_s", "finish_s")
    )
    if run["instance"] < 0 or arrival is None:
        return
    end = round(1e6 * recording.end_s)  # of what never ended
    disaggregated = recording.setup.config.disaggregated
    leaves = (handed if disaggregated else finish) or max(end, arrival)
    points = [("queue", arrival), ("prefill", admitted), ("decode", None if disaggregated else first)]
    known = [(name, at) for name, at in points if at is not None]
    ends = [at for _, at in known[1:]] + [leaves]
    parts = [(name, at, until) for (name, at), until in zip(known, ends, strict=True) if until > at]
    yield arrival, leaves, int(run["instance"]), r, parts
    if run["decode_instance"] >= 0 and handed is not None:
        until = finish or max(end, handed)
        yield handed, until, int(run["decode_instance"]), r, [("decode", handed, until)]


def _about(recording: Recording, r: int, verdict: int) -> dict[str, Any]:
    """Name and arguments of a request's slice."""
    run, request = recording.scored.all[r], recording.setup.trace.requests[r]
    late = f" ({VERDICTS[verdict]})" if verdict in VERDICTS else ""
    arguments: dict[str, Any] = {name: int(request[name]) for name in ("session", "turn", "prompt", "output")}
    arguments |= {name: int(run[name]) for name in ("local_hit_tokens", "global_hit_tokens", "preemptions", "retries")}
    arguments |= {
        "request": r,
        "reason": Reason(int(run["reason"])).name,
        "ttft_s": _number(run["first_token_s"] - run["arrival_s"]),
        "ttft_limit_s": round(float(recording.setup.slo.ttft_limit_s(request["prompt"])), 4),
    }
    return {"name": f"session {request['session']} turn {request['turn']}{late}", "args": arguments}


def _arrows(recording: Recording, where: dict[int, list[tuple[int, int, int, int]]]) -> Iterator[dict[str, Any]]:
    """From prefill to decode, and from a request to the next of its session on another instance."""
    session, run = recording.setup.trace.requests["session"], recording.scored.all
    last: dict[int, int] = {}
    number = 0
    for r in recording.shown.tolist():
        if r not in where:
            continue
        pairs = list(zip(where[r], where[r][1:], ["hand-over"], strict=False))
        previous = last.get(int(session[r]))
        if previous is not None and run["instance"][previous] != run["instance"][r]:
            pairs.append((where[previous][-1], where[r][0], "migration"))
        last[int(session[r])] = r
        for (lane, thread, start_us, end_us), (to_lane, to_thread, to_us, _), name in pairs:
            number += 1
            common = {"cat": name, "name": name, "id": number}
            begin_us = max(start_us, min(end_us - 1, to_us))  # inside the slice that it leaves, and not after the other
            yield common | {"ph": "s", "pid": lane, "tid": thread, "ts": begin_us}
            yield common | {"ph": "f", "bp": "e", "pid": to_lane, "tid": to_thread, "ts": to_us}


def _counters(recording: Recording) -> Iterator[dict[str, Any]]:
    """Prompt tokens in flight of every lane; KV in use of those that the router sees."""
    edges, tokens = recording.edges_s, lane_tokens(recording)
    for k in range(0, len(tokens), COUNTER_EVERY):
        at = round(1e6 * edges[k])
        for lane in range(tokens.shape[1]):
            load = {"tokens": round(float(tokens[k : k + COUNTER_EVERY, lane].mean()))}
            yield {"ph": "C", "name": "prompt tokens in flight", "pid": lane, "ts": at, "args": load}
            if lane < recording.setup.config.instances:
                use = {"percent": round(100 * float(recording.samples["kv_use"][k, lane]), 1)}
                yield {"ph": "C", "name": "KV in use", "pid": lane, "ts": at, "args": use}


class _Threads:
    """The free threads of every lane."""

    def __init__(self, lanes: int) -> None:
        self._free: list[list[int]] = [[] for _ in range(lanes)]
        self._busy: list[list[tuple[int, int]]] = [[] for _ in range(lanes)]
        self._made = [0] * lanes

    def take(self, lane: int, start_us: int, end_us: int) -> int:
        """The lowest thread that is free from ``start_us``; calls come in order of time."""
        while self._busy[lane] and self._busy[lane][0][0] <= start_us:
            heapq.heappush(self._free[lane], heapq.heappop(self._busy[lane])[1])
        if self._free[lane]:
            thread = heapq.heappop(self._free[lane])
        else:
            self._made[lane] += 1
            thread = self._made[lane]
        heapq.heappush(self._busy[lane], (end_us, thread))
        return thread


def _us(seconds: float) -> int | None:
    """Whole microseconds; None for a time that never came."""
    return round(1e6 * float(seconds)) if math.isfinite(seconds) else None


def _number(value: np.floating) -> float | None:
    return round(float(value), 4) if np.isfinite(value) else None
