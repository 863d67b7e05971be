"""Weka's Claude Code sessions (callanjfox/kv-cache-tester): one JSON document per session.

Every request has its send time ``t`` (s from the session's start, whole seconds), ``in`` and ``out``
tokens, and ids of its full 64-token blocks. Sub-agents stand where they were joined, as entries with
requests of their own.

What the files say about a sub-agent, measured on the 496 sessions: where it has a ``duration_ms``, its
marker's ``t`` is its END (``t - duration_ms`` is 0.1 to 1.1 s after the parent's last response); else ``t``
is its start. Inner times count from its start; releases with absolute inner times (aiperf: inner t >=
marker t) are taken as they are. The parent's next request waits for the sub-agent that ends last, unless it
was sent before that one ended: agents that run in the background.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import orjson

from smetric_gym.workload.readers.assemble import SERVICE_S, SERVICE_S_PER_TOKEN
from smetric_gym.workload.readers.blockids import Lookup, lift_ids, mix
from smetric_gym.workload.readers.detect import BROKEN, Document
from smetric_gym.workload.readers.fields import MAX_TOKENS, MISSING, BadRow, Faults, Words, block_count, seconds, tokens
from smetric_gym.workload.readers.prefixes import PrefixTree
from smetric_gym.workload.readers.rows import Rows
from smetric_gym.workload.readers.weka_names import Names
from smetric_gym.workload.trace import Trigger

RESUMED_TOKENS = 40_000
"""A first prompt this far beyond tools and system carries a conversation that began before the file."""

_ROUNDING_S = 2.0
"""Two times in whole seconds may be this far off each other."""


@dataclass
class _Sent:
    """What a request's successors need to know."""

    row: int
    t: float  # recorded
    end: float  # recorded end of the response, or its estimate
    shift: float  # s that capped gaps have moved it forward
    measured: bool  # api_time was recorded


def read(
    documents: Iterator[Document],
    name: str,
    faults: Faults,
    block_tokens: int | None,
    rng: np.random.Generator,
    session_rate_per_s: float | None,
    max_gap_s: float | None,
) -> Rows:
    """Read all sessions and start them as a Poisson process.

    Args:
        documents: JSON documents, one per session.
        name: of the workload.
        faults: policy and counts.
        block_tokens: None takes ``block_size`` of the first session.
        rng: draws the starts and the order of the sessions.
        session_rate_per_s: of the Poisson process; None takes sessions / (2 x the median length of a
            session), at most 1.
        max_gap_s: longer gaps are shortened, and the times behind them move forward.
    """
    rows = Rows(block=0, tree=PrefixTree(), sessions="linked", name=name)
    session = 0
    for document in documents:
        try:
            text, lookup = lift_ids(document.stream.read(), lines=False)
            content = orjson.loads(text)
            if not isinstance(content, dict) or not isinstance(content.get("requests"), list):
                raise BadRow("requests", MISSING, "a session object with a list of requests")
            block = content.get("block_size")
            rows.block = rows.block or block_tokens or tokens(content, "block_size", 1)
            if block not in (None, rows.block):
                raise BadRow("block_size", block, f"{rows.block} in all sessions")
        except BROKEN as fault:
            faults.bad(document.name, f"cannot be unpacked ({fault}), allowed: a whole archive")
            break
        except orjson.JSONDecodeError as fault:
            faults.bad(
                document.name,
                f"malformed or truncated JSON ({fault.msg}), allowed: one whole session",
                "bad sessions skipped",
            )
            continue
        except BadRow as fault:
            faults.bad(document.name, fault, "bad sessions skipped")
            continue
        reader = _Session(rows, document.name, content, lookup, session, faults, max_gap_s)
        reader.read(content["requests"])
        session += 1
    rows.block = rows.block or 64
    _start_sessions(rows, rng, session_rate_per_s, faults)
    return rows


