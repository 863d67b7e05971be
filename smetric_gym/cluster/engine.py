"""The event loop: RULES.md, compiled.

Everything that Numba compiles and caches for the cluster lives in this one file, because a cached function is not
compiled again when a function of another file that it calls changes. Read it from the bottom: `advance` runs events
until the router must decide; `schedule` is a step of vLLM's scheduler; the sections above it are the KV pool of an
instance, the global tier and the links.

Two ideas make it fast. Residency is kept per run of blocks (an *entry*: blocks lo..hi-1 of one tree node on one
instance, with one use count and one place in the LRU queue), not per block. And equal decode steps are one event: a
*run* of k steps whose blocks are taken when somebody looks (`catch_up`), cut short when somebody wakes the instance.
"""

from __future__ import annotations

import numba
import numpy as np

STEP_END, LOAD_END, SCHEDULE, DELIVER, ARRIVAL = 0, 1, 2, 3, 4
PENDING, ROUTED, WAITING, LOADING, RUNNING, TRANSFER, DONE, UNISSUED = 0, 1, 2, 3, 4, 5, 6, 7
BOTH, PREFILL, DECODE = 0, 1, 2
OPEN, CAUSAL, CLOSED = 0, 1, 2
WRITE_PROMPT, WRITE_ALL, WRITE_NONE = 0, 1, 2
LRU, LFU, BELADY = 0, 1, 2
DRAINED, DECISION, GROW, PAUSED = 0, 1, 2, 3
"""What `advance` returns."""

NEVER = np.int64(2**62)

# No function here allocates, so arrays need no reference counts: without them (`_nrt`) the loop is five times faster.
njit = numba.njit(cache=True, nogil=True, _nrt=False)


# ---- events: a binary heap ordered by (time, kind, id) ------------------------------------------------------------


@njit
def push(events, cluster, time, kind, identity, epoch):
    """Enter an event."""
    key = (np.int64(kind) << 40) | np.int64(identity)
    at = cluster.heap_size
    cluster.heap_size += 1
    while at > 0:
        up = (at - 1) >> 1
        if events[up].time < time or (events[up].time == time and events[up].key <= key):
            break
        events[at] = events[up]
        at = up
    events[at].time = time
    events[at].key = key
    events[at].epoch = epoch


@njit
def pop(events, cluster):
    """Remove the first event; the caller has read it."""
    cluster.heap_size -= 1
    size = cluster.heap_size
    time, key, epoch = events[size].time, events[size].key, events[size].epoch
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            events[right].time < events[child].time
            or (events[right].time == events[child].time and events[right].key < events[child].key)
        ):
            child = right
        if time < events[child].time or (time == events[child].time and key <= events[child].key):
            break
        events[at] = events[child]
        at = child
    events[at].time = time
    events[at].key = key
    events[at].epoch = epoch


# ---- late news: what a router learns only `view_lag` later -----------------------------------------------------------


@njit
def new_news(s, i):
    """Put an empty piece of news at the end of the queue of instance `i`; return its number, or -1 (an error)."""
    cluster, inst = s.cluster[0], s.instances[i]
    k = cluster.late_free
    if k >= 0:
        cluster.late_free = s.late[k].next
    else:
        k = cluster.late_top
        cluster.late_top += 1
        if cluster.late_top > len(s.late):
            cluster.error = 2
            cluster.late_top -= 1
            return np.int64(-1)
    news = s.late[k]
    news.time = inst.moment + cluster.lag
    news.entry = -1
    news.router = -1
    cluster.told += 1
    news.stamp = cluster.told
    news.next = -1
    if inst.late_tail >= 0:
        s.late[inst.late_tail].next = k
    else:
        inst.late_head = k
    inst.late_tail = k
    return np.int64(k)


@njit
def tell_entry(s, e):
    """Queue the news of an entry, when the view lags."""
    if s.cluster[0].lag == 0:
        return
    entry = s.entries[e]
    k = new_news(s, entry.instance)
    if k >= 0:
        news = s.late[k]
        news.entry = e
        news.node = entry.node
        news.lo = entry.lo
        news.hi = entry.hi


@njit
def tell_load(s, i):
    """Queue a load report of instance `i` where it differs from the last one, when the view lags."""
    inst = s.instances[i]
    used = inst.capacity - inst.empty - inst.idle
    if s.cluster[0].lag == 0 or (
        inst.said_running == inst.n_running and inst.said_waiting == inst.n_waiting and inst.said_used == used
    ):
        return
    inst.said_running = inst.n_running
    inst.said_waiting = inst.n_waiting
    inst.said_used = used
    k = new_news(s, i)
    if k >= 0:
        news = s.late[k]
        news.running = inst.n_running
        news.waiting = inst.n_waiting
        news.used = used


@njit
def tell_count(s, q, requests, tokens, todo, pairs, routed):
    """Queue what the replica of `q` counted of its instance for the others, when the view lags."""
    cluster = s.cluster[0]
    if cluster.lag == 0 or cluster.routers == 1 or q.instance >= cluster.targets:
        return
    k = new_news(s, np.int64(q.instance))
    if k >= 0:
        news, untold = s.late[k], s.untold[q.router * cluster.targets + q.instance]
        news.router = q.router
        news.in_flight = requests
        news.in_flight_tokens = tokens
        news.todo = todo
        news.todo_pairs = pairs
        news.routed = routed
        untold.in_flight += requests
        untold.in_flight_tokens += tokens
        untold.todo += todo
        untold.todo_pairs += pairs
        untold.routed += routed


@njit
def believe(s, e, news, i):
    """Bring the router's belief of entry `e` up to date."""
    belief = s.beliefs[e]
    if news.stamp < belief.stamp:
        return  # the number of the entry went to another instance, whose later news was heard first
    belief.stamp = news.stamp
    if belief.lo < belief.hi and (news.lo >= news.hi or belief.node != news.node):
        if belief.node_prev >= 0:
            s.beliefs[belief.node_prev].node_next = belief.node_next
        else:
            s.nodes[belief.node].beliefs = belief.node_next
        if belief.node_next >= 0:
            s.beliefs[belief.node_next].node_prev = belief.node_prev
        belief.hi = belief.lo
    if news.lo < news.hi:
        if belief.lo >= belief.hi:
            belief.node_prev = -1
            belief.node_next = s.nodes[news.node].beliefs
            if belief.node_next >= 0:
                s.beliefs[belief.node_next].node_prev = e
            s.nodes[news.node].beliefs = e
        belief.node = news.node
        belief.instance = i
        belief.lo = news.lo
        belief.hi = news.hi


