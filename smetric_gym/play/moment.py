"""The cluster at one decision: what each instance is doing, and whose KV fills it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from smetric_gym.cluster import Cluster
from smetric_gym.cluster.state import Role, Stage, State
from smetric_gym.cluster.steptime import TICKS_PER_S
from smetric_gym.workload.trace import Trace

SHARED = -1
"""Owner of the KV of system prompts and tools."""
ROLES = {Role.BOTH: "", Role.PREFILL: "prefill", Role.DECODE: "decode"}


class Segment(NamedTuple):
    """KV of one session on one instance."""

    session: int
    """or SHARED"""
    used: float
    """share of the capacity that running requests use, 0..1"""
    idle: float
    """share of the capacity that nobody uses now, 0..1"""


@dataclass(frozen=True)
class Moment:
    """One decision, as plain copies.

    Arrays are per instance: those that take requests first, then the decode pool if there is one.

    Attributes:
        index: number of the decision in its run.
        time_s: s.
        request: index into the trace of the request that waits for the decision.
        chosen: instance that the policy answered.
        view: [targets] ``VIEW``, what the router saw.
        asked: ``REQUEST_VIEW``, what it saw of the request.
        memory: the policy's memory before the decision.
        roles: [n] "", "prefill" or "decode".
        alive: [n] bool.
        waiting: [n] requests routed to it that have not started.
        loading: [n] requests whose KV is on its way beside the step (asynchronous loads, hand-overs).
        prefill: [n] running requests without a first token.
        decode: [n] running requests with one.
        tokens: [n] prompt tokens in flight (decode pool: prompts of its requests).
        stalled_s: [n] s until the blocking fetch arrives that the step under way waits for, 0 for none.
        nic_queue_s: s until the busiest NIC of the cluster is free, 0 when it is.
        stage: [requests] ``Stage`` of every request of the trace.
        place: [requests] instance that every request is on, -1 for none.
        segments: per instance, KV by session, largest first; what is missing to 1 is empty.
    """

    index: int
    time_s: float
    request: int
    chosen: int
    view: np.recarray
    asked: np.record
    memory: np.ndarray
    roles: list[str]
    alive: np.ndarray
    waiting: np.ndarray
    loading: np.ndarray
    prefill: np.ndarray
    decode: np.ndarray
    tokens: np.ndarray
    stalled_s: np.ndarray
    nic_queue_s: float
    stage: np.ndarray
    place: np.ndarray
    segments: list[list[Segment]]

    @classmethod
    def of(cls, cluster: Cluster, owner: np.ndarray, memory: np.ndarray, chosen: int = -1, index: int = 0) -> Moment:
        """The moment at which a cluster stands; `owner` is that of `owners`."""
        state = cluster.state
        now, inst, q = int(state.cluster["now"][0]), state.instances, state.requests
        count = len(inst)
        # A request on its way to the engine is on no instance yet: the router's choice says where it goes.
        place = np.where(q["stage"] == Stage.ROUTED, q["target"], q["instance"])

        def on(mask: np.ndarray) -> np.ndarray:
            return np.bincount(place[mask & (place >= 0)], minlength=count)

        running, decoding = q["stage"] == Stage.RUNNING, q["generated"] > 0
        here = (q["stage"] > Stage.PENDING) & (q["stage"] < Stage.DONE) & (place >= 0)
        stalled = np.where(inst["busy"] > 0, np.maximum(inst["run_start"] - now, 0), 0)
        seen = state.seen.copy().view(np.recarray)
        return cls(
            index=index,
            time_s=now / TICKS_PER_S,
            request=cluster.pending,
            chosen=chosen,
            view=seen,
            asked=state.request_view.copy().view(np.recarray)[0],
            memory=memory.copy(),
            roles=[ROLES[Role(role)] for role in inst["role"]],
            alive=inst["alive"] > 0,
            waiting=on((q["stage"] == Stage.WAITING) | (q["stage"] == Stage.ROUTED)),
            loading=on(q["stage"] == Stage.LOADING),
            prefill=on(running & ~decoding),
            decode=on(running & decoding),
            tokens=np.bincount(place[here], weights=q["prompt"][here], minlength=count),
            stalled_s=stalled / TICKS_PER_S,
            nic_queue_s=max(0, int(state.nic_free.max()) - now) / TICKS_PER_S,
            stage=q["stage"].copy(),
            place=place,
            segments=kv_by_session(state, owner, cluster.trace.requests["session"]),
        )

    @cached_property
    def targets(self) -> int:
        """Instances that take requests."""
        return len(self.view)

    @property
    def in_flight(self) -> np.ndarray:
        """[n] requests on each instance, in any stage."""
        return self.waiting + self.loading + self.prefill + self.decode


def owners(trace: Trace) -> np.ndarray:
    """[nodes] the session that reads a node of the prefix tree first, or SHARED for system prompts and tools.

    A node is a system prompt when several sessions read it and it ends inside ``system`` of its first reader; where
    a trace does not say how long system prompts are, whatever several sessions read counts as one.
    """
    rows = trace.requests
    first = [len(rows)] * len(trace.nodes)
    several = [False] * len(trace.nodes)
    session = [*rows["session"].tolist(), -1]

    def read(node: int, request: int, by_others: bool) -> None:
        seen = first[node]
        several[node] |= by_others or (seen < len(rows) and session[seen] != session[request])
        first[node] = min(seen, request)

    for request, node in enumerate(rows["node"].tolist()):
        read(node, request, False)
    parents = trace.nodes["parent"].tolist()
    for node in np.argsort(-trace.nodes["end"], kind="stable").tolist():  # a child ends after its parent
        if parents[node] >= 0 and first[node] < len(rows):
            read(parents[node], first[node], several[node])
    reader = np.array(first)
    system = np.append(rows["system"], 0)[reader]
    common = np.array(several) & ((trace.nodes["end"] <= system) | (system == 0))
    return np.where(common, SHARED, np.array(session)[reader])


def kv_by_session(state: State, owner: np.ndarray, sessions: np.ndarray) -> list[list[Segment]]:
    """Whose KV is on each instance, largest first, as shares of its capacity.

    Args:
        state: of the cluster.
        owner: [nodes] from `owners`.
        sessions: [requests] of the trace.
    """
    shares: list[dict[int, list[float]]] = [{} for _ in state.instances]
    live = state.entries[: state.cluster["entry_top"][0]]
    live = live[live["node"] >= 0]
    own = (state.requests["private"] > 0) & (state.requests["instance"] >= 0)  # blocks without content of their own
    for instance, session, blocks, idle in (
        (live["instance"], owner[live["node"]], live["hi"] - live["lo"], live["uses"] == 0),
        (state.requests["instance"][own], sessions[own], state.requests["private"][own], np.zeros(own.sum(), bool)),
    ):
        part = blocks / state.instances["capacity"][instance]
        for i, s, share, unused in zip(*(a.tolist() for a in (instance, session, part, idle)), strict=True):
            shares[i].setdefault(s, [0.0, 0.0])[int(unused)] += share
    return [
        sorted((Segment(s, *parts) for s, parts in one.items()), key=lambda g: -(g.used + g.idle)) for one in shares
    ]
