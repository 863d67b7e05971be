"""From rows in file order to a Trace: order of arrival, sessions and turns, limits, shared prefixes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.workload.readers import links
from smetric_gym.workload.readers.fields import LONGEST_S, Faults
from smetric_gym.workload.readers.rows import Rows
from smetric_gym.workload.trace import REQUEST, Trace

SERVICE_S = 2.0
SERVICE_S_PER_TOKEN = 0.0175
"""Response time where none was recorded: 2 s + 17.5 ms per output token, Weka's median ``api_time``
within 6 % in every octave of the output from 85 to 2,240 tokens."""

RESUMED_NEW_TOKENS = 655
"""New tokens of a first turn that carries history: the median growth of a turn in Weka v8."""

SYSTEM_SHARE = 0.005
"""A prefix that at least this share of the sessions (and 5) have is taken for a system prompt."""


@dataclass(frozen=True)
class Limits:
    """What to cut off a trace, and how to read between the ids."""

    requests: int | None = None
    context: int | None = None
    gap_s: float | None = None
    assume_append: bool = True


def assemble(rows: Rows, limits: Limits, faults: Faults) -> Trace:
    """Build the trace; everything done to the rows on the way is counted in ``faults.report``."""
    if len(rows) == 0:
        raise SmetricError(f"{rows.name}: no request could be read, allowed: at least one")
    time = _placed_times(rows, faults)
    span_s = float(np.ptp(time))
    if span_s > LONGEST_S:
        raise SmetricError(f"{rows.name}: starts and delays add up to {span_s:g} s, allowed: up to {LONGEST_S:g} s")
    order = np.argsort(time, kind="stable")
    known = np.flatnonzero(~np.isnan(rows.column("time", float)))
    if rows.sessions != "linked":
        earlier = int(np.sum(np.diff(time[known]) < 0))
        faults.count("rows earlier than the row before them, sorted by time", earlier)
    table = {name: rows.column(name)[order] for name in ("prompt", "output", "session", "thread", "system")}
    table |= {name: rows.column(name)[order] for name in ("trigger", "carried")}
    table |= {"gap": rows.column("gap", float)[order], "arrival": time[order] - np.min(time)}
    up = depth = np.zeros(1, dtype=np.int32)
    leaf = stem = np.zeros(len(rows), dtype=np.int32)
    if rows.tree is not None:
        up, depth = rows.tree.parent, rows.tree.depth
        leaf, stem = rows.column("leaf")[order], rows.column("stem")[order]
    parent = _parents(rows, order, table["session"], leaf, stem, up, faults)
    if rows.sessions in ("chained", "inferred"):
        table["session"] = _roots(parent)
        table["thread"] = table["session"]
    kept = _kept(table, parent, limits, faults)
    parent = _relinked(parent, kept)
    table = {name: column[kept] for name, column in table.items()}
    leaf, stem = leaf[kept], stem[kept]
    if len(leaf) == 0:
        raise SmetricError(
            f"{rows.name}: the limits leave no request, allowed: limits that leave at least one"
        )

    out = np.zeros(len(leaf), dtype=REQUEST)
    for name in ("prompt", "output", "trigger"):
        out[name] = table[name]
    out["arrival"] = table["arrival"] - table["arrival"][0]
    out["parent"] = parent
    out["session"] = _dense(table["session"])
    out["turn"] = _rank_within(table["session"])
    out["messages"] = 2 * _rank_within(table["thread"]) + _first_of(table["thread"], table["carried"])
    before = _before(out["parent"], table["thread"])
    base, shared, append, denied = links.longest_shared(
        leaf,
        stem,
        before,
        table["prompt"],
        table["output"],
        up,
        depth,
        rows.block,
        limits.assume_append,
    )
    faults.count("append-only follow-ups", int(append.sum()))
    faults.count("appends that contradict an earlier one, matched by ids only", denied)
    out["base"], out["shared"] = base, shared
    out["system"] = _system(table, leaf, up, depth, rows.block, out["session"])
    out["history"] = _history(out, before, append, rows.tree is not None)
    has_gaps = _fill_gaps(out, table["gap"], limits, faults)
    return Trace.build(
        out, name=rows.name, has_content=rows.tree is not None, has_gaps=has_gaps, report=dict(faults.report)
    )


def _placed_times(rows: Rows, faults: Faults) -> np.ndarray:
    """Times with the missing ones made up: after the row before in the session, its service and the delay."""
    time, gap = rows.column("time", float), rows.column("gap", float)
    missing = np.isnan(time)
    if missing.any():
        service = SERVICE_S + SERVICE_S_PER_TOKEN * rows.column("output")
        before = _previous(rows.column("session"))
        later = (gap + service[before]).tolist()
        placed = time.tolist()
        for r in np.flatnonzero(missing).tolist():
            placed[r] = placed[before[r]] + later[r]
        time = np.array(placed)
        faults.count(
            "turns without a time, placed after their parent (2 s + 17.5 ms per token)", missing.sum()
        )
    return time


def _parents(rows, order, session, leaf, stem, up, faults) -> np.ndarray:
    n = len(order)
    if rows.sessions == "inferred":
        if rows.tree is None:
            return np.full(n, -1, dtype=np.int32)
        parent = links.infer_parents(leaf, stem, up, max(links.COMMON_SHARE * n, links.COMMON_LEAST))
        faults.count("sessions inferred from prefixes", int(np.sum(parent < 0)))
        return parent
    if rows.sessions == "declared":
        return _previous(session)
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    parent = rows.column("parent")[order]
    parent = np.where(parent >= 0, rank[parent], -1).astype(np.int32)
    late = parent >= np.arange(n)
    faults.count("requests before their parent, taken for first turns", int(late.sum()))
    parent[late] = -1
    return parent


def _previous(labels: np.ndarray) -> np.ndarray:
    """For each entry the last one before it with the same label, or -1."""
    previous = np.full(len(labels), -1, dtype=np.int32)
    order = np.argsort(labels, kind="stable")
    same = labels[order[1:]] == labels[order[:-1]]
    previous[order[1:][same]] = order[:-1][same]
    return previous


def _before(parent: np.ndarray, thread: np.ndarray) -> np.ndarray:
    """The turn before each request in its conversation: its parent, unless that is a sub-agent's."""
    return np.where(thread[parent] == thread, parent, _previous(thread)).astype(np.int32)


