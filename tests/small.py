"""Small traces and round step times for tests: a step takes 10 ms, and 1 ms more per token that it computes."""

import numpy as np

from smetric_gym.cluster.steptime import StepTime
from smetric_gym.workload.trace import REQUEST, Trace

MS = 10**9


def step_time(
    *,
    budget=64,
    rows=8,
    kv_tokens=4096,
    base_ms=10,
    token_ms=1,
    context=0,
    half_pair=0,
    api_ms=0,
    connector=0,
):
    """Round numbers, so that expectations can be worked out by hand."""
    n = np.arange(budget + 1, dtype=np.int64)
    return StepTime(
        tokens_ticks=base_ms * MS + token_ms * MS * n,
        rows_ticks=np.zeros(rows + 1, dtype=np.int64),
        half_pair_ticks=half_pair,
        context_ticks=context,
        mixed_context_ticks=context,
        connector_ticks=connector,
        api_ticks=api_ms * MS,
        api_token_ticks=0,
        kv_capacity_tokens=kv_tokens,
        kv_bytes_per_token=1000,
        instances_per_server=8,
    )


def trace(*rows, **fields):
    """A trace of rows (arrival, session, turn, prompt, output, parent, base, shared, gap); the last may be left out."""
    requests = np.zeros(len(rows), dtype=REQUEST)
    for r, row in enumerate(rows):
        row = (*row, *(None,) * (9 - len(row)))
        q = requests[r]
        for name, value, default in zip(
            ("arrival", "session", "turn", "prompt", "output", "parent", "base", "shared", "gap"),
            row,
            (0, 0, 0, 1, 1, -1, -1, 0, 0),
            strict=True,
        ):
            q[name] = default if value is None else value
        q["messages"], q["history"] = 2 * q["turn"], q["shared"]
    return Trace.build(requests, **fields)


def sessions(count=20, turns=6, *, prompt=60, new=40, output=12, gap=0.05, every=0.03, system=32, seed=0):
    """Closed-loop sessions that share a system prompt and append to their history."""
    random = np.random.default_rng(seed)
    rows = []
    for s in range(count):
        length, parent, at = prompt, -1, s * every
        for t in range(turns):
            out = int(random.integers(1, 2 * output))
            rows.append((at, s, t, length, out, parent, gap if t else 0.0))
            parent = len(rows) - 1
            length += out + int(random.integers(1, 2 * new))
            at += gap + 0.2
    order = sorted(range(len(rows)), key=lambda r: rows[r][0])
    place = {r: k for k, r in enumerate(order)}
    first, out_rows = None, []
    for r in order:
        at, s, t, length, out, parent, pause = rows[r]
        if t:
            p = place[parent]
            out_rows.append((at, s, t, length, out, p, p, out_rows[p][3] + out_rows[p][4], pause))
        else:
            out_rows.append(
                (
                    at,
                    s,
                    t,
                    length,
                    out,
                    -1,
                    -1 if first is None else first,
                    0 if first is None else system,
                    0.0,
                )
            )
            first = place[r] if first is None else first
    return trace(*out_rows)


def least_tokens(cluster):
    """Drive a cluster to its end with "fewest new and queued tokens"; return the choices."""
    choices, more = [], cluster.advance()
    while more:
        cost = (
            cluster.view.unprefilled_tokens - cluster.view.local_hit_tokens + 1e9 * (1 - cluster.view.alive)
        )
        choices.append(int(cost.argmin()))
        cluster.assign(choices[-1])
        more = cluster.advance()
    return choices