class _Session:
    """Adds the requests of one document to the rows."""

    def __init__(self, rows, name, content, lookup: Lookup, session: int, faults: Faults, max_gap_s):
        self._rows, self._name, self._lookup, self._faults = rows, name, lookup, faults
        self._session, self._max_gap_s = session, max_gap_s
        self._threads = 0
        self._sequences: list[np.ndarray] = []
        self._is_v6 = content.get("hash_id_scope") == "global"
        self._names = None if self._is_v6 else Names(mix(session, 1 << 40), rows.block)
        self._regions = _regions(content)

    def read(self, requests: list) -> None:
        main: _Sent | None = None
        agents: list[_Sent] = []
        for number, entry in enumerate(requests):
            where = f"{self._name} request {number}"
            if not isinstance(entry, dict):
                self._faults.bad(where, BadRow("the entry", Words(_kind(entry)), "an object"))
            elif "requests" in entry or entry.get("type") == "subagent":
                last = self._agent(entry, where, main)
                agents += [last] if last else []
            elif self._is_v6 and entry.get("type") != "n":
                self._faults.count("streaming duplicates of v6, left out")
            else:
                before, main = main, self._request(entry, where, entry, self._regions, main, agents, 0, 0.0)
                if main is before:
                    continue
                agents = []
        self._rows.add_ids(self._sequences)

    def _agent(self, entry: dict, where: str, main: _Sent | None) -> _Sent | None:
        try:
            marker = seconds(entry, "t", low=0)
            duration = seconds(entry, "duration_ms", 1e-3, low=0) if entry.get("duration_ms") else 0.0
            inner = entry.get("requests")
            if not isinstance(inner, list) or any(not isinstance(x, dict) for x in inner):
                raise BadRow("requests of the sub-agent", Words(_kind(inner)), "a list of objects")
        except BadRow as fault:
            self._faults.bad(where, fault)
            return None
        spawned = main.end if main else 0.0
        start = marker - duration if duration and marker - duration >= spawned - _ROUNDING_S else marker
        first = inner[0].get("t") if inner else 0
        if type(first) in (int, float) and first > 0 and first >= start - _ROUNDING_S:
            start = 0.0  # absolute inner times
        self._threads += 1
        thread, last = self._threads, main
        for number, request in enumerate(inner):
            if self._is_v6 and request.get("type") != "n":
                continue
            place = f"{where}, sub-agent request {number}"
            last = self._request(request, place, request, _regions(entry), last, [], thread, start)
        self._faults.count("sub-agents")
        return last if last is not main else None

    def _request(self, entry, where, row, regions, before, agents, thread, start) -> _Sent | None:
        """Add one request; a bad one that is skipped leaves `before` in its place."""
        try:
            ids = self._lookup(row["hash_ids"]) if "hash_ids" in row else np.empty(0, np.int64)
            prompt, output = tokens(row, "in", 1), tokens(row, "out", 0)
            block_count(len(ids), prompt, self._rows.block, ceil=False)
            t = seconds(row, "t", low=0) + start
            api = seconds(row, "api_time", low=0) if row.get("api_time") is not None else None
            think = seconds(row, "think_time") if row.get("think_time") is not None else None
        except BadRow as fault:
            self._faults.bad(where, fault)
            return before
        self._faults.count("rows with zero output, raised to 1", output == 0)
        self._faults.count("requests without api_time, response time estimated", api is None)
        if before and t < before.t:
            self._faults.count("requests recorded before the one before them, moved to its time")
            t = before.t
        # Background agents still run when the parent goes on: it waited for nobody, or for those that had
        # ended.
        ended = [a for a in agents if a.end <= t + _ROUNDING_S and a.t <= t]
        self._faults.count("sub-agents in the background, not waited for", len(agents) - len(ended))
        parent = max([*ended, *([before] if before else [])], key=lambda sent: sent.end, default=None)
        is_first = before is None or self._rows.thread[before.row] != self._label(thread)
        shift = gap = 0.0
        if parent:
            gap = max(0.0, t - max(parent.end, parent.t))
            if parent is before and parent.measured and think is not None and not is_first:
                gap = min(max(think, 0.0), t - parent.t)
            allowed = gap if self._max_gap_s is None else min(gap, self._max_gap_s)
            self._faults.count("gaps over max_gap_s, capped", gap > allowed)
            gap, shift = allowed, parent.shift + gap - allowed
        tools, system = regions
        service = api if api is not None else SERVICE_S + SERVICE_S_PER_TOKEN * output
        added = self._rows.add(
            t - shift,
            prompt,
            max(output, 1),
            gap=gap if parent else np.nan,
            session=self._session,
            thread=self._label(thread),
            parent=parent.row if parent else -1,
            system=min(tools + system, prompt),
            trigger=Trigger.SPAWN if is_first and thread else _trigger(row, before),
            carried=int(is_first and not thread and prompt - tools - system > RESUMED_TOKENS),
        )
        self._sequences.append(ids if self._names is None else self._names.of(ids, tools, system))
        return _Sent(added, t, t + service, shift, api is not None)

    def _label(self, thread: int) -> int:
        return (self._session << 20) + thread


def _kind(value: object) -> str:
    return "a list of other things" if isinstance(value, list) else f"of type {type(value).__name__}"


def _regions(entry: dict) -> tuple[int, int]:
    """Tokens of the tools and of the system prompt, 0 where not given."""
    sizes = (entry.get("tool_tokens"), entry.get("system_tokens"))
    tools, system = (size if type(size) is int and 0 < size <= MAX_TOKENS else 0 for size in sizes)
    return tools, system


def _trigger(row: dict, before: _Sent | None) -> Trigger:
    """From what is new in the prompt; a mix with thinking or tool_use is a compaction or a resumption."""
    types = row.get("input_types")
    new = {x for x in types if isinstance(x, str)} if isinstance(types, list) else set()
    if "tool_result" in new and new <= {"tool_result", "text"}:
        return Trigger.TOOL
    # The successor of a row without metadata is labelled text wrongly.
    if new == {"text"} and (before is None or before.measured):
        return Trigger.HUMAN
    return Trigger.UNKNOWN


def _start_sessions(rows: Rows, rng: np.random.Generator, rate: float | None, faults: Faults) -> None:
    time, session = rows.column("time", float), rows.column("session")
    if not len(time):
        return
    labels, inverse = np.unique(session, return_inverse=True)
    length = np.zeros(len(labels))
    np.maximum.at(length, inverse, time)
    rate = rate if rate is not None else len(labels) / max(2 * float(np.median(length)), len(labels))
    starts = rng.permutation(np.cumsum(rng.exponential(1 / rate, len(labels))))
    rows.time[:] = type(rows.time)("d", time + starts[inverse])
    faults.report["session starts per s (made up, Poisson)"] = rate
