"""A cluster that serves a trace: it runs until the router must decide, shows a view, and takes the answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from smetric_gym.cluster import engine
from smetric_gym.cluster.config import EVICTIONS, LATEST_S, WRITES, ClusterConfig
from smetric_gym.cluster.hardware import load_hardware
from smetric_gym.cluster.state import (
    CLUSTER,
    COUNTS,
    DONE,
    ENTRY,
    EVENT,
    HOLD,
    INSTANCE,
    LATE,
    NODE_STATE,
    REQUEST_STATE,
    ROW,
    UNISSUED,
    Kind,
    Role,
    Stage,
    State,
)
from smetric_gym.cluster.steptime import TICKS_PER_S, StepTime, step_time
from smetric_gym.cluster.view import REQUEST_VIEW, VIEW
from smetric_gym.errors import SmetricError
from smetric_gym.workload.trace import Trace

if TYPE_CHECKING:
    from smetric_gym.agents.policy import Policy

MODES = ("open", "causal", "closed")
UNLIMITED = 2**60
DEFAULT_TTFT_LIMIT_S = (1.0, 62.5e-6)

OUTCOME = np.dtype(
    [
        ("state", np.int8),  # Stage.DONE, Stage.UNISSUED, or where it was when nothing could happen any more
        ("arrival_s", np.float64),  # when it reached the router; nan where it never did, as in all times
        ("admitted_s", np.float64),  # when its first step was scheduled, or its load began
        ("first_token_s", np.float64),
        ("handed_over_s", np.float64),  # disaggregated: the end of its prefill
        ("finish_s", np.float64),
        ("instance", np.int32),  # the router's choice, -1 where there was none
        ("decode_instance", np.int32),
        ("local_hit_tokens", np.int32),  # at its first admission
        ("global_hit_tokens", np.int32),  # loaded from the global tier at its first admission
        ("read_tokens", np.int32),  # moved over the links for it in all
        ("preemptions", np.int32),
        ("retries", np.int32),  # times that its instance went away
        ("reason", np.int8),  # agents.memory.Reason of the decision
    ]
)


class Cluster:
    """A simulated cluster, stopped at one routing decision after the other.

    Args:
        trace: what arrives.
        config: what serves it; ``RULES.md`` says how.
        arrival_mode: "open" (recorded times), "causal" (not before the parent's completion) or "closed" (the
            parent's completion plus the recorded gap).
        window_s: s; nothing arrives from then on, what is there is served to its end.
        ttft_limit_s: (s, s per prompt token), what ``request.ttft_limit_s`` shows to a router.
        step_times: one per instance instead of those of ``config.hardware`` (tests, own measurements).
        debug: check every invariant after every event (slow).

    Attributes:
        view: [instances] ``VIEW``, the record that a router sees, rewritten in place at every decision.
        request: the ``REQUEST_VIEW`` record of the request that waits for a decision.

    Example:
        >>> cluster = Cluster(trace, ClusterConfig(instances=8))     # doctest: +SKIP
        >>> while cluster.advance():                                 # doctest: +SKIP
        ...     cluster.assign(int(cluster.view.in_flight.argmin()))

    Raises:
        SmetricError: for a trace that this cluster cannot serve.
    """

    def __init__(
        self,
        trace: Trace,
        config: ClusterConfig,
        *,
        arrival_mode: str = "closed",
        window_s: float = math.inf,
        ttft_limit_s: tuple[float, float] = DEFAULT_TTFT_LIMIT_S,
        step_times: list[StepTime] | None = None,
        debug: bool = False,
    ) -> None:
        if arrival_mode not in MODES:
            raise SmetricError(f"arrival_mode is {arrival_mode!r}, allowed: {', '.join(MODES)}")
        if arrival_mode == "closed" and not trace.has_gaps:
            raise SmetricError(
                f"arrival_mode is 'closed', but {trace.name} records no gaps between a response and the next "
                "request: use arrival_mode=causal or arrival_mode=open"
            )
        if not window_s > 0 or LATEST_S < window_s < math.inf:
            raise SmetricError(f"the window ends at {window_s} s, allowed: above 0 s, at most {LATEST_S:.0f} s, or inf")
        last = float(max(trace.requests["arrival"].max(), trace.requests["gap"].max()))
        if math.isinf(window_s) and last > LATEST_S:
            raise SmetricError(
                f"{trace.name} has arrivals or gaps of {last:.0f} s, "
                f"allowed without an end of the window: {LATEST_S:.0f} s"
            )
        self.trace, self.config, self.arrival_mode, self.debug = trace, config, arrival_mode, debug
        times = step_times or instance_step_times(config)
        self._check_fits(times)
        self.kv_bytes_per_token = times[0].kv_bytes_per_token
        self.state = _build(trace, config, MODES.index(arrival_mode), window_s, ttft_limit_s, times)
        self._code = engine.PAUSED
        self._show()
        if config.warm:
            self._preload()

    # -- the decision loop ------------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Run to the next decision; False when everything that arrived has been served."""
        return self._step(-1, 0)

    def assign(self, instance: int, reason: int = 0) -> None:
        """Answer the decision; takes effect at the next `advance`."""
        if self._code != engine.DECISION:
            raise SmetricError(
                "no request waits for a decision: call advance() first, and stop when it returns False"
            )
        if not 0 <= instance < len(self.view) or not self.view["alive"][instance]:
            raise SmetricError(
                f"instance {instance} was chosen, allowed: an alive one of 0..{len(self.view) - 1}"
            )
        engine.assign(self.state, instance, reason)
        self._code = engine.PAUSED

    def step(self, instance: int, reason: int = 0) -> bool:
        """`assign` and `advance` in one compiled call; the choice must be valid."""
        return self._step(instance, reason)

    def run(self, policy: Policy, seed: int = 0, progress: Callable[[float], Any] | None = None) -> None:
        """Serve the whole trace with `policy`; ``progress(now_s)`` is called now and then."""
        from smetric_gym.agents.memory import REASON
        from smetric_gym.agents.policy import check_choice

        memories = self.new_memories(policy, seed)
        memory, several = memories[0], len(memories) > 1
        view, request = (self._view, self._request) if policy.compiled else (self.view, self.request)
        alive = self._view["alive"]
        size, count = len(alive), 0
        more = self.advance()
        while more:
            if several:
                memory = memories[self.router]
            choice = policy(view, request, memory)
            if not (type(choice) is int and 0 <= choice < size and alive[choice]):
                choice = check_choice(policy.name, choice, alive)
            count += 1
            if progress is not None and count % 1024 == 0:
                progress(self.now_s)
            more = self._step(choice, int(memory[REASON]))

    def new_memories(self, policy: Policy, seed: int = 0) -> list[np.ndarray]:
        """One memory for each router replica: `policy` decides with that of `router`.

        The first replica draws what a single router draws with this seed, the others draw from streams of their own.
        """
        seeds = [seed]
        if self.config.routers > 1:
            more = np.random.SeedSequence(seed).generate_state(self.config.routers - 1, np.uint64)
            seeds += [int(one) for one in more]
        return [policy.new_memory(self.trace.sessions, one) for one in seeds]

    def _step(self, choice: int, reason: int) -> bool:
        limit = 1 if self.debug else 0
        code = engine.advance(self.state, choice, reason, limit)
        while code > engine.DECISION:
            if code == engine.GROW:
                self._grow()
            elif self.debug:
                check_invariants(self.state)
            code = engine.advance(self.state, -1, 0, limit)
        self._code = code
        if self.state.cluster["error"][0]:
            pool = ("holds", "news")[self.state.cluster["error"][0] - 1]
            raise RuntimeError(f"internal limit of the event loop: the pool of {pool} is too small; please report this")
        return code == engine.DECISION

    # -- what one can see -------------------------------------------------------------------------------------------

    @property
    def action_mask(self) -> np.ndarray:
        """[instances] bool, True where the instance may be chosen."""
        return self._view["alive"] > 0

    @property
    def pending(self) -> int:
        """Index of the request that waits for a decision, or -1."""
        return int(self.state.cluster["pending"][0])

    @property
    def router(self) -> int:
        """The router replica that decides about the request that waits, 0..routers-1."""
        return int(self.state.requests["router"][self.pending])

    @property
    def now_s(self) -> float:
        """Simulated time in s."""
        return int(self.state.cluster["now"][0]) / TICKS_PER_S

    @property
    def outcome(self) -> np.ndarray:
        """What became of every request of the trace, dtype ``OUTCOME``; a new array at every call."""
        requests = self.state.requests
        result = np.zeros(len(requests), dtype=OUTCOME)
        drained = self._code == engine.DRAINED
        stage = requests["stage"]
        never = (stage == Stage.PENDING) & (requests["arrived"] < 0)
        result["state"] = np.where(never & drained, UNISSUED, stage)
        for name, field in (
            ("arrival_s", "arrived"),
            ("admitted_s", "admitted"),
            ("first_token_s", "first_token"),
            ("handed_over_s", "handed_over"),
            ("finish_s", "finish"),
        ):
            result[name] = np.where(requests[field] < 0, np.nan, requests[field] / TICKS_PER_S)
        for name, field in (
            ("instance", "target"),
            ("decode_instance", "decode_instance"),
            ("local_hit_tokens", "local_hit"),
            ("global_hit_tokens", "global_hit"),
            ("read_tokens", "read_tokens"),
            ("preemptions", "preemptions"),
            ("retries", "retries"),
            ("reason", "reason"),
        ):
            result[name] = requests[field]
        return result

    # -- snapshots --------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple:
        """A copy of everything that changes; `restore` goes back to it, as often as one likes.

        A policy's memory is the policy's own: copy it as well.
        """
        return self._code, State(*(array.copy() for array in used_part(self.state)))

    def restore(self, snapshot: tuple) -> None:
        """Go back to a snapshot of this cluster."""
        self._code, saved = snapshot
        if self.config.view_lag_s > 0:  # beliefs about entries that the snapshot has not made yet
            self.state.beliefs[len(saved.beliefs) : self.state.cluster["entry_top"][0]] = np.zeros(1, dtype=ENTRY)
        for mine, theirs in zip(self.state, saved, strict=True):
            mine[: len(theirs)] = theirs

    # -- inside -----------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        self._view, self._request = self.state.seen, self.state.request_view[0]
        self.view = self.state.seen.view(np.recarray)
        self.request = self.state.request_view.view(np.recarray)[0]

    def _grow(self) -> None:
        state = self.state
        used = state.cluster[0]
        fields = {}
        if len(state.holds) - used["hold_top"] < used["hold_margin"]:
            fields["holds"] = _larger(state.holds, int(used["hold_margin"]))
        if len(state.events) - used["heap_size"] < used["heap_margin"]:
            fields["events"] = _larger(state.events, int(used["heap_margin"]))
        if len(state.late) - used["late_top"] < used["late_margin"]:
            fields["late"] = _larger(state.late, int(used["late_margin"]))
        self.state = state._replace(**fields)

    def _check_fits(self, times: list[StepTime]) -> None:
        config, requests = self.config, self.trace.requests
        length = requests["prompt"].astype(np.int64) + requests["output"] - 1
        for i, time in enumerate(times):
            blocks = config.kv_blocks or time.kv_capacity_tokens // config.block_tokens
            needs = (
                requests["prompt"].astype(np.int64)
                if config.disaggregated and i < config.instances
                else length
            )
            r = int(needs.argmax())
            if needs[r] > blocks * config.block_tokens:
                raise SmetricError(
                    f"request {r} of {self.trace.name} (session {requests['session'][r]}, "
                    f"turn {requests['turn'][r]}) needs "
                    f"{needs[r]} tokens of KV cache, and instance {i} holds {blocks * config.block_tokens}: raise "
                    "cluster.kv_blocks, or end sessions earlier with workload.max_context"
                )

    def _preload(self) -> None:
        """Warm start: the sessions that come first are the most recent ones, dealt over the instances in turn."""
        requests = self.trace.requests
        _, first = np.unique(requests["session"], return_index=True)
        tokens = np.maximum(requests["history"], requests["system"])
        first = np.sort(first[tokens[first] > 0])
        state = self.state
        lag, state.cluster["lag"] = state.cluster["lag"].copy(), 0
        for k in range(len(first) - 1, -1, -1):
            engine.preload(
                self.state,
                first[k],
                k % self.config.instances,
                min(tokens[first[k]], requests["prompt"][first[k]]),
            )
        state.cluster["lag"] = lag
        if lag[0] > 0:  # the router knows the warm caches from the start
            top = state.cluster["entry_top"][0]
            state.beliefs[:top] = state.entries[:top]
            state.nodes["beliefs"] = state.nodes["entries"]


def used_part(state: State) -> State:
    """The state without the parts of its pools that were never used (they are virtual memory)."""
    cluster = state.cluster[0]
    return state._replace(
        entries=state.entries[: cluster["entry_top"]],
        holds=state.holds[: cluster["hold_top"]],
        events=state.events[: cluster["heap_size"]],
        late=state.late[: cluster["late_top"]],
        beliefs=state.beliefs[: cluster["entry_top"]],
    )


def instance_step_times(config: ClusterConfig) -> list[StepTime]:
    """The step time of every instance, prefill or colocated ones first."""
    total = config.instances + config.decode_instances
    names = [config.hardware] * total if isinstance(config.hardware, str) else list(config.hardware)
    made = {
        name: step_time(load_hardware(name), config.max_batched_tokens, config.max_seqs)
        for name in set(names)
    }
    return [made[name] for name in names]


def _ticks(seconds) -> np.ndarray:
    """Ticks of seconds; what is later than any window becomes the latest time."""
    seconds = np.minimum(np.asarray(seconds, dtype=np.float64), LATEST_S)
    return np.rint(seconds * TICKS_PER_S).astype(np.int64)


def _larger(array: np.ndarray, by: int) -> np.ndarray:
    result = np.zeros(2 * len(array) + by, dtype=array.dtype)
    result[: len(array)] = array
    return result


def _build(
    trace: Trace, config: ClusterConfig, mode: int, window_s: float, ttft_limit_s, times: list[StepTime]
) -> State:
    requests, count = _requests(trace), len(trace)
    requests["router"] = trace.requests["session"] % config.routers
    instances = _instances(config, times)
    nodes = np.zeros(len(trace.nodes), dtype=NODE_STATE)
    for name in ("parent", "start", "end"):
        nodes[name] = trace.nodes[name]
    for name in ("entries", "beliefs", "tier_prev", "tier_next"):
        nodes[name] = -1
    depth = int(trace.nodes["depth"].max()) + 2
    source = trace.requests
    released = (source["parent"] >= 0) & (mode != engine.OPEN)
    order = np.argsort(np.where(released, source["parent"], -1), kind="stable")
    children = order[np.count_nonzero(~released) :].astype(np.int32)
    child_start = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(source["parent"][released], minlength=count), out=child_start[1:])
    roots = np.flatnonzero(~released).astype(np.int32)
    roots = roots[np.argsort(requests["arrival"][roots], kind="stable")]
    traits = np.stack(
        [
            source["turn"],
            source["messages"],
            # A cache holds whole blocks, so what a session can hit is counted in them too.
            source["history"] // config.block_tokens * config.block_tokens,
            ttft_limit_s[0] + ttft_limit_s[1] * source["prompt"],
            source["session"],
        ],
        axis=1,
    ).astype(np.float32)
    user_start, users = np.zeros(len(nodes) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    if config.eviction == "belady":
        user_start, users = _users(trace)
    nodes["next_user"] = user_start[:-1]
    profiles = {id(t): t for t in times}
    rows = np.zeros(len(config.schedule), dtype=ROW)
    for k, (time, instance, up) in enumerate(sorted(config.schedule, key=lambda row: row[0])):
        rows[k] = (_ticks(time), instance, up)
    servers = -(-len(times) // _per_server(config, times))
    # Pools are virtual memory until they are used: an entry holds at least one block, a request one place in the heap.
    # A step admits at most max_seqs requests, one per token of its budget; only blocks bound the loads beside it.
    seats = min(config.max_seqs, config.max_batched_tokens)
    if config.disaggregated or config.loads == "async":
        seats = int(instances["capacity"].max())
    margin = (depth + 8) * min(seats, count) * 2
    heap_margin = 2 * count + 2 * len(times) + len(rows) + 64
    distinct = int((nodes["end"] // config.block_tokens - nodes["start"] // config.block_tokens).sum())
    held = np.minimum(instances["capacity"], distinct)
    entries = min(int(held.sum()), 2**31 - 2**16) + depth + 64
    lag = int(_ticks(config.view_lag_s))
    # In one event an entry changes once or twice, and a request is counted again when a step ends, when it is
    # preempted, admitted, lost or handed over, and when it leaves.
    counts = 8 * count if config.routers > 1 else 0
    late_margin = 2 * (entries + count) + counts + 64 * len(times) if lag else 0
    state = State(
        cluster=np.zeros(1, dtype=CLUSTER),
        instances=instances,
        requests=requests,
        nodes=nodes,
        entries=np.zeros(entries, dtype=ENTRY),
        holds=np.zeros(4 * margin + 4096, dtype=HOLD),
        events=np.zeros(2 * heap_margin + 4096, dtype=EVENT),
        running=np.zeros((len(times), config.max_seqs), dtype=np.int32),
        nic_free=np.zeros(servers * config.nics_per_server, dtype=np.int64),
        parked=np.zeros(count, dtype=np.int32),
        seen=np.zeros(config.instances, dtype=VIEW),
        request_view=np.zeros(1, dtype=REQUEST_VIEW),
        roots=roots,
        child_start=child_start,
        children=children,
        traits=traits,
        rows=rows,
        tokens_ticks=np.stack([t.tokens_ticks for t in profiles.values()]),
        rows_ticks=np.stack([t.rows_ticks for t in profiles.values()]),
        finished=np.zeros(count, dtype=np.int32),
        due=np.zeros(len(times), dtype=np.int32),
        path=np.zeros(depth, dtype=np.int32),
        found=np.zeros(depth + int(held.max()) + min(config.max_seqs, count), dtype=np.int32),
        hits=np.zeros(len(times), dtype=np.int64),
        late=np.zeros(3 * late_margin + 1, dtype=LATE),
        beliefs=np.zeros(entries if lag else 1, dtype=ENTRY),
        user_start=user_start,
        users=users,
        untold=np.zeros(config.routers * config.instances, dtype=COUNTS),
    )
    cluster = state.cluster[0]
    blocks = int(instances["capacity"][: config.instances].sum())
    tier_capacity = (
        UNLIMITED
        if math.isinf(config.global_tier)
        else math.floor(config.global_tier * blocks * config.block_tokens / config.chunk_tokens)
    )
    cluster["window_end"] = int(engine.NEVER) if math.isinf(window_s) else _ticks(window_s)
    cluster["targets"], cluster["mode"] = config.instances, mode
    cluster["pending"] = cluster["entry_free"] = cluster["hold_free"] = cluster["tier_head"] = cluster[
        "tier_tail"
    ] = -1
    cluster["hold_margin"], cluster["heap_margin"] = margin, heap_margin
    cluster["routers"] = config.routers
    cluster["lag"], cluster["late_free"], cluster["late_margin"] = lag, -1, late_margin
    cluster["last_decode"] = len(times) - 1
    cluster["asynchronous"] = config.loads == "async"
    cluster["has_tier"] = tier_capacity > 0
    cluster["write"] = WRITES.index(config.write)
    cluster["eviction"] = EVICTIONS.index(config.eviction)
    cluster["block"], cluster["chunk"] = config.block_tokens, config.chunk_tokens
    cluster["budget"], cluster["max_seqs"], cluster["min_load"] = (
        config.max_batched_tokens,
        config.max_seqs,
        config.min_load_tokens,
    )
    cluster["nic_latency"], cluster["pcie_latency"] = (
        _ticks(config.nic_latency_s),
        _ticks(config.pcie_latency_s),
    )
    cluster["tier_capacity"] = tier_capacity
    if not tier_capacity:
        instances["connector"] = 0
    for k in range(len(rows)):
        engine.push(state.events, state.cluster[0], rows[k]["time"], int(Kind.SCHEDULE), k, 0)
    return state


def _users(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """The requests whose path passes through each node, in the order of the trace.

    Returns:
        ([nodes + 1] int64, [sum of the depths] int32): those of node n are users[start[n]:start[n + 1]].
    """
    at, requests = trace.requests["node"].astype(np.int64), np.arange(len(trace), dtype=np.int32)
    pairs = []
    while len(at):
        pairs.append((at, requests))
        up = trace.nodes["parent"][at].astype(np.int64)
        at, requests = up[up > 0], requests[up > 0]
    nodes, users = (np.concatenate(column) for column in zip(*pairs, strict=True))
    start = np.zeros(len(trace.nodes) + 1, dtype=np.int64)
    np.cumsum(np.bincount(nodes, minlength=len(trace.nodes)), out=start[1:])
    return start, users[np.lexsort((users, nodes))]


def _requests(trace: Trace) -> np.ndarray:
    source = trace.requests
    requests = np.zeros(len(trace), dtype=REQUEST_STATE)
    requests["arrival"], requests["gap"] = _ticks(source["arrival"]), _ticks(source["gap"])
    requests["to_come"] = 1
    for name in ("prompt", "output", "node"):
        requests[name] = source[name]
    for name in (
        "instance",
        "source",
        "hold",
        "source_hold",
        "wait_prev",
        "wait_next",
        "arrived",
        "admitted",
        "first_token",
        "handed_over",
        "finish",
        "target",
        "decode_instance",
    ):
        requests[name] = -1
    return requests


def _per_server(config: ClusterConfig, times: list[StepTime]) -> int:
    return config.instances_per_server or times[0].instances_per_server


def _instances(config: ClusterConfig, times: list[StepTime]) -> np.ndarray:
    instances = np.zeros(len(times), dtype=INSTANCE)
    per_server = _per_server(config, times)
    profiles = list({id(t): t for t in times})
    for i, (time, inst) in enumerate(zip(times, instances, strict=True)):
        inst["alive"] = 1
        inst["run_next"] = engine.NEVER
        inst["role"] = (
            Role.BOTH if not config.disaggregated else Role.PREFILL if i < config.instances else Role.DECODE
        )
        inst["profile"] = profiles.index(id(time))
        inst["nic"] = (
            i // per_server * config.nics_per_server + i % per_server * config.nics_per_server // per_server
        )
        inst["capacity"] = inst["empty"] = config.kv_blocks or time.kv_capacity_tokens // config.block_tokens
        for name in ("lru_head", "lru_tail", "wait_head", "wait_tail", "late_head", "late_tail"):
            inst[name] = -1
        for name in ("half_pair", "context", "mixed_context", "connector", "api", "api_token"):
            inst[name] = getattr(time, name + "_ticks")
        inst["nic_token"] = round(time.kv_bytes_per_token / config.nic_bytes_per_s * TICKS_PER_S)
        inst["pcie_token"] = round(time.kv_bytes_per_token / config.pcie_bytes_per_s * TICKS_PER_S)
        inst["prefill_token_s"] = time.tokens_ticks[-1] / (len(time.tokens_ticks) - 1) / TICKS_PER_S
        inst["prefill_pair_s"] = 2 * time.half_pair_ticks / TICKS_PER_S
    return instances


def check_invariants(state: State) -> None:
    """Raise AssertionError where the state of a cluster contradicts itself (debug mode; RULES.md section 4)."""
    cluster, entries, holds = state.cluster[0], state.entries, state.holds
    top = cluster["entry_top"]
    live = entries[:top][entries["node"][:top] >= 0]
    size = (live["hi"] - live["lo"]).astype(np.int64)
    assert (size > 0).all(), "an entry without blocks"
    private = np.zeros(len(state.instances), dtype=np.int64)
    uses = np.zeros(top, dtype=np.int64)
    for q in state.requests[
        (state.requests["hold"] >= 0)
        | (state.requests["source_hold"] >= 0)
        | (state.requests["private"] > 0)
        | (state.requests["source_private"] > 0)
    ]:
        for owner, head, count in (
            (q["instance"], q["hold"], q["private"]),
            (q["source"], q["source_hold"], q["source_private"]),
        ):
            if owner >= 0:
                private[owner] += count
            while head >= 0:
                e = holds[head]["entry"]
                assert entries[e]["instance"] == owner, "a request uses blocks of another instance"
                uses[e] += 1
                head = holds[head]["next"]
    assert (uses == np.where(entries["node"][:top] >= 0, entries["uses"][:top], 0)).all(), (
        "uses are miscounted"
    )
    for i, inst in enumerate(state.instances):
        mine = live["instance"] == i
        assert inst["empty"] >= 0 and private[i] >= 0, f"instance {i}: negative blocks"
        assert inst["empty"] + size[mine].sum() + private[i] == inst["capacity"], (
            f"instance {i}: blocks are not conserved"
        )
        assert inst["idle"] == size[mine & (live["uses"] == 0)].sum(), (
            f"instance {i}: idle blocks are miscounted"
        )
        chain, e, before = 0, inst["lru_head"], -1
        while e >= 0:
            assert entries[e]["uses"] == 0 and entries[e]["lru_prev"] == before, (
                f"instance {i}: broken LRU queue"
            )
            chain += entries[e]["hi"] - entries[e]["lo"]
            before, e = e, entries[e]["lru_next"]
        assert chain == inst["idle"], f"instance {i}: the LRU queue does not hold the idle blocks"
        held = state.requests["instance"] == i
        assert inst["n_running"] == (held & (state.requests["stage"] == Stage.RUNNING)).sum(), (
            f"instance {i}: running"
        )
    order = np.lexsort((live["lo"], live["node"], live["instance"]))
    same = (np.diff(live["instance"][order]) == 0) & (np.diff(live["node"][order]) == 0)
    assert (live["hi"][order][:-1][same] <= live["lo"][order][1:][same]).all(), "a block is held twice"
    assert cluster["tier_used"] == state.nodes["stored"].sum() <= max(cluster["tier_capacity"], 0), (
        "the global tier overflows"
    )
    done = state.requests["stage"] == DONE
    assert (state.requests["generated"][done] == state.requests["output"][done]).all(), (
        "tokens are not conserved"
    )
    assert done.sum() == cluster["done"], "a request ends twice"
