"""SMetric's assumptions about a workload, checked against an audit and said in words."""

from __future__ import annotations

from collections.abc import Callable

_CHECKS: tuple[tuple[str, Callable[[float], bool], str, str, str], ...] = (
    (
        "without_history",
        lambda v: v <= 0.15,
        "Requests that carry a history are {rest} of all",
        "balancing only the others, the first turns, can work",
        "so many requests look like first turns that balancing them spreads most of the traffic",
    ),
    (
        "new_tokens_first",
        lambda v: v <= 0.4,
        "First turns hold {value} of the new tokens",
        "they are few and cheap, and it hardly matters where they go",
        "most of the prefill work arrives in first turns, so placing them well matters",
    ),
    (
        "ideal_reuse",
        lambda v: v >= 0.7,
        "An infinite store would hold {value} of the prompt tokens",
        "keeping caches warm decides the throughput",
        "much must be computed anyway, so balance matters more than affinity",
    ),
    (
        "same_session_share",
        lambda v: v >= 0.55,
        "Past the system prompt, {value} of the reuse is within a session",
        "returning to the session's instance finds it",
        "returning to the session's instance finds only part of it",
    ),
    (
        "history_kept",
        lambda v: v >= 0.85,
        "Agents keep their history: {value} of follow-ups reuse 90 % of what came before in the session",
        "the carried history predicts the hit",
        "edits, compactions or dropped histories make it a poor prediction",
    ),
    (
        "reuse_within_100s",
        lambda v: v >= 0.8,
        "{value} of reused tokens were used in the last 100 s",
        "a cache that holds a few minutes of traffic is enough",
        "tokens must be kept for long, so a large tier behind the instances matters",
    ),
    (
        "top_25pct_sessions",
        lambda v: v >= 0.7,
        "Sessions are long-tailed: the largest quarter holds {value} of the tokens",
        "expect imbalance when sessions stick to instances",
        "sticking to instances stays balanced by itself",
    ),
    (
        "tool_triggered",
        lambda v: v >= 0.8,
        "{value} of requests are sent by tools or agents",
        "follow-ups come within seconds, while the cache is warm",
        "people pause between turns, and caches cool meanwhile",
    ),
    (
        "in_flight_max_over_mean",
        lambda v: v >= 1.3,
        "Under least in-flight tokens the fullest instance still has {ratio} times the mean (median minute)",
        "requests are too long, or too few, to balance",
        "requests are small and many enough to balance",
    ),
)


def sentences(values: dict[str, float], has_content: bool) -> list[str]:
    """One sentence per assumption that ``values`` (keys of ``audit.QUANTITIES``) can speak to."""
    said = []
    if not has_content:
        said.append(
            "The trace has lengths only: nothing can be said of reuse, its intervals, or kept histories."
        )
    for key, holds, what, yes, no in _CHECKS:
        if key not in values or (not has_content and key == "without_history"):
            continue
        v = values[key]
        claim = what.format(value=f"{v:.1%}", rest=f"{1 - v:.1%}", ratio=f"{v:.2f}")
        answer = holds(v)
        said.append(f"{claim}: {'yes' if answer else 'no'}, {yes if answer else no}.")
    return said