@njit
def hear(s, i):
    """Take in the news of instance `i` that are due."""
    cluster, inst = s.cluster[0], s.instances[i]
    while inst.late_head >= 0 and s.late[inst.late_head].time <= cluster.now:
        k = inst.late_head
        news = s.late[k]
        inst.late_head = news.next
        if inst.late_head < 0:
            inst.late_tail = -1
        if news.entry >= 0:
            believe(s, news.entry, news, i)
        elif news.router >= 0:
            untold = s.untold[news.router * cluster.targets + i]
            untold.in_flight -= news.in_flight
            untold.in_flight_tokens -= news.in_flight_tokens
            untold.todo -= news.todo
            untold.todo_pairs -= news.todo_pairs
            untold.routed -= news.routed
        else:
            inst.told_running = news.running
            inst.told_waiting = news.waiting
            inst.told_used = news.used
        news.next = cluster.late_free
        cluster.late_free = k


# ---- the KV pool of an instance -----------------------------------------------------------------------------------


@njit
def lru_append(entries, inst, e):
    """Make entry `e` idle: the most recently used one."""
    entry = entries[e]
    entry.lru_next = -1
    entry.lru_prev = inst.lru_tail
    if inst.lru_tail >= 0:
        entries[inst.lru_tail].lru_next = e
    else:
        inst.lru_head = e
    inst.lru_tail = e
    inst.idle += entry.hi - entry.lo


@njit
def lru_remove(entries, inst, e):
    """Take entry `e` out of the LRU queue."""
    entry = entries[e]
    if entry.lru_prev >= 0:
        entries[entry.lru_prev].lru_next = entry.lru_next
    else:
        inst.lru_head = entry.lru_next
    if entry.lru_next >= 0:
        entries[entry.lru_next].lru_prev = entry.lru_prev
    else:
        inst.lru_tail = entry.lru_prev
    inst.idle -= entry.hi - entry.lo


@njit
def new_entry(s, node, i, lo, hi):
    """Make an entry of blocks lo..hi-1 of `node` on instance `i`, used once; return its number."""
    cluster = s.cluster[0]
    e = cluster.entry_free
    if e >= 0:
        cluster.entry_free = s.entries[e].node_next
    else:
        e = cluster.entry_top
        cluster.entry_top += 1
    entry = s.entries[e]
    entry.node = node
    entry.instance = i
    entry.lo = lo
    entry.hi = hi
    entry.uses = 1
    entry.admissions = 1
    entry.node_prev = -1
    entry.node_next = s.nodes[node].entries
    if entry.node_next >= 0:
        s.entries[entry.node_next].node_prev = e
    s.nodes[node].entries = e
    tell_entry(s, e)
    return e


@njit
def drop_entry(s, e):
    """Return an entry without blocks to the pool."""
    cluster = s.cluster[0]
    entry = s.entries[e]
    if entry.node_prev >= 0:
        s.entries[entry.node_prev].node_next = entry.node_next
    else:
        s.nodes[entry.node].entries = entry.node_next
    if entry.node_next >= 0:
        s.entries[entry.node_next].node_prev = entry.node_prev
    entry.node_next = cluster.entry_free
    entry.node = -1
    cluster.entry_free = e


@njit
def take_hold(s):
    """A free hold, or -1 where the pool is used up (its margin was too small: an error that `advance` reports)."""
    cluster = s.cluster[0]
    h = cluster.hold_free
    if h >= 0:
        cluster.hold_free = s.holds[h].next
    elif cluster.hold_top < len(s.holds):
        h = cluster.hold_top
        cluster.hold_top += 1
    else:
        cluster.error = 1
    return h


@njit
def use_entry(s, q, e):
    """Put entry `e` at the head of the request's holds."""
    h = take_hold(s)
    if h < 0:
        return
    s.holds[h].entry = e
    s.holds[h].next = q.hold
    q.hold = h


@njit
def reuse_entry(s, inst, e):
    """An admitted request uses entry `e`, which was there before it."""
    entry = s.entries[e]
    if entry.uses == 0:
        lru_remove(s.entries, inst, e)
    entry.uses += 1
    entry.admissions += 1


@njit
def next_use(s, n):
    """The first request to come that passes through node `n`, or len(s.requests) where there is none."""
    node, end = s.nodes[n], s.user_start[n + 1]
    while node.next_user < end and not s.requests[s.users[node.next_user]].to_come:
        node.next_user += 1
    return np.int64(s.users[node.next_user]) if node.next_user < end else len(s.requests)


@njit
def expect(s, q):
    """The request is to come again: the nodes of its path look for their next user from the start."""
    q.to_come = 1
    if s.cluster[0].eviction == BELADY:
        n = q.node
        while n > 0:
            s.nodes[n].next_user = s.user_start[n]
            n = s.nodes[n].parent


@njit
def first_out(s, inst):
    """The idle entry whose content goes first; equals go in LRU order, and so children before their parents."""
    e = inst.lru_head
    eviction = s.cluster[0].eviction
    if eviction == LRU:
        return e
    best, worth = e, np.int64(NEVER)
    while e >= 0:
        entry = s.entries[e]
        value = np.int64(entry.admissions) if eviction == LFU else -np.int64(next_use(s, entry.node))
        if value < worth:
            best, worth = e, value
        e = entry.lru_next
    return best


@njit
def take(s, inst, n):
    """Take `n` new blocks: empty ones first, then idle ones by the eviction policy, whose content is lost."""
    empty = min(n, inst.empty)
    inst.empty -= empty
    n -= empty
    while n > 0:
        e = first_out(s, inst)
        entry = s.entries[e]
        size = np.int64(entry.hi - entry.lo)
        if size <= n:
            lru_remove(s.entries, inst, e)
            entry.hi = entry.lo
            tell_entry(s, e)
            drop_entry(s, e)
            n -= size
        else:
            entry.hi -= n
            inst.idle -= n
            tell_entry(s, e)
            n = 0


