"""The synthetic agent workload: every distribution is a named parameter with a unit and a source."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.workload.sessions import MAX_FAMILY, draw_families
from smetric_gym.workload.trace import REQUEST, Trace
from smetric_gym.workload.window import cut_window

_SHARES = (
    "single_share", "paste_share", "stateless_share", "human_share", "compact_share", "edit_share", "edit_keeps",
    "fork_share", "fork_more_share", "fresh_share", "compact_at",
)  # fmt: skip
_POSITIVE = (
    "requests_per_minute", "burstiness", "age_s", "turns_median", "first_median", "paste_median", "tool_tokens_median",
    "human_tokens_median", "output_median", "output_cap", "summary_median", "fork_turns_median", "task_median",
    "spawn_gap_median_s", "human_gap_median_s", "gap_cap_s", "context_tokens",
)  # fmt: skip


@dataclass(frozen=True)
class SyntheticConfig:
    """Sessions of coding agents: main agents with tool and human turns, and the sub-agents that they fork.

    ``x_median`` and ``x_sigma`` are a log-normal distribution (sigma of the natural logarithm). Sources: [S] SMetric
    section 3 (figure 5, May 2026 traces); [A] agentic-kvc's notes on the same provider's coding traffic (2.1 M requests
    in 2 h; unverified); [W] Weka's 710 Claude Code sessions, measured; [T] TraceLab; [M] Mooncake's conversation trace,
    measured; [B] "KVCache Cache in the Wild" (ATC'25); [fit] chosen so that the whole meets [S]: nobody published it.

    Attributes:
        name: name of the trace.
        requests_per_minute: requests per minute per instance at load 1; 10 suits one H20 per Qwen3-Coder-30B
            instance. ([S] counts 43 to 48 on the provider's own, larger, instances.)
        burstiness: coefficient of variation of the time between session starts; 1 is Poisson, more is burstier.
        age_s: s, a session ends when its next request would be sent later than this after its first. [fit]
        system_tokens: tokens of the system prompt and tools of each framework. [S] system share of the reuse, at
            the mean prompt of [A]: about 5k; public agents carry more, 10k to 15k [W], on longer prompts.
        framework_zipf: popularity of framework k is proportional to ``k ** -framework_zipf``. [fit]
        single_share: share of sessions with one request. [fit]; [A] 0.9 without reliable session ids
        turns_median, turns_sigma: turns of the other main agents. [W] sigma 1.16 (curated), 1.3 to 1.7 give the skew of [S]
        growth_sigma: spread between sessions of the tokens that tools return. [fit] to p50 and p90 of prompts in [A]
        first_median, first_sigma: tokens of the first message. papers.md 5: median 2k to 4k
        paste_share, paste_median, paste_sigma: share of sessions that begin with a pasted repository or an imported
            conversation, and its tokens. [W] 45 % of sessions start above 40k; [fit] to the reuse of [S]
        stateless_share: share of agents that send no history. [fit]
        human_share: share of a main agent's follow-ups that a human sends. [S] tool share, [W] 0.042 after a tool turn
        tool_tokens_median, tool_tokens_sigma: tokens that a tool turn appends. [W] 677, 1.13
        human_tokens_median, human_tokens_sigma: tokens that a human turn appends. [W] 530, 1.10
        output_median, output_sigma, output_cap: tokens of an answer. [A] mean 445, p50 80; [W] p50 216, sigma 0.91
        context_tokens: prompt + output at most. Models of [A] and [W]: 128k
        compact_at: share of the context at which the agent compacts: history becomes a summary after the system prompt.
        compact_share: follow-ups that compact for other reasons (a human's command). papers.md 5: 2 % in all
        summary_median, summary_sigma: tokens of the summary. [fit]
        edit_share, edit_keeps: follow-ups whose history is edited from a uniform cut on, and the share of what follows
            the cut that stays (new tokens to the cache). [T] 1.9 % of prompts shrink; [W] 2.8 % are not append-only; [fit]
        fork_share: turns after which a main agent forks sub-agents and waits. papers.md 5: 10 % of requests are forks
        fork_more_share, fork_parallel_max: chance of each further parallel sub-agent, and their number at most. [fit]
        fresh_share: sub-agents that start from the system prompt alone (all 63 of [W]); the rest inherit their
            caller's context ([S]: "much" of the reuse between sessions). [fit] to the split of [S]
        fork_turns_median, fork_turns_sigma: turns of a sub-agent. [W] mean 10.7; [fit]
        task_median, task_sigma: tokens of a sub-agent's task. [fit]
        spawn_gap_median_s, spawn_gap_sigma: s between the caller's completion and the fork. [fit]
        tool_gap_levels, tool_gap_s: levels and quantiles (s) of the gap between a completion and the next tool turn. [A]
        human_gap_median_s, human_gap_sigma: s before a human turn. [T] median 121.5, p90 1058; [W] 178, p90 2273
        gap_cap_s: s, longest gap; a human who stays away longer comes back as a new session.
        ttft_s, ttft_per_token_s, tpot_s: assumed recorded service: s to the first token, plus s per new prompt token,
            plus s per output token. With these defaults p50 and p90 are near [W]'s 6 and 18 s.
    """

    name: str = "synthetic"
    requests_per_minute: float = 10.0
    burstiness: float = 1.0
    age_s: float = 21600.0
    system_tokens: tuple[int, ...] = (5400, 4600, 5800, 4000)
    framework_zipf: float = 1.0
    single_share: float = 0.45
    turns_median: float = 16.0
    turns_sigma: float = 1.5
    growth_sigma: float = 0.7
    first_median: float = 3000.0
    first_sigma: float = 1.0
    paste_share: float = 0.12
    paste_median: float = 40000.0
    paste_sigma: float = 0.7
    stateless_share: float = 0.02
    human_share: float = 0.045
    tool_tokens_median: float = 677.0
    tool_tokens_sigma: float = 1.13
    tool_tokens_cap: float = 40000.0
    human_tokens_median: float = 530.0
    human_tokens_sigma: float = 1.1
    output_median: float = 130.0
    output_sigma: float = 1.5
    output_cap: float = 16384.0
    context_tokens: float = 131072.0
    compact_at: float = 0.9
    compact_share: float = 0.01
    summary_median: float = 6000.0
    summary_sigma: float = 0.6
    edit_share: float = 0.04
    edit_keeps: float = 0.8
    fork_share: float = 0.11
    fork_more_share: float = 0.3
    fork_parallel_max: int = 8
    fresh_share: float = 0.2
    fork_turns_median: float = 1.5
    fork_turns_sigma: float = 1.0
    task_median: float = 600.0
    task_sigma: float = 0.8
    spawn_gap_median_s: float = 0.3
    spawn_gap_sigma: float = 0.8
    tool_gap_levels: tuple[float, ...] = (0.25, 0.5, 0.75, 0.9, 0.99)
    tool_gap_s: tuple[float, ...] = (0.69, 1.6, 8.6, 44.0, 738.0)
    human_gap_median_s: float = 121.5
    human_gap_sigma: float = 1.69
    gap_cap_s: float = 3600.0
    ttft_s: float = 0.5
    ttft_per_token_s: float = 1.2e-4
    tpot_s: float = 0.02

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, str):
                continue
            if isinstance(value, (tuple, list)):
                object.__setattr__(self, f.name, tuple(value))
                if not value or not all(math.isfinite(v) and v > 0 for v in value):
                    raise SmetricError(f"workload.{f.name} is {value}, allowed: numbers above 0, at least one")
            elif isinstance(value, bool) or not (isinstance(value, (int, float)) and math.isfinite(value) and value >= 0):
                raise SmetricError(f"workload.{f.name} is {value!r}, allowed: a number of 0 or more")
            elif f.name in _SHARES and value > 1:
                raise SmetricError(f"workload.{f.name} is {value}, allowed: a share between 0 and 1")
            elif f.name in _POSITIVE and value == 0:
                raise SmetricError(f"workload.{f.name} is 0, allowed: more than 0")
        levels = self.tool_gap_levels
        if len(levels) != len(self.tool_gap_s) or len(levels) < 2 or sorted(set(levels)) != list(levels) or levels[-1] >= 1:
            raise SmetricError(
                f"workload.tool_gap_levels is {levels}, allowed: rising levels below 1, one for each of tool_gap_s"
            )
        if self.fork_parallel_max < 1:
            raise SmetricError(f"workload.fork_parallel_max is {self.fork_parallel_max}, allowed: 1 or more")
        if self.context_tokens < 4 * max(self.system_tokens):
            raise SmetricError(
                f"workload.context_tokens is {self.context_tokens}, allowed: at least four times the longest system prompt"
            )


def generate(config: SyntheticConfig, *, instances: int, load: float, duration_s: float, seed: int) -> Trace:
    """Draw the requests that reach a cluster in ``[0, duration_s)``, in a steady state from the first moment.

    Sessions that began before 0 are present and go on where they are (their first request here carries a history). Session
    k has the same content and the same times within it for every load and number of instances: these only change how
    close together sessions start. The sizes of sessions follow a low-discrepancy sequence, so that a small cluster sees
    the same mix as a large one.

    Args:
        config: the distributions.
        instances: number of serving instances the traffic is for.
        load: multiple of ``config.requests_per_minute`` per instance.
        duration_s: s, length of the trace; leave room for a warm-up (the paper figures: 600 of 2400 s).
        seed: 0 or more; the same seed gives the same trace in any process.

    Raises:
        SmetricError: a value that makes no traffic.
    """
    for name, value, allowed in (
        ("instances", instances, isinstance(instances, (int, np.integer)) and instances >= 1),
        ("load", load, math.isfinite(load) and load > 0),
        ("duration_s", duration_s, math.isfinite(duration_s) and duration_s > 0),
        ("seed", seed, isinstance(seed, (int, np.integer)) and 0 <= seed < 2**63),
    ):
        if not allowed:
            raise SmetricError(f"workload.{name} is {value}, allowed: a finite number above 0 (seed: a whole number, 0 or more)")
    rate = session_rate(config, instances=instances, load=load)
    starts, numbers = _session_starts(config, rate, duration_s, seed)
    rows = _draw(config, starts, numbers, duration_s, seed)[0]
    requests = cut_window(rows, 0.0, duration_s)
    if len(requests) == 0:
        raise SmetricError(f"workload.duration_s is {duration_s}, too short: no request arrives at load {load}")
    return Trace.build(requests, name=config.name, report={"sessions under way at the start": _under_way(requests)})


def session_rate(config: SyntheticConfig, *, instances: int, load: float) -> float:
    """Main agents that start per second, so that requests arrive at the configured rate."""
    return load * instances * config.requests_per_minute / 60.0 / requests_per_family(config)


@lru_cache(maxsize=64)
def requests_per_family(config: SyntheticConfig) -> float:
    """Mean requests of a main agent and its sub-agents, from a fixed sample of 8192 families."""
    count = 8192
    _, drawn = _draw(config, np.full(count, -1e9), np.arange(count), math.inf, 0)
    return drawn / count


def parameters(config: SyntheticConfig) -> np.void:
    """The numbers of ``config`` as one record of float64, for the compiled loop."""
    names = [f.name for f in fields(config) if isinstance(getattr(config, f.name), (int, float))]
    record = np.zeros(1, dtype=[(n, np.float64) for n in names])
    for n in names:
        record[n] = getattr(config, n)
    return record[0]


def _session_starts(config: SyntheticConfig, rate: float, duration_s: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Start (s) and number of every session that can send in the window; numbers fall from 0 into the past."""

    def times(stream: int, length_s: float) -> np.ndarray:
        rng = np.random.default_rng([seed, stream])
        shape = 1.0 / max(config.burstiness, 1e-3) ** 2
        at, steps = 0.0, []
        while at < length_s * rate:
            steps.append(rng.gamma(shape, 1.0 / shape, size=4096))
            at += float(steps[-1].sum())
        t = np.cumsum(np.concatenate(steps)) / rate
        return t[t < length_s]

    ahead, before = times(0, duration_s), times(1, config.age_s)
    starts = np.concatenate([-before[::-1], ahead])
    return starts, np.arange(-len(before), len(ahead), dtype=np.int64)


def _draw(config: SyntheticConfig, starts: np.ndarray, numbers: np.ndarray, end: float, seed: int) -> tuple[np.ndarray, int]:
    """All requests, sorted by arrival and led by one request per framework's system prompt; and how many were drawn."""
    systems = np.array(config.system_tokens, dtype=np.int64)
    weight = np.arange(1, len(systems) + 1) ** -config.framework_zipf
    levels = np.array([NormalDist().inv_cdf(x) for x in config.tool_gap_levels])
    values = np.array(config.tool_gap_s, dtype=np.float64)
    counters = np.zeros(2, dtype=np.int64)
    counters[0] = len(systems)  # the heads below are sessions of their own
    scratch = np.zeros(max(1 << 17, 4 * MAX_FAMILY), dtype=REQUEST)
    parts, offset, done = [_heads(systems)], len(systems), 0
    while done < len(starts):
        done, filled = draw_families(
            done, starts, numbers, end, np.uint64(seed), parameters(config), systems, np.cumsum(weight / weight.sum()),
            levels, values, scratch, counters,
        )  # fmt: skip
        part = scratch[:filled].copy()
        for name in ("base", "parent"):
            inside = part[name] >= 0
            part[name][inside] += offset
        head = part["base"] <= -2
        part["base"][head] = -2 - part["base"][head]
        parts.append(part)
        offset += filled
    rows = np.concatenate(parts)
    order = np.argsort(rows["arrival"], kind="stable")
    place = np.empty(len(rows) + 1, dtype=np.int32)
    place[order] = np.arange(len(rows), dtype=np.int32)
    place[-1] = -1
    rows = rows[order]
    for name in ("base", "parent"):
        rows[name] = place[rows[name]]
    return rows, int(counters[1])


def _heads(systems: np.ndarray) -> np.ndarray:
    """One request per framework, before all others, whose prompt is the framework's system prompt."""
    rows = np.zeros(len(systems), dtype=REQUEST)
    rows["arrival"] = -np.inf
    rows["session"] = np.arange(len(systems))
    rows["prompt"], rows["output"] = systems, 1
    rows["base"], rows["parent"] = -1, -1
    return rows


def _under_way(requests: np.ndarray) -> int:
    """Sessions whose first request here is not their first."""
    _, first = np.unique(requests["session"], return_index=True)
    return int((requests["turn"][first] > 0).sum())
