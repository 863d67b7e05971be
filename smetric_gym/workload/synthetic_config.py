"""The parameters of the synthetic agent workload: every distribution by name, with its unit and source."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from smetric_gym.errors import SmetricError

_SHARES = (
    *("single_share", "paste_share", "stateless_share", "human_share", "compact_at", "compact_share"),
    *("edit_share", "edit_keeps", "reasoning_share", "reasoning_keeps"),
    *("fork_share", "fork_more_share", "fresh_share"),
)
_POSITIVE = (
    *("requests_per_minute", "burstiness", "age_s", "turns_median", "first_median", "paste_median"),
    *("tool_tokens_median", "tool_tokens_cap", "human_tokens_median", "output_median", "output_cap"),
    *("context_tokens", "compact_at", "summary_median", "fork_parallel_max", "fork_turns_median"),
    *("task_median", "spawn_gap_median_s", "human_gap_median_s", "gap_cap_s"),
)

MOST_FRAMEWORKS = 100_000


@dataclass(frozen=True)
class SyntheticConfig:
    """Sessions of coding agents: main agents with tool and human turns, and the sub-agents that they fork.

    ``x_median`` and ``x_sigma`` are a log-normal distribution (sigma of the natural logarithm); a share is of
    the thing named. Sources: [S] SMetric section 3, figure 5 (two traces of May 2026); [A] agentic-kvc's
    notes on the same provider's coding traffic (2.1 M requests in 2 h; unverified); [W] Weka's 710 Claude
    Code sessions, measured; [T] TraceLab; [X] Codex on SWE-bench Pro (vLLM blog); [B] "KVCache Cache in the
    Wild" (ATC'25) and the questions and answers of its traces; [fit] published by nobody: chosen so that the
    whole meets [S] and the lengths of [A], never by looking at what a policy makes of it. The defaults are
    the preset ``trace1``.

    Attributes:
        name: name of the trace.
        requests_per_minute: requests per minute per instance at load 1; 10 suits one H20 per Qwen3-Coder-30B.
            ([S] counts 43 and 48 on the provider's own, larger, instances.)
        burstiness: coefficient of variation of the times between session starts; 1 is Poisson.
        age_s: s, a session ends when its next request would be sent later than this after its first. [fit]
        system_tokens: tokens of the system prompt and tools of each framework, most popular first. [S] share
            of the system prompt at the mean prompt of [A]: 5.0k to 5.6k; public agents have 10k to 15k [W],
            in longer prompts.
        frameworks: how many system prompts there are, their sizes ``system_tokens`` in turn; 0 for one of each. Nobody
            published it: the share of [S] is mostly follow-ups that repeat their own.
        framework_zipf: popularity of framework k is proportional to ``k ** -framework_zipf``. [fit]
        single_share: share of sessions with one request. [fit]; [A] has 0.9, without reliable session ids.
        turns_median: turns of the other main agents. [fit]; [W] 45, without single and often-compacted
            sessions.
        turns_sigma: 1.3 to 1.7 give the skew of [S]; [W] has 1.16.
        growth_sigma: spread between sessions of the tokens that tools return. [fit] to p50 and p90 of [A]'s
            prompts.
        first_median: tokens of the first message. 3k to 7k in [W]'s fresh sessions, less what is shared.
            [fit]
        first_sigma: see ``first_median``. [fit]
        paste_share: share of sessions that begin with a pasted repository or an imported conversation. [fit]
            to the reuse of [S]; 45 % of [W]'s sessions start above 40k.
        paste_median: tokens of such a beginning. [W] second mode at 90k and more.
        paste_sigma: see ``paste_median``. [fit]
        stateless_share: share of main agents that send no history. [fit]
        human_share: share of a main agent's follow-ups that a human sends. [W] 0.042 after a tool turn.
        tool_tokens_median: tokens that a tool turn appends, before the spread of ``growth_sigma``. [X] 758 to
            880, [T] 1,045, [W] 677.
        tool_tokens_sigma: see above. [X] p90 8,736 (1.9), [T] p90 6,963 (1.5), [W] 1.13.
        tool_tokens_cap: tokens; longer tool results are cut. [fit]
        human_tokens_median: tokens that a human turn appends. [W] 530.
        human_tokens_sigma: see above. [W] 1.10.
        output_median: tokens of an answer. [A] mean 445, p50 80; [W] p50 216.
        output_sigma: see above; with the median it gives [A]'s mean.
        output_cap: tokens, longest answer.
        context_tokens: tokens, prompt + output at most.
        compact_at: share of the context at which an agent compacts: its history becomes a summary after the
            system prompt. [fit]
        compact_share: share of follow-ups that compact before that (by command, or for a smaller model).
            [fit]; [W] 1.7 % hard resets, with often-compacted sessions left out.
        summary_median: tokens of the summary. [fit]
        summary_sigma: see above. [fit]
        edit_share: share of follow-ups whose history is changed from a point on, uniform past the system
            prompt (cut tool results, rewinds, re-ordered files). [fit] to the reuse of [S]; [W] 2.8 %,
            selected for few.
        edit_keeps: share of what follows that point that stays, as new tokens to a cache. [fit]
        reasoning_share: share of follow-ups whose last answer comes back without its reasoning, so that the
            answer does not match what was generated. [B] strips reasoning between turns; the share is [fit].
        reasoning_keeps: share of that answer that stays. [fit]
        fork_share: share of a main agent's turns after which it calls sub-agents and waits. [fit]: the 13 to
            15 % of reuse between sessions in [S] needs about an eighth of all requests to inherit another's
            context.
        fork_more_share: chance of each further sub-agent called at once. [fit]
        fork_parallel_max: sub-agents called at once, at most. [fit]
        fresh_share: share of sub-agents that start from the system prompt alone (all 63 of [W]); the others
            inherit their caller's context ("much" of the reuse between sessions in [S]). [fit]
        fork_turns_median: turns of a sub-agent, less one. [fit] to the skew of [S]; [W] mean 10.7.
        fork_turns_sigma: see above. [fit]
        task_median: tokens of a sub-agent's task. [fit]
        task_sigma: see above. [fit]
        spawn_gap_median_s: s from the caller's completion to a sub-agent's first request. [fit]
        spawn_gap_sigma: see above. [fit]
        tool_gap_levels: levels of the quantiles of the gap between a completion and the next tool turn. [A]
        tool_gap_s: s, those quantiles; between them the logarithm is linear in the normal score. [A]
        human_gap_median_s: s between a completion and a human turn. [W] 178, [T] 121.5.
        human_gap_sigma: see above. [T] p90 1,058.
        gap_cap_s: s, longest gap. [fit]
        ttft_s: s to the first token in the recorded times, which open-loop arrivals rest on. Assumed.
        ttft_per_token_s: s more per new prompt token. Assumed.
        tpot_s: s per output token. Assumed; with these three the median request takes 6.8 s ([W]: 6.1), p90
            41 s ([W]: 18).
    """

    name: str = "synthetic"
    requests_per_minute: float = 10.0
    burstiness: float = 1.0
    age_s: float = 21600.0
    system_tokens: tuple[int, ...] = (5500, 4700, 5900, 4100)
    frameworks: int = 0
    framework_zipf: float = 1.0
    single_share: float = 0.22
    turns_median: float = 6.5
    turns_sigma: float = 1.34
    growth_sigma: float = 1.5
    first_median: float = 2100.0
    first_sigma: float = 1.0
    paste_share: float = 0.21
    paste_median: float = 80000.0
    paste_sigma: float = 0.7
    stateless_share: float = 0.005
    human_share: float = 0.045
    tool_tokens_median: float = 930.0
    tool_tokens_sigma: float = 1.58
    tool_tokens_cap: float = 32000.0
    human_tokens_median: float = 530.0
    human_tokens_sigma: float = 1.1
    output_median: float = 136.0
    output_sigma: float = 1.57
    output_cap: float = 16384.0
    context_tokens: float = 131072.0
    compact_at: float = 0.9
    compact_share: float = 0.05
    summary_median: float = 6000.0
    summary_sigma: float = 0.6
    edit_share: float = 0.12
    edit_keeps: float = 0.75
    reasoning_share: float = 0.3
    reasoning_keeps: float = 0.5
    fork_share: float = 0.26
    fork_more_share: float = 0.16
    fork_parallel_max: int = 8
    fresh_share: float = 0.35
    fork_turns_median: float = 0.6
    fork_turns_sigma: float = 1.0
    task_median: float = 600.0
    task_sigma: float = 0.8
    spawn_gap_median_s: float = 0.3
    spawn_gap_sigma: float = 0.8
    tool_gap_levels: tuple[float, ...] = (0.25, 0.5, 0.75, 0.9, 0.99)
    tool_gap_s: tuple[float, ...] = (0.69, 1.6, 8.6, 44.0, 738.0)
    human_gap_median_s: float = 178.0
    human_gap_sigma: float = 1.4
    gap_cap_s: float = 1800.0
    ttft_s: float = 0.5
    ttft_per_token_s: float = 1.2e-4
    tpot_s: float = 0.04

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "name":
                if not isinstance(value, str):
                    raise SmetricError(f"workload.name is {value!r}, allowed: a text")
            elif isinstance(f.default, tuple):
                several = isinstance(value, (tuple, list)) and len(value) > 0
                if not several or not all(_is_number(v) and v > 0 for v in value):
                    raise SmetricError(f"workload.{f.name} is {value!r}, allowed: a list of numbers above 0")
                object.__setattr__(self, f.name, tuple(value))
            elif not _is_number(value) or value < 0:
                raise SmetricError(f"workload.{f.name} is {value!r}, allowed: a number of 0 or more")
            elif f.name in _SHARES and value > 1:
                raise SmetricError(f"workload.{f.name} is {value}, allowed: a share between 0 and 1")
            elif f.name in _POSITIVE and value == 0:
                raise SmetricError(f"workload.{f.name} is 0, allowed: more than 0")
        if self.frameworks != int(self.frameworks) or self.frameworks > MOST_FRAMEWORKS:
            raise SmetricError(
                f"workload.frameworks is {self.frameworks}, allowed: a whole number, 0 to {MOST_FRAMEWORKS}"
            )
        levels = self.tool_gap_levels
        rising = all(a < b for a, b in zip(levels, levels[1:], strict=False)) and levels[-1] < 1
        if not rising or len(levels) < 2 or len(levels) != len(self.tool_gap_s):
            raise SmetricError(
                f"workload.tool_gap_levels is {levels}, "
                "allowed: two or more rising levels below 1, one for each of tool_gap_s"
            )
        if self.context_tokens < 4 * max(self.system_tokens):
            raise SmetricError(
                f"workload.context_tokens is {self.context_tokens:g}, "
                "allowed: at least 4 times the longest of system_tokens"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