def _roots(parent: np.ndarray) -> np.ndarray:
    root = np.arange(len(parent))
    for r in np.flatnonzero(parent >= 0):
        root[r] = root[parent[r]]
    return root


def _kept(table: dict, parent: np.ndarray, limits: Limits, faults: Faults) -> np.ndarray:
    """Indices of the requests within the limits: a thread ends at its first prompt that is too long."""
    n = len(parent)
    kept = np.ones(n, dtype=bool)
    if limits.context is not None:
        over: set[int] = set()
        seen: set[int] = set()
        for r in range(n):
            thread = int(table["thread"][r])
            spawned_by_dropped = thread not in seen and parent[r] >= 0 and not kept[parent[r]]
            if table["prompt"][r] > limits.context or spawned_by_dropped:
                over.add(thread)
            seen.add(thread)
            kept[r] = thread not in over
        faults.count(
            f"requests dropped, at or after a prompt over {limits.context} tokens", n - int(kept.sum())
        )
        faults.count(f"conversations ended at {limits.context} tokens", len(over))
    index = np.flatnonzero(kept)
    if limits.requests is not None and limits.requests < len(index):
        faults.count("requests after the first limit_requests, left out", len(index) - limits.requests)
        index = index[: limits.requests]
    return index


def _relinked(parent: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Parents in the numbering of the kept requests: the nearest kept ancestor."""
    new = np.full(len(parent) + 1, -1, dtype=np.int32)
    new[kept] = np.arange(len(kept))
    is_kept = new >= 0
    for r in range(len(parent)):
        if not is_kept[r]:
            new[r] = new[parent[r]]
    return new[parent[kept]]


def _dense(labels: np.ndarray) -> np.ndarray:
    """Labels numbered 0, 1, ... in order of first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[inverse]


def _rank_within(labels: np.ndarray) -> np.ndarray:
    """How many earlier entries have the same label."""
    order = np.argsort(labels, kind="stable")
    start = np.r_[True, labels[order[1:]] != labels[order[:-1]]]
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels)) - np.maximum.accumulate(np.where(start, np.arange(len(labels)), 0))
    return rank


def _first_of(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """For each entry the value at the first entry with its label."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return values[first][inverse]


def _system(table, leaf, up, depth, block, session) -> np.ndarray:
    """Recorded sizes where there are any, else the prefixes that many sessions have in common."""
    by_session = np.argsort(session, kind="stable")
    least = max(5, int(np.ceil(SYSTEM_SHARE * (session.max() + 1))))
    common = np.empty(len(leaf), dtype=np.int64)
    common[by_session] = links.system_depth(
        leaf[by_session], session[by_session].astype(np.int64), up, depth, least
    )
    system = np.where(table["system"] >= 0, table["system"], common * block)
    return np.minimum(system, table["prompt"])


def _history(out: np.ndarray, before: np.ndarray, append: np.ndarray, has_content: bool) -> np.ndarray:
    """Prompt tokens before the new turn: left by the turn before, or shared, or estimated where resumed."""
    if not has_content:
        return np.zeros(len(out), dtype=np.int64)
    told = out["prompt"][before].astype(np.int64) + out["output"][before]
    resumed = np.maximum(out["prompt"] - RESUMED_NEW_TOKENS, out["system"])
    first = np.where(out["messages"] > 0, resumed, 0)
    follow = np.where(append, told, out["shared"])
    return np.minimum(np.where(before < 0, first, follow), out["prompt"])


def _fill_gaps(out: np.ndarray, gap: np.ndarray, limits: Limits, faults: Faults) -> bool:
    follow = out["parent"] >= 0
    unknown = follow & np.isnan(gap)
    gap = np.where(follow & ~np.isnan(gap), gap, 0.0)
    if limits.gap_s is not None:
        faults.count(f"gaps over {limits.gap_s:g} s, capped", int(np.sum(gap > limits.gap_s)))
        gap = np.minimum(gap, limits.gap_s)
    out["gap"] = gap
    has_gaps = bool(follow.any()) and not unknown.any()
    if not has_gaps:
        out["gap"] = 0.0
    faults.count("follow-ups without a recorded gap", int(unknown.sum()))
    return has_gaps