@njit
def give_up(s, inst, hold, private):
    """Free the blocks of a request: its deepest content becomes idle first, private blocks are empty."""
    inst.empty += private
    inst.blocked = 0
    cluster = s.cluster[0]
    while hold >= 0:
        e = s.holds[hold].entry
        s.entries[e].uses -= 1
        if s.entries[e].uses == 0:
            lru_append(s.entries, inst, e)
        nxt = s.holds[hold].next
        s.holds[hold].next = cluster.hold_free
        cluster.hold_free = hold
        hold = nxt


@njit
def give_up_all(s, inst, q):
    """Free everything that the request holds on its instance."""
    give_up(s, inst, q.hold, q.private)
    q.hold = -1
    q.private = 0
    q.blocks = 0
    q.computed = 0
    q.ready = 0


@njit
def walk(s, q):
    """Write the nodes of the request's path into `path`, leaf first, without the root; return how many."""
    depth = 0
    n = q.node
    while n > 0:
        s.path[depth] = n
        depth += 1
        n = s.nodes[n].parent
    return depth


@njit
def look_up(s, i, depth, most):
    """Find the leading resident blocks of `path` on instance `i`, at most `most`.

    Returns (blocks, entries written to `found`, root first).
    """
    block = s.cluster[0].block
    at = np.int64(0)
    count = 0
    for d in range(depth - 1, -1, -1):
        node = s.nodes[s.path[d]]
        end = min(np.int64(node.end // block), most)
        while at < end:
            e = node.entries
            while e >= 0 and not (
                s.entries[e].instance == i and s.entries[e].lo <= at and at < s.entries[e].hi
            ):
                e = s.entries[e].node_next
            if e < 0:
                return at, count
            s.found[count] = e
            count += 1
            at = min(np.int64(s.entries[e].hi), most)
    return at, count


@njit
def insert_hold(s, hold, e, part):
    """In a request's holds, put `part` in front of `e`."""
    h = hold
    while h >= 0:
        if s.holds[h].entry == e:
            # The holds are a list: the new hold takes over `e`, and this one becomes `part`.
            new = take_hold(s)
            if new >= 0:
                s.holds[new].entry = e
                s.holds[new].next = s.holds[h].next
                s.holds[h].entry = part
                s.holds[h].next = new
            return
        h = s.holds[h].next


@njit
def cut(s, i, e, at):
    """Split entry `e` before block `at`, so that a request can use its head alone (a fully cached prompt; rare)."""
    inst = s.instances[i]
    entry = s.entries[e]
    part = new_entry(s, entry.node, i, at, entry.hi)
    tail = s.entries[part]
    tail.uses = entry.uses
    tail.admissions = entry.admissions
    if entry.uses == 0:
        # The tail is evicted before the head.
        tail.lru_next = e
        tail.lru_prev = entry.lru_prev
        if tail.lru_prev >= 0:
            s.entries[tail.lru_prev].lru_next = part
        else:
            inst.lru_head = part
        entry.lru_prev = part
    else:
        for k in range(inst.n_running):
            insert_hold(s, s.requests[s.running[i, k]].hold, e, part)
        r = inst.wait_head
        while r >= 0:
            insert_hold(s, s.requests[r].hold, e, part)
            r = s.requests[r].wait_next
        if inst.role == PREFILL:
            for r in range(len(s.requests)):
                if s.requests[r].source == i:
                    insert_hold(s, s.requests[r].source_hold, e, part)
    entry.hi = at
    tell_entry(s, e)


@njit
def fill(s, i, q, first, last):
    """Blocks first..last-1 of the request are full now: they get content, unless it is there already."""
    if first >= last:
        return
    block = s.cluster[0].block
    depth = 0
    n = q.node
    while n > 0:
        s.path[depth] = n
        depth += 1
        if s.nodes[n].start // block <= first:
            break
        n = s.nodes[n].parent
    for d in range(depth - 1, -1, -1):
        n = s.path[d]
        at = max(np.int64(s.nodes[n].start // block), first)
        end = min(np.int64(s.nodes[n].end // block), last)
        while at < end:
            covered = -1
            stop = end
            e = s.nodes[n].entries
            while e >= 0:
                entry = s.entries[e]
                if entry.instance == i:
                    if entry.lo <= at and at < entry.hi:
                        covered = e
                        break
                    if at < entry.lo and entry.lo < stop:
                        stop = np.int64(entry.lo)
                e = entry.node_next
            if covered >= 0:
                at = min(np.int64(s.entries[covered].hi), end)
                continue
            tail = -1 if q.hold < 0 else s.holds[q.hold].entry
            if (
                tail >= 0
                and s.entries[tail].node == n
                and s.entries[tail].uses == 1
                and s.entries[tail].hi == at
                and (s.cluster[0].eviction != LFU or s.entries[tail].admissions == 1)
            ):
                s.entries[tail].hi = stop
                tell_entry(s, np.int64(tail))
            else:
                use_entry(s, q, new_entry(s, n, i, at, stop))
            q.private -= stop - at
            at = stop


# ---- the global tier ----------------------------------------------------------------------------------------------


@njit
def tier_remove(s, n):
    """Take node `n` out of the LRU order of the tier."""
    cluster = s.cluster[0]
    node = s.nodes[n]
    if node.tier_prev >= 0:
        s.nodes[node.tier_prev].tier_next = node.tier_next
    else:
        cluster.tier_head = node.tier_next
    if node.tier_next >= 0:
        s.nodes[node.tier_next].tier_prev = node.tier_prev
    else:
        cluster.tier_tail = node.tier_prev
    node.in_tier = 0


@njit
def tier_touch(s, n):
    """Make node `n` the most recent one of the tier."""
    cluster = s.cluster[0]
    node = s.nodes[n]
    if node.in_tier:
        if cluster.tier_tail == n:
            return
        tier_remove(s, n)
    node.in_tier = 1
    node.tier_next = -1
    node.tier_prev = cluster.tier_tail
    if cluster.tier_tail >= 0:
        s.nodes[cluster.tier_tail].tier_next = n
    else:
        cluster.tier_head = n
    cluster.tier_tail = n


@njit
def tier_look_up(s, depth, most):
    """Leading chunks of `path` that the tier holds, at most `most`."""
    chunk = s.cluster[0].chunk
    at = np.int64(0)
    for d in range(depth - 1, -1, -1):
        node = s.nodes[s.path[d]]
        size = node.end // chunk - node.start // chunk
        at += node.stored
        if node.stored < size or at >= most:
            break
    return min(at, most)


@njit
def tier_read(s, depth, chunks):
    """Touch the nodes that hold the first `chunks` chunks, deepest first."""
    chunk = s.cluster[0].chunk
    for d in range(depth):
        node = s.nodes[s.path[d]]
        if node.start // chunk < chunks and node.end // chunk > node.start // chunk:
            tier_touch(s, s.path[d])


@njit
def tier_write(s, q, tokens):
    """Store the leading full chunks of `tokens` tokens of the request, then evict down to the capacity."""
    cluster = s.cluster[0]
    limit = tokens // cluster.chunk
    n = q.node
    while n > 0:
        node = s.nodes[n]
        start = node.start // cluster.chunk
        size = min(np.int64(node.end // cluster.chunk), np.int64(limit)) - start
        if size > 0:
            if size > node.stored:
                cluster.tier_used += size - node.stored
                node.stored = size
            tier_touch(s, n)
        n = node.parent
    while cluster.tier_used > cluster.tier_capacity:
        n = cluster.tier_head
        node = s.nodes[n]
        surplus = min(cluster.tier_used - cluster.tier_capacity, np.int64(node.stored))
        node.stored -= surplus
        cluster.tier_used -= surplus
        if node.stored == 0:
            tier_remove(s, n)


# ---- links --------------------------------------------------------------------------------------------------------


@njit
def read_from_tier(s, inst, tokens, now):
    """Queue a load on the NIC, then on PCIe; return when it has arrived."""
    cluster = s.cluster[0]
    at = max(now, s.nic_free[inst.nic]) + cluster.nic_latency + tokens * inst.nic_token
    s.nic_free[inst.nic] = at
    at = max(at, inst.pcie_free) + cluster.pcie_latency + tokens * inst.pcie_token
    inst.pcie_free = at
    return at


@njit
def transfer(s, source, inst, tokens, now):
    """Queue a prefill-to-decode transfer on the NICs of both sides; return when it has arrived."""
    cluster = s.cluster[0]
    at = max(now, max(s.nic_free[source.nic], s.nic_free[inst.nic]))
    at += cluster.nic_latency + tokens * max(source.nic_token, inst.nic_token)
    s.nic_free[source.nic] = at
    s.nic_free[inst.nic] = at
    return at


# ---- what the router counts ---------------------------------------------------------------------------------------


@njit
def set_todo(s, q, todo):
    """Set the prompt tokens of a request that the router counts as un-prefilled on its instance."""
    inst = s.instances[q.instance]
    prompt, old = np.int64(q.prompt), np.int64(q.todo)
    if todo == old:
        return
    pairs = todo * (2 * prompt - todo) - old * (2 * prompt - old)
    inst.todo += todo - old
    inst.todo_pairs += pairs
    q.todo = todo
    tell_count(s, q, 0, 0, todo - old, pairs, 0)


@njit
def count_in(s, q, tokens):
    """Count a request that was routed or handed over to its instance."""
    inst = s.instances[q.instance]
    inst.in_flight += 1
    inst.in_flight_tokens += tokens
    inst.routed += 1
    tell_count(s, q, 1, tokens, 0, 0, 1)


@njit
def count_out(s, q, tokens):
    """Count it out."""
    inst = s.instances[q.instance]
    inst.in_flight -= 1
    inst.in_flight_tokens -= tokens
    tell_count(s, q, -1, -tokens, 0, 0, 0)


# ---- queues of an instance ----------------------------------------------------------------------------------------


@njit
def wait_append(s, inst, r):
    """Put a request at the tail of the waiting queue."""
    q = s.requests[r]
    q.wait_next = -1
    q.wait_prev = inst.wait_tail
    if inst.wait_tail >= 0:
        s.requests[inst.wait_tail].wait_next = r
    else:
        inst.wait_head = r
    inst.wait_tail = r
    inst.n_waiting += 1


@njit
def wait_prepend(s, inst, r):
    """Put a request at the head of the waiting queue."""
    q = s.requests[r]
    q.wait_prev = -1
    q.wait_next = inst.wait_head
    if inst.wait_head >= 0:
        s.requests[inst.wait_head].wait_prev = r
    else:
        inst.wait_tail = r
    inst.wait_head = r
    inst.n_waiting += 1


@njit
def wait_remove(s, inst, r):
    """Take a request out of the waiting queue."""
    q = s.requests[r]
    if q.wait_prev >= 0:
        s.requests[q.wait_prev].wait_next = q.wait_next
    else:
        inst.wait_head = q.wait_next
    if q.wait_next >= 0:
        s.requests[q.wait_next].wait_prev = q.wait_prev
    else:
        inst.wait_tail = q.wait_prev
    inst.n_waiting -= 1


# ---- a step -------------------------------------------------------------------------------------------------------


@njit
def run_length(inst, steps):
    """Ticks of the first `steps` steps of the run under way."""
    rows = np.int64(inst.n_running)
    return steps * inst.run_base + inst.run_rate * (
        steps * inst.run_context + rows * (steps * (steps - 1) // 2)
    )


@njit
def preempt(s, i, r):
    """The last running request loses its blocks and goes to the head of the waiting queue."""
    inst, q = s.instances[i], s.requests[r]
    give_up_all(s, inst, q)
    q.stage = WAITING
    q.step_tokens = 0
    q.preemptions += 1
    expect(s, q)
    if inst.role != DECODE:
        set_todo(s, q, np.int64(q.prompt))
    wait_prepend(s, inst, r)


@njit
def yield_kept(s, i, ahead):
    """The last waiting request behind `ahead` (-1: of all) that keeps blocks of an ended load loses them.

    Returns False where there is none. Without it, a request could wait for such blocks for ever.
    """
    inst = s.instances[i]
    r = inst.wait_tail
    while r >= 0 and r != ahead:
        q = s.requests[r]
        if q.ready:
            give_up_all(s, inst, q)
            q.preemptions += 1
            expect(s, q)
            if inst.role != DECODE:
                set_todo(s, q, np.int64(q.prompt))
            return True
        r = q.wait_prev
    return False


@njit
def idle_hits(s, count, held):
    """Idle blocks among the first `held` ones, which the first `count` entries of `found` hold."""
    idle = np.int64(0)
    for k in range(count):
        entry = s.entries[s.found[k]]
        if entry.uses == 0:
            idle += min(np.int64(entry.hi), held) - entry.lo
    return idle


@njit
def schedule(s, i):
    """Schedule the next step of instance `i`, or leave it idle (RULES.md section 5)."""
    cluster, inst = s.cluster[0], s.instances[i]
    block = np.int64(cluster.block)
    now = cluster.now
    reads_tier = cluster.has_tier != 0 and inst.role != DECODE
    for _attempt in range(2):
        budget = np.int64(cluster.budget)
        rows = 0
        half_pairs = np.int64(0)
        context = np.int64(0)
        mixed = False
        decodes = True  # every scheduled request decodes one token
        begin = now
        preempted = False
        at = 0
        while at < inst.n_running:
            if budget == 0:
                decodes = False
                s.requests[s.running[i, at]].step_tokens = 0
                at += 1
                continue
            r = np.int64(s.running[i, at])
            q = s.requests[r]
            need = np.int64(q.prompt + q.generated - q.computed)
            n = min(need, budget)
            blocks = (q.computed + n + block - 1) // block - q.blocks
            fits = True
            while blocks > inst.empty + inst.idle:
                if s.running[i, inst.n_running - 1] == r and yield_kept(s, i, np.int64(-1)):
                    continue
                inst.n_running -= 1
                victim = np.int64(s.running[i, inst.n_running])
                preempt(s, i, victim)
                preempted = True
                if victim == r:
                    fits = False
                    break
            if not fits:
                break
            take(s, inst, blocks)
            q.private += blocks
            q.blocks += blocks
            fill(s, i, q, np.int64(q.computed) // block, (q.computed + n) // block)
            q.step_tokens = n
            budget -= n
            rows += 1
            if n > 1:
                mixed = True
                half_pairs += n * (2 * np.int64(q.computed) + n)
            else:
                context += q.computed + 1
            if need > 1 or q.generated == 0:
                decodes = False
            at += 1

        w = inst.wait_head
        while (
            w >= 0 and not preempted and not inst.blocked and budget > 0 and inst.n_running < cluster.max_seqs
        ):
            r = np.int64(w)
            q = s.requests[r]
            w = q.wait_next
            if q.stage == LOADING:
                continue
            known = np.int64(q.prompt + q.generated)
            depth = 0
            chunks = np.int64(0)
            count = 0
            load = np.int64(0)
            local = np.int64(0)
            target = np.int64(0)
            if q.ready:
                start = np.int64(q.computed)
                held = np.int64(q.blocks)
            else:
                depth = walk(s, q)
                held, count = look_up(s, i, depth, (known - 1) // block)
                local = held * block
                if q.source >= 0:
                    target = np.int64(q.prompt)
                    load = max(np.int64(0), target - local)
                elif reads_tier:
                    chunks = tier_look_up(s, depth, known // cluster.chunk)
                    target = min(chunks * cluster.chunk, known - 1)
                    if target - local >= cluster.min_load:
                        load = target - local
                start = local + load
            beside = q.source >= 0 or (load > 0 and cluster.asynchronous != 0)
            n = np.int64(0) if beside else min(known - start, budget)
            blocks = (start + n + block - 1) // block - held
            while blocks + idle_hits(s, count, held) > inst.empty + inst.idle:
                if inst.n_running > 0 or not yield_kept(s, i, r):
                    inst.blocked = 1
                    break
            if inst.blocked:
                break
            if not q.ready:
                for k in range(count):
                    e = np.int64(s.found[k])
                    if s.entries[e].hi > held:
                        cut(s, i, e, held)
                    reuse_entry(s, inst, e)
                    use_entry(s, q, e)
                q.to_come = 0
                if chunks > 0:
                    tier_read(s, depth, chunks)
                if q.admitted < 0:
                    q.admitted = now
                    q.local_hit = local
                    q.global_hit = load
                if inst.role != DECODE:
                    set_todo(s, q, max(np.int64(0), q.prompt - start))
            take(s, inst, blocks)
            q.private += blocks
            q.blocks = held + blocks
            if load > 0 or beside:
                done = now
                if q.source >= 0:
                    if load > 0:
                        done = transfer(s, s.instances[q.source], inst, load, now)
                else:
                    moved = target - local // cluster.chunk * cluster.chunk
                    q.read_tokens += moved
                    done = read_from_tier(s, inst, moved, now)
                if beside:
                    q.stage = LOADING
                    q.load_to = start
                    q.load_hit = held
                    push(s.events, cluster, done, LOAD_END, r, q.epoch)
                    continue
                begin = max(begin, done)
            fill(s, i, q, np.int64(q.computed) // block if q.ready else held, (start + n) // block)
            q.computed = start
            wait_remove(s, inst, r)
            q.stage = RUNNING
            q.ready = 0
            s.running[i, inst.n_running] = r
            inst.n_running += 1
            q.step_tokens = n
            budget -= n
            rows += 1
            if n > 1:
                mixed = True
                half_pairs += n * (2 * start + n)
            else:
                context += start + 1
            if known - start > 1 or q.generated == 0:
                decodes = False
        if rows > 0 or not preempted:
            break

    tell_load(s, i)
    if rows == 0:
        inst.busy = 0
        return
    tokens = np.int64(cluster.budget) - budget
    rate = inst.mixed_context if mixed else inst.context
    inst.run_base = (
        s.tokens_ticks[inst.profile, tokens] + s.rows_ticks[inst.profile, rows] + inst.half_pair * half_pairs
    )
    if reads_tier:
        inst.run_base += inst.connector
    inst.run_rate = rate
    inst.run_context = context
    inst.run_start = begin
    inst.run_applied = 1
    inst.run_steps = 1
    inst.busy = 1
    # After a preemption the next step may admit again, so it is not one of a run.
    if decodes and begin == now and rows == inst.n_running and inst.role != PREFILL and not preempted:
        inst.run_steps = equal_steps(s, i)
    set_next(inst)
    inst.epoch += 1
    push(s.events, cluster, inst.run_start + run_length(inst, inst.run_steps), STEP_END, i, inst.epoch)


@njit
def equal_steps(s, i):
    """How many decode steps from now on are alike: until a request completes or the blocks are used up."""
    inst = s.instances[i]
    block = s.cluster[0].block
    steps = np.int64(NEVER)
    for k in range(inst.n_running):
        q = s.requests[s.running[i, k]]
        steps = min(steps, np.int64(q.output - q.generated))
    free = inst.empty + inst.idle
    if inst.n_running * ((steps - 1) // block + 1) <= free:
        return steps
    for step in range(1, steps):
        for k in range(inst.n_running):
            if (s.requests[s.running[i, k]].computed + step) % block == 0:
                free -= 1
        if free < 0:
            return np.int64(step)
    return steps


@njit
def set_next(inst):
    """Note when the next step of the run begins whose blocks have not been taken."""
    if inst.run_applied < inst.run_steps:
        inst.run_next = inst.run_start + run_length(inst, inst.run_applied)
    else:
        inst.run_next = NEVER


@njit
def catch_up(s, i, until):
    """Take the blocks of the steps of a run that began at or before `until`."""
    inst = s.instances[i]
    block = np.int64(s.cluster[0].block)
    while inst.run_next <= until:
        step = inst.run_applied
        inst.moment = inst.run_next
        inst.run_applied += 1
        set_next(inst)
        for k in range(inst.n_running):
            q = s.requests[s.running[i, k]]
            before = q.computed + step
            if before % block == 0:
                take(s, inst, np.int64(1))
                q.private += 1
                q.blocks += 1
            if (before + 1) % block == 0:
                fill(s, i, q, before // block, (before + 1) // block)
        tell_load(s, i)
    inst.moment = s.cluster[0].now


@njit
def make_due(s, i):
    """Schedule a step of instance `i` when this event is over."""
    cluster, inst = s.cluster[0], s.instances[i]
    if not inst.due:
        inst.due = 1
        s.due[cluster.n_due] = i
        cluster.n_due += 1


@njit
def wake(s, i, until):
    """Let an idle instance schedule a step when this event is over; cut a run short after the step under way.

    `until` is now, or one tick earlier where the waking event comes before the step ends of this moment.
    """
    inst = s.instances[i]
    if not inst.alive:
        return
    inst.blocked = 0
    if not inst.busy:
        make_due(s, i)
    elif inst.run_applied < inst.run_steps:
        catch_up(s, i, until)
        if inst.run_applied < inst.run_steps:
            inst.run_steps = inst.run_applied
            inst.run_next = NEVER
            inst.epoch += 1
            push(
                s.events,
                s.cluster[0],
                inst.run_start + run_length(inst, inst.run_steps),
                STEP_END,
                i,
                inst.epoch,
            )


# ---- ends of things -----------------------------------------------------------------------------------------------


@njit
def release_source(s, q):
    """A transfer is over (or was not needed): the prefill instance gives up the request's blocks."""
    inst = s.instances[q.source]
    give_up(s, inst, q.source_hold, q.source_private)
    q.source_hold = -1
    q.source_private = 0
    q.source = -1


@njit
def complete(s, r):
    """A request has all its tokens; its children may arrive."""
    cluster, q = s.cluster[0], s.requests[r]
    q.stage = DONE
    q.finish = cluster.now
    cluster.unfinished -= 1
    s.finished[cluster.done] = r
    cluster.done += 1
    if cluster.mode == OPEN:
        return
    for k in range(s.child_start[r], s.child_start[r + 1]):
        child = s.children[k]
        c = s.requests[child]
        time = q.finish + c.gap if cluster.mode == CLOSED else max(c.arrival, q.finish)
        if time < cluster.window_end:
            push(s.events, cluster, time, ARRIVAL, child, c.epoch)
        else:
            c.stage = UNISSUED


@njit
def choose_decode(s):
    """The alive decode instance with the fewest in-flight tokens, ties to the next after the last chosen; or -1."""
    cluster = s.cluster[0]
    first = cluster.targets
    size = len(s.instances) - first
    best = -1
    for k in range(size):
        i = first + (cluster.last_decode - first + 1 + k) % size
        if s.instances[i].alive and (
            best < 0 or s.instances[i].in_flight_tokens < s.instances[best].in_flight_tokens
        ):
            best = i
    if best >= 0:
        cluster.last_decode = best
    return best


@njit
def hand_over(s, r, until):
    """Give a prefilled request to a decode instance, or let it wait for one."""
    q = s.requests[r]
    i = np.int64(choose_decode(s))
    if i < 0:
        q.stage = TRANSFER
        return
    inst = s.instances[i]
    q.instance = i
    q.decode_instance = i
    q.stage = WAITING
    count_in(s, q, q.prompt + 1)
    wait_append(s, inst, r)
    wake(s, i, until)


@njit
def end_step(s, i):
    """The step (or the run of steps) of instance `i` is over."""
    cluster, inst = s.cluster[0], s.instances[i]
    now = cluster.now
    catch_up(s, i, now)
    steps = inst.run_steps
    has_tier = cluster.has_tier != 0 and inst.role != DECODE and cluster.write != WRITE_NONE
    inst.busy = 0
    # Effects on requests first, then the tier, then completions: each in running order.
    for k in range(inst.n_running):
        q = s.requests[s.running[i, k]]
        n = q.step_tokens
        if n == 0:
            continue
        before = q.computed
        if n > 1:
            q.computed += n
        else:
            q.computed += steps
        if q.computed >= q.prompt + q.generated:
            q.generated += steps
            if q.first_token < 0:
                q.first_token = now
        if q.todo > 0 and inst.role != DECODE:
            set_todo(s, q, np.int64(max(0, q.prompt - q.computed)))
        if has_tier and (n > 1 or (before < q.prompt and q.computed >= q.prompt)):
            tier_write(s, q, min(q.computed, q.prompt))
    kept = 0
    handed = 0
    for k in range(inst.n_running):
        r = np.int64(s.running[i, k])
        q = s.requests[r]
        if q.generated >= q.output and q.step_tokens > 0:
            if has_tier and cluster.write == WRITE_ALL:
                tier_write(s, q, q.computed)
            tokens = q.prompt + 1 if inst.role == DECODE else q.prompt
            count_out(s, q, tokens)
            if inst.role == PREFILL:
                q.handed_over = now
            give_up_all(s, inst, q)
            complete(s, r)
        elif inst.role == PREFILL and q.generated >= 1 and q.step_tokens > 0:
            count_out(s, q, q.prompt)
            q.handed_over = now
            q.source = i
            q.source_hold = q.hold
            q.source_private = q.private
            q.hold = -1
            q.private = 0
            q.blocks = 0
            q.computed = 0
            expect(s, q)
            q.stage = TRANSFER
            s.found[handed] = r
            handed += 1
        else:
            s.running[i, kept] = r
            kept += 1
    inst.n_running = kept
    for k in range(handed):
        # A decode instance has a higher index, so its own step end of this moment is still to come: until = now - 1.
        hand_over(s, np.int64(s.found[k]), now - 1)
    make_due(s, i)


@njit
def end_load(s, r):
    """An asynchronous load or a transfer has arrived."""
    cluster, q = s.cluster[0], s.requests[r]
    now = cluster.now
    i = np.int64(q.instance)
    catch_up(s, i, now)
    q.computed = q.load_to
    fill(s, i, q, np.int64(q.load_hit), np.int64(q.load_to) // cluster.block)
    q.ready = 1
    q.stage = WAITING
    wake(s, i, now)
    if q.source >= 0:
        source = np.int64(q.source)
        release_source(s, q)
        wake(s, source, now)


@njit
def lose(s, r):
    """A request whose instance went down starts anew at the router."""
    cluster, q = s.cluster[0], s.requests[r]
    if q.source >= 0:
        release_source(s, q)
    if q.instance >= 0 and q.stage != TRANSFER:
        inst = s.instances[q.instance]
        give_up_all(s, inst, q)
        set_todo(s, q, np.int64(0))
        count_out(s, q, q.prompt + 1 if inst.role == DECODE else q.prompt)
        if q.stage == WAITING or q.stage == LOADING:
            wait_remove(s, inst, r)
    q.generated = 0
    q.step_tokens = 0
    q.first_token = -1
    q.handed_over = -1
    q.admitted = -1
    q.decode_instance = -1
    q.instance = -1
    q.retries += 1
    q.epoch += 1
    q.stage = PENDING
    expect(s, q)
    push(s.events, cluster, cluster.now, ARRIVAL, r, q.epoch)


@njit
def change_instance(s, row):
    """An instance goes down or comes up (RULES.md section 8)."""
    cluster = s.cluster[0]
    i = np.int64(s.rows[row].instance)
    inst = s.instances[i]
    if s.rows[row].up == inst.alive:
        return
    inst.alive = s.rows[row].up
    if inst.alive:
        if i < cluster.targets:
            for k in range(cluster.parked):
                push(s.events, cluster, cluster.now, ARRIVAL, s.parked[k], s.requests[s.parked[k]].epoch)
            cluster.parked = 0
        else:
            for r in range(len(s.requests)):
                if s.requests[r].stage == TRANSFER:
                    hand_over(s, r, cluster.now)
        return
    for k in range(len(s.instances)):
        catch_up(s, k, cluster.now)
    for k in range(len(s.instances)):
        s.hits[k] = 0
    for r in range(len(s.requests)):
        q = s.requests[r]
        if q.stage == PENDING or q.stage >= DONE or (q.instance != i and q.source != i):
            continue
        if q.stage == TRANSFER and q.source != i:
            continue
        if q.stage != TRANSFER:
            s.hits[q.instance] = 1
        if q.source >= 0:
            s.hits[q.source] = 1
        lose(s, r)
    inst.n_running = 0
    inst.busy = 0
    inst.blocked = 0
    inst.run_next = NEVER
    inst.epoch += 1
    take(s, inst, inst.idle + inst.empty)
    inst.empty = inst.capacity
    tell_load(s, i)
    for k in range(len(s.instances)):
        if s.hits[k] and k != i:
            wake(s, k, cluster.now)


# ---- the router's side --------------------------------------------------------------------------------------------


@njit
def count_hits(s, depth):
    """Write the leading resident blocks of `path` on every instance, as the router believes them, into `hits`."""
    block = s.cluster[0].block
    known = s.entries if s.cluster[0].lag == 0 else s.beliefs
    for i in range(len(s.hits)):
        s.hits[i] = 0
    for d in range(depth - 1, -1, -1):
        node = s.nodes[s.path[d]]
        start, end = node.start // block, node.end // block
        if start == end:
            continue
        whole = False
        again = True
        while again:  # once more only where a node lies on an instance in several entries
            again = False
            skipped = False
            e = node.entries if s.cluster[0].lag == 0 else node.beliefs
            while e >= 0:
                entry = known[e]
                if entry.lo == s.hits[entry.instance]:
                    s.hits[entry.instance] = entry.hi
                    if entry.hi == end:
                        whole = True
                    if skipped:
                        again = True
                elif entry.lo > s.hits[entry.instance] and s.hits[entry.instance] >= start:
                    skipped = True
                e = entry.node_next
        if not whole:
            return


@njit
def show_heard(s, router, i):
    """Show the counts of instance `i` without what the other replicas counted and `router` has not heard of."""
    cluster, inst, row = s.cluster[0], s.instances[i], s.seen[i]
    in_flight, tokens, todo = inst.in_flight, inst.in_flight_tokens, inst.todo
    pairs, routed = inst.todo_pairs, inst.routed
    for other in range(cluster.routers):
        if other != router:
            untold = s.untold[other * cluster.targets + i]
            in_flight -= untold.in_flight
            tokens -= untold.in_flight_tokens
            todo -= untold.todo
            pairs -= untold.todo_pairs
            routed -= untold.routed
    row.in_flight = in_flight
    row.in_flight_tokens = tokens
    row.unprefilled_tokens = todo
    row.unprefilled_s = todo * inst.prefill_token_s + 0.5 * pairs * inst.prefill_pair_s
    row.routed = routed


@njit
def show(s, r):
    """Write the view of this moment for request `r`."""
    cluster, q = s.cluster[0], s.requests[r]
    for i in range(len(s.instances)):
        if s.instances[i].run_next <= cluster.now:
            catch_up(s, i, cluster.now)
        if cluster.lag > 0:
            hear(s, i)
    depth = walk(s, q)
    count_hits(s, depth)
    most = (q.prompt - 1) // cluster.block
    for i in range(cluster.targets):
        inst, row = s.instances[i], s.seen[i]
        row.local_hit_tokens = min(s.hits[i], most) * cluster.block
        row.in_flight = inst.in_flight
        used = inst.capacity - inst.empty - inst.idle
        row.running = inst.told_running if cluster.lag > 0 else inst.n_running
        row.waiting = inst.told_waiting if cluster.lag > 0 else inst.n_waiting
        row.in_flight_tokens = inst.in_flight_tokens
        row.unprefilled_tokens = inst.todo
        row.unprefilled_s = inst.todo * inst.prefill_token_s + 0.5 * inst.todo_pairs * inst.prefill_pair_s
        row.kv_use = (inst.told_used if cluster.lag > 0 else used) / inst.capacity
        row.capacity_tokens = inst.capacity * cluster.block
        row.prefill_token_s = inst.prefill_token_s
        row.prefill_pair_s = inst.prefill_pair_s
        row.routed = inst.routed
        row.alive = inst.alive
        if cluster.routers > 1:
            show_heard(s, q.router, i)
    asks = s.request_view[0]
    asks.prompt_tokens = q.prompt
    asks.turn = s.traits[r, 0]
    asks.messages = s.traits[r, 1]
    asks.history_tokens = s.traits[r, 2]
    asks.global_hit_tokens = 0
    if cluster.has_tier:
        asks.global_hit_tokens = min(
            tier_look_up(s, depth, np.int64(q.prompt) // cluster.chunk) * cluster.chunk, q.prompt - 1
        )
    asks.ttft_limit_s = s.traits[r, 3]
    asks.session = s.traits[r, 4]
    asks.time_s = cluster.now * 1e-12


@njit
def assign(s, i, reason):
    """Route the pending request to instance `i`, which must be alive; `reason` is the policy's word for the why."""
    cluster, inst = s.cluster[0], s.instances[i]
    r = cluster.pending
    q = s.requests[r]
    cluster.pending = -1
    q.stage = ROUTED
    q.instance = i
    q.target = i
    q.reason = reason
    count_in(s, q, q.prompt)
    set_todo(s, q, np.int64(q.prompt) - np.int64(s.seen[i].local_hit_tokens))
    push(s.events, cluster, cluster.now + inst.api + q.prompt * inst.api_token, DELIVER, r, q.epoch)


@njit
def advance(s, choice, reason, most_events):
    """Route the pending request to `choice` (when there is one), then run until the next decision.

    Returns DECISION, DRAINED (nothing is left to happen), GROW (a pool is nearly full: enlarge it and call again
    with choice -1), or PAUSED after `most_events` events (0 = no limit).
    """
    cluster = s.cluster[0]
    if cluster.pending >= 0 and choice >= 0:
        assign(s, choice, reason)
    count = 0
    while True:
        if (
            len(s.holds) - cluster.hold_top < cluster.hold_margin
            or len(s.events) - cluster.heap_size < cluster.heap_margin
            or len(s.late) - cluster.late_top < cluster.late_margin
        ):
            return GROW
        if most_events > 0 and count >= most_events:
            return PAUSED
        root = -1
        if cluster.next_root < len(s.roots):
            root = s.roots[cluster.next_root]
            if s.requests[root].arrival >= cluster.window_end:
                cluster.next_root = len(s.roots)
                root = -1
        if root >= 0 and (
            cluster.heap_size == 0
            or s.requests[root].arrival < s.events[0].time
            or (
                s.requests[root].arrival == s.events[0].time
                and ((np.int64(ARRIVAL) << 40) | root) < s.events[0].key
            )
        ):
            cluster.next_root += 1
            kind, identity, time = ARRIVAL, np.int64(root), s.requests[root].arrival
        elif cluster.heap_size > 0:
            time, key, epoch = s.events[0].time, s.events[0].key, s.events[0].epoch
            pop(s.events, cluster)
            kind, identity = key >> 40, key & ((np.int64(1) << 40) - 1)
            if kind == STEP_END:
                if epoch != s.instances[identity].epoch:
                    continue
            elif kind != SCHEDULE and epoch != s.requests[identity].epoch:
                continue
        else:
            return DRAINED
        cluster.now = time
        cluster.events += 1
        if cluster.lag > 0 or cluster.eviction == BELADY:
            # News carry their time, and who is still to come changes: nobody's blocks may be taken late.
            for i in range(len(s.instances)):
                catch_up(s, i, time - 1 if kind == STEP_END and i >= identity else time)
                s.instances[i].moment = time
        count += 1
        if kind == STEP_END:
            end_step(s, identity)
        elif kind == LOAD_END:
            end_load(s, identity)
        elif kind == SCHEDULE:
            change_instance(s, identity)
        elif kind == DELIVER:
            q = s.requests[identity]
            q.stage = WAITING
            wait_append(s, s.instances[q.instance], identity)
            wake(s, np.int64(q.instance), cluster.now)
        else:
            q = s.requests[identity]
            if q.arrived < 0:
                q.arrived = time
                cluster.unfinished += 1
            alive = False
            for i in range(cluster.targets):
                if s.instances[i].alive:
                    alive = True
            if not alive:
                s.parked[cluster.parked] = identity
                cluster.parked += 1
                continue
            show(s, identity)
            cluster.pending = identity
            return DECISION
        for k in range(cluster.n_due):
            i = np.int64(s.due[k])
            s.instances[i].due = 0
            if s.instances[i].alive and not s.instances[i].busy:
                schedule(s, i)
        cluster.n_due = 0


@njit
def preload(s, r, i, tokens):
    """Make the first `tokens` tokens of request `r` resident on instance `i` and in the tier."""
    cluster, inst, q = s.cluster[0], s.instances[i], s.requests[r]
    last = min(np.int64(tokens // cluster.block), inst.capacity)
    held, count = look_up(s, i, walk(s, q), last)
    for k in range(count):
        e = np.int64(s.found[k])
        if s.entries[e].hi > held:
            cut(s, i, e, held)
        reuse_entry(s, inst, e)
        use_entry(s, q, e)
    take(s, inst, last - held)
    q.private += last - held
    fill(s, i, q, held, last)
    give_up_all(s, inst, q)
    if cluster.has_tier and cluster.write != WRITE_NONE:
        tier_write(s, q, tokens)
