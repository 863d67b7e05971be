"""How one agent session unfolds, turn by turn: the compiled inner loop of the synthetic workload.

A session and the sub-agents that it forks are a *family*. A family is drawn from a random stream of its own,
so it is the same whatever the load, the window, or the number of other families.
"""

from __future__ import annotations

import math

import numba
import numpy as np

MAX_FAMILY = 8192
"""Requests of a family at most, main agent and sub-agents together: a bound for memory, not met."""

HUMAN, TOOL, SPAWN = 1, 2, 3  # trace.Trigger

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_RANK_1 = np.array([0.8566748838545029, 0.7338918566271260, 0.6287067210378087, 0.5385972572236101])
"""Steps of Roberts' R4 low-discrepancy sequence (1 / phi_4 ** k, phi_4 the root of x**5 = x + 1)."""


@numba.njit(cache=True)
def _mix(x):
    """SplitMix64's finaliser (Steele, Lea and Flood 2014): a hash of 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(cache=True)
def _uniform(rng):
    """The next number in (0, 1) of the stream whose state is ``rng[0]``."""
    rng[0] += _GOLDEN
    return (np.float64(_mix(rng[0]) >> np.uint64(11)) + 0.5) * 2.0**-53


@numba.njit(cache=True)
def _normal(u):
    """Quantile of the standard normal distribution (Acklam's rational approximation, error below 1.2e-9)."""
    if u > 0.5:
        return -_normal_lower(1.0 - u)
    return _normal_lower(u)


@numba.njit(cache=True)
def _normal_lower(u):
    if u < 0.02425:
        q = math.sqrt(-2.0 * math.log(max(u, 1e-300)))
        top = (-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838
        top = ((top * q - 2.549732539343734) * q + 4.374664141464968) * q + 2.938163982698783
        low = (
            (7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996
        ) * q + 3.754408661907416
        return top / (low * q + 1.0)
    q = u - 0.5
    r = q * q
    top = (-3.969683028665376e01 * r + 2.209460984245205e02) * r - 2.759285104469687e02
    top = ((top * r + 1.383577518672690e02) * r - 3.066479806614716e01) * r + 2.506628277459239
    low = (-5.447609879822406e01 * r + 1.615858368580409e02) * r - 1.556989798598866e02
    return top * q / (((low * r + 6.680131188771972e01) * r - 1.328068155288572e01) * r + 1.0)


@numba.njit(cache=True)
def _lognormal(rng, median, sigma):
    return median * math.exp(sigma * _normal(_uniform(rng)))


@numba.njit(cache=True)
def _from_quantiles(u, levels, values):
    """The value at probability u of ``values`` at ``levels`` (normal scores), log-linear between them."""
    z = _normal(u)
    i = min(max(np.searchsorted(levels, z) - 1, 0), len(levels) - 2)
    low, high = math.log(values[i]), math.log(values[i + 1])
    return math.exp(low + (high - low) * (z - levels[i]) / (levels[i + 1] - levels[i]))


@numba.njit(cache=True)
def _tool_gap(rng, p, levels, values):
    return min(_from_quantiles(_uniform(rng), levels, values), p.gap_cap_s)


@numba.njit(cache=True)
def _tool_tokens(rng, p, scale):
    return int(min(_lognormal(rng, p.tool_tokens_median * scale, p.tool_tokens_sigma), p.tool_tokens_cap)) + 1


@numba.njit(cache=True)
def _write(
    rows,
    n,
    p,
    session,
    turn,
    messages,
    prompt,
    shared,
    history,
    system,
    trigger,
    parent,
    base,
    arrival,
    gap,
    rng,
):
    """Write request ``n``, draw its output, and return when its recorded response ended."""
    prompt = min(max(prompt, 1), int(p.context_tokens) - 1)
    output = int(min(_lognormal(rng, p.output_median, p.output_sigma), p.output_cap)) + 1
    row = rows[n]
    row.arrival, row.gap = arrival, gap
    row.session, row.turn, row.messages = session, turn, messages
    row.prompt, row.output = prompt, min(output, int(p.context_tokens) - prompt)
    row.shared, row.history, row.system = min(shared, prompt), min(history, prompt), min(system, prompt)
    row.trigger, row.parent, row.base = trigger, parent, base
    new = prompt - min(row.shared, prompt - 1)
    return arrival + p.ttft_s + new * p.ttft_per_token_s + row.output * p.tpot_s


@numba.njit(cache=True)
def _next_prompt(rng, p, before, new):
    """Prompt, shared, history (tokens) and messages of the request that follows ``before`` in its session."""
    system, prompt, length = int(before.system), int(before.prompt), int(before.prompt + before.output)
    messages = before.messages + 2
    fate = _uniform(rng)
    if length + new > p.context_tokens * p.compact_at or fate < p.compact_share:
        shared, messages = system, 2
        history = system + int(_lognormal(rng, p.summary_median, p.summary_sigma))
    elif fate < p.compact_share + p.edit_share:
        shared = system + int(_uniform(rng) * max(length - system, 0))
        history = shared + int((length - shared) * p.edit_keeps)
    elif fate < p.compact_share + p.edit_share + p.reasoning_share:
        shared = prompt
        history = prompt + int((length - prompt) * p.reasoning_keeps)
    else:
        shared = history = length
    return history + new, shared, history, messages


@numba.njit(cache=True)
def _sub_agent(rows, n, p, rng, session, root, caller, system, ended, scale, levels, values):
    """Write the requests of a sub-agent of request ``caller``; returns the next free row and its last end."""
    turns = int(_lognormal(rng, p.fork_turns_median, p.fork_turns_sigma)) + 1
    task = int(_lognormal(rng, p.task_median, p.task_sigma)) + 1
    gap = _lognormal(rng, p.spawn_gap_median_s, p.spawn_gap_sigma)
    inherited = int(rows[caller].prompt + rows[caller].output)
    if _uniform(rng) < p.fresh_share or inherited + task > p.context_tokens * p.compact_at:
        prompt, shared, history, messages, base = system + task, system, 0, 0, root
    else:
        prompt, shared, history, messages, base = (
            inherited + task,
            inherited,
            inherited,
            rows[caller].messages + 2,
            caller,
        )
    ended = _write(
        rows,
        n,
        p,
        session,
        0,
        messages,
        prompt,
        shared,
        history,
        system,
        SPAWN,
        caller,
        base,
        ended + gap,
        gap,
        rng,
    )
    n += 1
    for turn in range(1, turns):
        if n >= len(rows):
            break
        new = _tool_tokens(rng, p, scale)
        gap = _tool_gap(rng, p, levels, values)
        prompt, shared, history, messages = _next_prompt(rng, p, rows[n - 1], new)
        ended = _write(
            rows,
            n,
            p,
            session,
            turn,
            messages,
            prompt,
            shared,
            history,
            system,
            TOOL,
            n - 1,
            n - 1,
            ended + gap,
            gap,
            rng,
        )
        n += 1
    return n, ended


@numba.njit(cache=True)
def _family(rows, p, rng, strata, session, root, system, start, end, levels, values):
    """Write a main agent and its sub-agents into ``rows``; returns how many and of how many sessions."""
    single = strata[0] < p.single_share
    turns = 1
    if not single:
        u = (strata[0] - p.single_share) / (1.0 - p.single_share)
        turns = int(min(p.turns_median * math.exp(p.turns_sigma * _normal(u)), MAX_FAMILY)) + 1
    scale = math.exp(p.growth_sigma * _normal(strata[1]))
    if strata[2] < p.paste_share:
        first = p.paste_median * math.exp(p.paste_sigma * _normal(strata[2] / p.paste_share))
    else:
        u = (strata[2] - p.paste_share) / (1.0 - p.paste_share)
        first = p.first_median * math.exp(p.first_sigma * _normal(u))
    stateless = _uniform(rng) < p.stateless_share
    prompt = system + int(first) + 1
    ended = _write(rows, 0, p, session, 0, 0, prompt, system, 0, system, HUMAN, -1, root, start, 0.0, rng)
    last, n, sessions, messages = 0, 1, 1, 0
    for turn in range(1, turns):
        parent = last
        calls = _uniform(rng) < p.fork_share and n + p.fork_parallel_max < len(rows)
        if calls:
            called = ended
            parallel = 1
            while parallel < p.fork_parallel_max and _uniform(rng) < p.fork_more_share:
                parallel += 1
            for _ in range(parallel):
                if n >= len(rows):
                    break
                n, back = _sub_agent(
                    rows, n, p, rng, session + sessions, root, last, system, called, scale, levels, values
                )
                sessions += 1
                if back > ended:
                    ended, parent = back, n - 1
        human = not calls and _uniform(rng) < p.human_share
        if human:
            trigger = HUMAN
            new = int(_lognormal(rng, p.human_tokens_median, p.human_tokens_sigma)) + 1
            gap = min(_lognormal(rng, p.human_gap_median_s, p.human_gap_sigma), p.gap_cap_s)
        else:
            trigger = TOOL
            new = _tool_tokens(rng, p, scale)
            gap = _tool_gap(rng, p, levels, values)
        arrival = ended + gap
        if n >= len(rows) or arrival >= min(end, start + p.age_s):
            break
        if stateless:
            first = _lognormal(rng, p.first_median, p.first_sigma)
            prompt, shared, history, messages = system + int(first) + 1, system, 0, 0
        else:
            prompt, shared, history, messages = _next_prompt(rng, p, rows[last], new)
        ended = _write(
            rows,
            n,
            p,
            session,
            turn,
            messages,
            prompt,
            shared,
            history,
            system,
            trigger,
            parent,
            last,
            arrival,
            gap,
            rng,
        )
        last = n
        n += 1
    return n, sessions


@numba.njit(cache=True)
def draw_families(first, starts, numbers, end, seed, p, systems, popularity, levels, values, rows, counters):
    """Draw families from number ``first`` on until ``rows`` is full; drops those that ended before time 0.

    Args:
        first: position in ``starts`` to go on from.
        starts: [families] s, when each session starts (before 0: it is under way when the trace begins).
        numbers: [families] int64, identity of each family: its random stream and its place in the sequence.
        end: s, nothing is sent from then on.
        seed: uint64.
        p: one record of ``synthetic.parameters``.
        systems: [frameworks] tokens of their system prompts.
        popularity: [frameworks] cumulative shares of the sessions.
        levels: normal scores of the quantiles of the gap before a tool turn.
        values: [levels] s, those quantiles.
        rows: dtype REQUEST, zeroed; filled with ``base`` and ``parent`` as rows of this array, and -2 - f for
            a base that is the system prompt of framework f.
        counters: int64[2], sessions before and (returned) after this call; requests drawn.

    Returns:
        The position to go on from, and the number of rows filled.
    """
    rng = np.zeros(1, np.uint64)
    shift = np.zeros(1, np.uint64)
    shift[0] = _mix(seed ^ _GOLDEN)
    offset = np.array([_uniform(shift) for _ in range(4)])
    strata = np.zeros(4)
    filled = 0
    for k in range(first, len(starts)):
        if filled + MAX_FAMILY > len(rows):
            return k, filled
        rng[0] = _mix(seed + _mix(np.uint64(numbers[k])))
        for d in range(4):
            x = offset[d] + numbers[k] * _RANK_1[d]
            strata[d] = min(max(x - math.floor(x), 1e-12), 1.0 - 1e-12)
        f = min(np.searchsorted(popularity, strata[3]), len(systems) - 1)
        family = rows[filled : filled + MAX_FAMILY]
        n, sessions = _family(
            family, p, rng, strata, counters[0], -2 - f, systems[f], starts[k], end, levels, values
        )
        counters[1] += n
        latest = family[0].arrival
        for i in range(n):
            latest = max(latest, family[i].arrival)
        if latest < 0.0:
            continue
        for i in range(n):
            if family[i].base >= 0:
                family[i].base += filled
            if family[i].parent >= 0:
                family[i].parent += filled
        filled += n
        counters[0] += sessions
    return len(starts), filled
