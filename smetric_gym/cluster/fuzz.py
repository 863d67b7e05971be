"""Small hostile cases at random: every rule of ``RULES.md`` at its limits, in a few hundred events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smetric_gym.cluster.config import EVICTIONS, LOADS, WRITES, ClusterConfig
from smetric_gym.cluster.steptime import TICKS_PER_S, StepTime
from smetric_gym.workload.trace import REQUEST, Trace

LARGEST_PROMPT = 100
Case = tuple[Trace, ClusterConfig, list[StepTime], str, float, int]


def random_case(seed: int) -> Case:
    """Draw a small cluster and a trace that hurts.

    Times are tens to thousands of ticks, so that events meet at the same tick; caches are often just large
    enough for the largest request.

    Args:
        seed: of the case; equal seeds give equal cases.

    Returns:
        trace, config, one step time per instance, arrival mode, end of the window in s, and the seed for
        ``random_choice``.
    """
    random = np.random.default_rng(seed)
    block = int(random.integers(1, 17))
    trace = random_trace(random, block)
    longest = int((trace.requests["prompt"] + trace.requests["output"]).max())
    least_blocks = -(-longest // block)
    instances = int(random.integers(1, 6))
    decodes = int(random.integers(1, 4)) if random.random() < 0.35 else 0
    budget = int(_pick(random, [1, 2, 7, 16, 64]) if random.random() < 0.6 else random.integers(1, 65))
    rows = int(random.integers(1, 9))
    same_blocks = random.random() < 0.5
    config = ClusterConfig(
        instances=instances,
        decode_instances=decodes,
        kv_blocks=_blocks(random, least_blocks) if same_blocks else None,
        block_tokens=block,
        chunk_tokens=block * int(_pick(random, [1, 1, 2, 3, 4])),
        max_batched_tokens=budget,
        max_seqs=rows,
        global_tier=float(_pick(random, [0, 0, 0.1, 0.4, 0.8, 1.6, 3.2, np.inf])),
        loads=_pick(random, LOADS),
        write=_pick(random, [*WRITES, "prompt", "all"]),
        min_load_tokens=int(_pick(random, [1, 1, 5, 20])),
        instances_per_server=_pick(random, [None, 1, 2, 8]),
        nics_per_server=int(random.integers(1, 5)),
        nic_bytes_per_s=float(_pick(random, [1e11, 1e12, 1e13, np.inf])),
        nic_latency_s=float(_pick(random, [0, 1e-12, 30e-12, 500e-12])),
        pcie_bytes_per_s=float(_pick(random, [1e11, 1e12, np.inf])),
        pcie_latency_s=float(_pick(random, [0, 0, 20e-12])),
        schedule=random_schedule(random, instances + decodes, trace) if random.random() < 0.4 else (),
        eviction=EVICTIONS[seed % len(EVICTIONS)],  # not drawn: the rest of a case does not depend on it
    )
    step_times = [
        random_step_time(random, budget, rows, block * _blocks(random, least_blocks))
        for _ in range(instances + decodes)
    ]
    mode = _pick(random, ["open", "causal", "closed"])
    window = np.inf if random.random() < 0.7 else max(1, int(trace.span_s * TICKS_PER_S * 0.6)) / TICKS_PER_S
    return trace, config, step_times, mode, float(window), int(random.integers(2**31))


def random_choice(
    seed: int, request: int, retries: int, alive: Sequence[bool], local_hits: Sequence[int]
) -> int:
    """A router of no sense that anyone can repeat: an alive instance by a hash, or the largest local hit.

    Args:
        seed: the last value of a case.
        request: its index in the trace.
        retries: how many of its instances have gone down.
        alive: per instance, at least one True.
        local_hits: per instance, tokens.
    """
    hashed = (seed * 0x9E3779B1 + request * 0x85EBCA6B + retries * 0xC2B2AE35) % 2**32
    hashed = ((hashed ^ hashed >> 15) * 0x2C1B3C6D) % 2**32
    hashed ^= hashed >> 12
    names = [i for i in range(len(alive)) if alive[i]]
    if hashed % 4 == 0:
        return max(names, key=lambda i: local_hits[i])
    return names[hashed // 4 % len(names)]


def random_trace(random: np.random.Generator, block: int) -> Trace:
    """Sessions with shared system prompts, forks, edits and repetitions; 20 to 120 requests.

    Args:
        random: the source of everything.
        block: tokens; many prompts are multiples of it.
    """
    count = int(random.integers(20, 121))
    largest = int(_pick(random, [12, 40, LARGEST_PROMPT]))
    pause = int(_pick(random, [0, 10, 200, 3000]))
    system = int(random.integers(1, largest + 1))
    requests = np.zeros(count, dtype=REQUEST)
    requests["parent"] = requests["base"] = -1
    last: list[int] = []  # of each session
    now = 0
    for r in range(count):
        q = requests[r]
        if random.random() < 0.7:
            now += int(random.integers(0, pause + 1))
        q["arrival"] = now / TICKS_PER_S
        kind = random.random() if r else 0.0
        if kind < 0.25:
            q["session"] = len(last)
            last.append(r)
            _share(random, requests, r, 0 if r else -1, system, largest)
        elif kind < 0.7:
            session = int(random.integers(len(last)))
            before = last[session]
            q["session"], q["turn"], q["parent"] = session, requests[before]["turn"] + 1, before
            edit = random.random() < 0.2
            keep = (
                int(random.integers(0, _length(requests[before]) + 1)) if edit else _length(requests[before])
            )
            _share(random, requests, r, before, keep, largest)
            last[session] = r
        else:
            other = int(random.integers(r))
            q["session"] = len(last)
            last.append(r)
            q["parent"] = other if random.random() < 0.5 else -1
            exact = random.random() < 0.4
            length = _length(requests[other])
            keep = int(requests[other]["prompt"] if exact else random.integers(0, length + 1))
            _share(random, requests, r, other, keep, 0 if exact else largest)
        if random.random() < 0.3:
            q["prompt"] = -(-int(q["prompt"]) // block) * block
        q["output"] = 1 if random.random() < 0.2 else random.integers(1, max(2, largest // 2))
        q["gap"] = (
            int(random.integers(0, 500)) / TICKS_PER_S if q["parent"] >= 0 and random.random() < 0.7 else 0
        )
        q["messages"], q["history"] = 2 * q["turn"], q["shared"]
    return Trace.build(requests, name="random")


def random_schedule(
    random: np.random.Generator, count: int, trace: Trace
) -> tuple[tuple[float, int, bool], ...]:
    """Instances that go and come, some rows change nothing, sometimes all go at once; all end up alive.

    Args:
        random: the source of everything.
        count: instances.
        trace: for how long it lasts.
    """
    span = max(2000, int(trace.span_s * TICKS_PER_S)) * 2
    rows = [
        (int(random.integers(span)), int(random.integers(count)), bool(random.random() < 0.5))
        for _ in range(int(random.integers(1, 15)))
    ]
    if random.random() < 0.4:
        dark = int(random.integers(span))
        rows += [(dark, i, False) for i in range(count)]
    rows += [rows[int(random.integers(len(rows)))] for _ in range(2)]
    rows.sort(key=lambda row: row[0])
    rows += [(span + int(random.integers(50)), i, True) for i in random.permutation(count)]
    return tuple((time / TICKS_PER_S, int(i), up) for time, i, up in rows)


def random_step_time(random: np.random.Generator, budget: int, rows: int, kv_tokens: int) -> StepTime:
    """Step times of a few ticks, and coefficients that may be 0.

    Args:
        random: the source of everything.
        budget: largest number of tokens of a step.
        rows: largest number of requests of a step.
        kv_tokens: KV capacity.
    """
    base, token = int(random.integers(1, 60)), int(random.integers(0, 8))
    small = [int(n) for n in random.integers(0, 4, size=6) * (random.random(6) < 0.6)]
    return StepTime(
        tokens_ticks=base + token * np.arange(budget + 1, dtype=np.int64),
        rows_ticks=small[0] * np.arange(rows + 1, dtype=np.int64),
        half_pair_ticks=small[1],
        context_ticks=small[2],
        mixed_context_ticks=small[3],
        connector_ticks=5 * small[4],
        api_ticks=int(_pick(random, [0, 0, 10, 300])),
        api_token_ticks=small[5],
        kv_capacity_tokens=kv_tokens,
        kv_bytes_per_token=int(random.integers(1, 40)),
        instances_per_server=int(_pick(random, [1, 2, 4, 8])),
    )


def _share(
    random: np.random.Generator, requests: np.ndarray, r: int, base: int, keep: int, most_new: int
) -> None:
    """Request r is ``keep`` tokens of ``base``, or what that has, and up to ``most_new`` of its own."""
    if base >= 0:
        keep = min(keep, _length(requests[base]), 3 * LARGEST_PROMPT)
        requests[r]["base"], requests[r]["shared"] = base, keep
    else:
        keep = 0
    requests[r]["prompt"] = max(1, keep + int(random.integers(0, most_new + 1)))


def _length(request: np.void) -> int:
    return int(request["prompt"]) + int(request["output"])


def _blocks(random: np.random.Generator, least: int) -> int:
    return least + min(200, int(_pick(random, [0, 0, 1, 2, least // 2, 3 * least, 20 * least])))


def _pick(random: np.random.Generator, values):
    return values[int(random.integers(len(values)))]
