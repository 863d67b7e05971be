"""The state of a cluster: one plain structured array per kind of thing, so that a copy is a snapshot."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

i1, i4, i8, f4, f8 = np.int8, np.int32, np.int64, np.float32, np.float64


class Stage(IntEnum):
    """Where a request is in its life (RULES.md section 3)."""

    PENDING = 0
    ROUTED = 1
    WAITING = 2
    LOADING = 3
    RUNNING = 4
    TRANSFER = 5
    """Prefilled, and no decode instance is alive to take it."""
    DONE = 6
    UNISSUED = 7
    """Its arrival would be after the end of the window, or its parent never completed inside it."""


DONE, UNISSUED = int(Stage.DONE), int(Stage.UNISSUED)


class Kind(IntEnum):
    """Kinds of events, in the order in which they happen at one moment (RULES.md section 2)."""

    STEP_END = 0
    LOAD_END = 1
    SCHEDULE = 2
    DELIVER = 3
    ARRIVAL = 4


class Role(IntEnum):
    """What an instance does."""

    BOTH = 0
    PREFILL = 1
    DECODE = 2


CLUSTER = np.dtype(
    [
        ("now", i8),  # ticks
        ("window_end", i8),  # ticks; nothing arrives from then on
        ("targets", i4),  # instances 0..targets-1 take new requests; the rest decode
        ("pending", i4),  # request that waits for a decision, or -1
        ("next_root", i4),  # next request in `roots`
        ("heap_size", i8),
        ("entry_top", i4),  # entries ever used
        ("entry_free", i4),  # list of returned entries
        ("hold_top", i4),
        ("hold_free", i4),
        ("hold_margin", i8),  # holds that one event may take
        ("heap_margin", i8),
        ("n_due", i4),  # instances that schedule a step when the event under way is over
        ("parked", i4),  # requests that wait for an instance to come up
        ("last_decode", i4),  # the decode instance chosen last
        ("mode", i1),  # 0 open, 1 causal, 2 closed
        ("asynchronous", i1),  # loads run beside the engine step
        ("has_tier", i1),
        ("write", i1),  # 0 prompt, 1 all, 2 none
        ("eviction", i1),  # 0 lru, 1 lfu, 2 belady
        ("block", i4),
        ("chunk", i4),
        ("budget", i4),  # max_batched_tokens
        ("max_seqs", i4),
        ("min_load", i4),
        ("nic_latency", i8),
        ("pcie_latency", i8),
        ("tier_capacity", i8),  # chunks
        ("tier_used", i8),
        ("tier_head", i4),  # least recently used node of the global tier
        ("tier_tail", i4),
        ("lag", i8),  # ticks until a router learns of caches and engines
        ("told", i8),  # pieces of news so far
        ("late_top", i4),
        ("late_free", i4),
        ("late_margin", i8),
        ("routers", i4),  # replicas
        ("unfinished", i8),  # requests that arrived and are not done
        ("done", i8),
        ("events", i8),  # events processed
        ("error", i4),  # 0, or an internal limit that was hit
    ]
)

COUNTED = [
    ("in_flight", i8),
    ("in_flight_tokens", i8),
    ("todo", i8),
    ("todo_pairs", i8),
    ("routed", i8),
]
"""What the router counts of an instance."""

COUNTS = np.dtype(COUNTED)

INSTANCE = np.dtype(
    [
        ("alive", i1),
        ("role", i1),
        ("busy", i1),  # a step is under way
        ("due", i1),  # schedules a step when the event under way is over
        ("blocked", i1),  # admission failed for lack of blocks; not tried again until blocks are given up
        ("profile", i4),  # row of the step-time tables
        ("nic", i4),
        ("epoch", i4),  # events of an older epoch are stale
        ("capacity", i8),  # blocks
        ("empty", i8),  # blocks without content that nobody uses
        ("idle", i8),  # blocks with content that nobody uses
        ("lru_head", i4),
        ("lru_tail", i4),
        ("n_running", i4),
        ("n_waiting", i4),
        ("wait_head", i4),
        ("wait_tail", i4),
        # news on its way to the router
        ("moment", i8),  # ticks; when what is being done to it happens (a run is caught up late)
        ("late_head", i4),
        ("late_tail", i4),
        ("told_running", i4),
        ("told_waiting", i4),
        ("told_used", i8),
        ("said_running", i4),  # the last load report on its way
        ("said_waiting", i4),
        ("said_used", i8),
        # the step under way, or a run of equal decode steps
        ("run_start", i8),  # ticks; when the first step of the run begins
        ("run_steps", i8),
        ("run_applied", i8),  # steps whose blocks have been taken
        (
            "run_next",
            i8,
        ),  # ticks; when the first step begins whose blocks have not been taken, NEVER if there is none
        ("run_base", i8),  # ticks of each step without its context term
        ("run_context", i8),  # context tokens of the first step
        ("run_rate", i8),  # ticks per context token
        *COUNTED,
        # hardware
        ("half_pair", i8),
        ("context", i8),
        ("mixed_context", i8),
        ("connector", i8),
        ("api", i8),
        ("api_token", i8),
        ("nic_token", i8),
        ("pcie_token", i8),
        ("pcie_free", i8),
        ("prefill_token_s", f8),
        ("prefill_pair_s", f8),
    ]
)

REQUEST_STATE = np.dtype(
    [
        # what the trace says
        ("arrival", i8),
        ("gap", i8),
        ("prompt", i4),
        ("output", i4),
        ("node", i4),
        ("router", i4),  # the replica that decides
        # where it is
        ("stage", i1),
        ("ready", i1),  # its load has ended: it keeps the blocks that it holds
        ("to_come", i1),  # it will look for blocks: not admitted yet, or admitted in vain
        ("epoch", i4),
        ("instance", i4),
        ("source", i4),  # prefill instance that still holds its blocks, or -1
        ("computed", i4),
        ("generated", i4),
        ("step_tokens", i4),  # tokens that the step under way computes
        ("load_to", i4),  # computed, once its load has ended
        ("load_hit", i4),  # local hit in blocks when its load began
        ("blocks", i4),  # leading blocks that it holds
        ("private", i4),  # of these, without content of their own
        ("hold", i4),  # entries that it uses, deepest first
        ("source_private", i4),
        ("source_hold", i4),
        ("todo", i4),
        ("wait_prev", i4),
        ("wait_next", i4),
        # what became of it
        ("arrived", i8),
        ("admitted", i8),
        ("first_token", i8),
        ("handed_over", i8),
        ("finish", i8),
        ("target", i4),  # the router's choice
        ("decode_instance", i4),
        ("local_hit", i4),
        ("global_hit", i4),
        ("read_tokens", i4),
        ("preemptions", i4),
        ("retries", i4),
        ("reason", i1),
    ]
)

NODE_STATE = np.dtype(
    [
        ("parent", i4),
        ("start", i4),
        ("end", i4),
        ("entries", i4),  # list of the entries that hold blocks of this node
        ("beliefs", i4),  # the same as the router believes it (with a view lag)
        ("next_user", i8),  # place in `users`; no request to come stands before it
        ("stored", i4),  # leading chunks of this node in the global tier
        ("tier_prev", i4),
        ("tier_next", i4),
        ("in_tier", i1),
    ]
)

ENTRY = np.dtype(
    [
        ("node", i4),
        ("instance", i4),
        ("lo", i4),  # blocks lo..hi-1, counted from the head of the prompt
        ("hi", i4),
        ("uses", i4),  # requests that use these blocks
        ("admissions", i4),  # requests that have used them so far
        ("lru_prev", i4),
        ("lru_next", i4),
        ("node_prev", i4),
        ("node_next", i4),
        ("stamp", i8),  # of a belief: the news that it rests on
    ]
)

LATE = np.dtype(
    [
        ("time", i8),  # when the router learns it
        ("entry", i4),  # -1 for a load report or a count
        ("router", i4),  # the replica that counted, -1 for what an instance reports
        ("node", i4),
        ("lo", i4),
        ("hi", i4),
        ("running", i4),
        ("waiting", i4),
        ("used", i8),
        *COUNTED,  # changes
        ("stamp", i8),  # order in which news came about
        ("next", i4),
    ]
)

HOLD = np.dtype([("entry", i4), ("next", i4)])

EVENT = np.dtype([("time", i8), ("key", i8), ("epoch", i4)])  # key = kind << 40 | id

ROW = np.dtype([("time", i8), ("instance", i4), ("up", i1)])


class State(NamedTuple):
    """Everything that changes, and the tables that the event loop reads."""

    cluster: np.ndarray  # [1] CLUSTER
    instances: np.ndarray  # [n] INSTANCE
    requests: np.ndarray  # [R] REQUEST_STATE
    nodes: np.ndarray  # [N] NODE_STATE
    entries: np.ndarray  # pool of ENTRY
    holds: np.ndarray  # pool of HOLD
    events: np.ndarray  # heap of EVENT
    running: np.ndarray  # [n, max_seqs] int32, in order of admission
    nic_free: np.ndarray  # [nics] int64, ticks
    parked: np.ndarray  # [R] int32
    seen: np.ndarray  # [targets] VIEW
    request_view: np.ndarray  # [1] REQUEST_VIEW
    roots: np.ndarray  # requests that nothing releases, in order of arrival
    child_start: np.ndarray  # [R + 1]; children of r are children[child_start[r]:child_start[r + 1]]
    children: np.ndarray
    traits: np.ndarray  # [R, 5] float32: turn, messages, history, TTFT limit in s, session
    rows: np.ndarray  # schedule of instances that go and come
    tokens_ticks: np.ndarray  # [profiles, budget + 1] int64
    rows_ticks: np.ndarray  # [profiles, max_seqs + 1] int64
    finished: np.ndarray  # [R] int32: the first cluster.done of them, in order of completion
    due: np.ndarray  # [n] int32
    path: np.ndarray  # scratch: nodes of one request, leaf first
    found: np.ndarray  # scratch: entries of one look-up, root first
    hits: np.ndarray  # scratch: leading resident blocks per instance
    late: np.ndarray  # pool of LATE
    beliefs: np.ndarray  # pool of ENTRY, by the number of the entry
    user_start: np.ndarray  # [N + 1]; users[user_start[n]:user_start[n + 1]] pass through node n (belady; else empty)
    users: np.ndarray  # requests by node, in the order of the trace
    untold: np.ndarray  # [routers * targets] COUNTS: what a replica counted and the others have not heard yet
