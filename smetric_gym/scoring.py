"""What a run is worth: every score with its name, unit and definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from smetric_gym.measures import Scored

SACRIFICED = 3.0
SESSION_REQUESTS = 4


@dataclass(frozen=True)
class Score:
    """A number of a run: its name in files and tables, its unit, its definition, and its function."""

    name: str
    unit: str
    definition: str
    of: Callable[[Scored], Any]


SCORES: dict[str, Score] = {}
"""Every score by its name, in the order of tables and files."""


class Scores(dict):
    """Score names to values, in the order of ``SCORES``."""

    @classmethod
    def of(cls, run: Scored) -> Scores:
        """All scores of a run."""
        return cls((name, score.of(run)) for name, score in SCORES.items())


def _score(unit: str):
    """Enter a function into ``SCORES``: its name is the score's, its docstring the definition."""

    def enter(function):
        SCORES[function.__name__] = Score(function.__name__, unit, function.__doc__, function)
        return function

    return enter


def _percentile(name: str, q: int, what: str) -> None:
    """Enter a percentile over the scored requests that have the time ``name``."""

    def of(run: Scored) -> float:
        times = getattr(run, f"{name}_s")
        times = times[np.isfinite(times)]
        return float(np.percentile(times, q)) if len(times) else float("nan")

    of.__name__ = f"{name}_p{q}_s"
    of.__doc__ = f"{q}th percentile of {what}, over the scored requests that have one."
    _score("s")(of)


def _ratio(part, whole) -> float:
    return float(part / whole) if whole else float("nan")


@_score("tokens/s")
def tps_within_slo(run: Scored) -> float:
    """Prompt + output tokens of scored requests that met both limits, per second of the window."""
    return run.per_s((run.prompt + run.output)[run.met])


@_score("tokens/s")
def output_tps_within_slo(run: Scored) -> float:
    """Output tokens of scored requests that met both limits, per second of the window."""
    return run.per_s(run.output[run.met])


@_score("tokens/s")
def prefill_tps_within_slo(run: Scored) -> float:
    """Prompt tokens of scored requests that met the TTFT limit, per second of the window."""
    return run.per_s(run.prompt[run.met_ttft])


@_score("tokens/s")
def tps(run: Scored) -> float:
    """Prompt + output tokens of scored requests that finished, per second of the window."""
    return run.per_s((run.prompt + run.output)[run.finished])


@_score("share")
def slo_attainment(run: Scored) -> float:
    """Scored requests that met both limits / scored requests."""
    return _ratio(run.met.sum(), len(run.met))


for _q in (50, 90, 99):
    _percentile("ttft", _q, "first token minus arrival")
for _q in (50, 90, 95, 99):
    _percentile("tpot", _q, "(finish minus first token) / (output tokens - 1)")
for _q in (50, 99):
    _percentile("response", _q, "finish minus arrival")


@_score("share")
def local_hit_ratio(run: Scored) -> float:
    """Prompt tokens found in the instance's own cache at the first admission / prompt tokens."""
    return _ratio(run.outcome["local_hit_tokens"].sum(), run.prompt.sum())


@_score("share")
def global_hit_ratio(run: Scored) -> float:
    """Prompt tokens loaded from the global tier at the first admission / prompt tokens."""
    return _ratio(run.outcome["global_hit_tokens"].sum(), run.prompt.sum())


@_score("share")
def reuse_ratio(run: Scored) -> float:
    """Sum of local_hit_ratio and global_hit_ratio."""
    return local_hit_ratio(run) + global_hit_ratio(run)


@_score("share")
def ideal_reuse_ratio(run: Scored) -> float:
    """Prompt tokens that a store without limits would hold, in whole blocks / prompt tokens."""
    return _ratio(run.trace.ideal_hit_tokens(run.block_tokens)[run.mask].sum(), run.prompt.sum())


@_score("max/mean")
def load_imbalance(run: Scored) -> float:
    """Mean over windows of max/mean over instances, down or not, of time-averaged prompt tokens in flight."""
    return run.load_imbalance()


@_score("share")
def first_turn_return_ratio(run: Scored) -> float:
    """Scored follow-ups on the instance of their session's first request in the trace / scored follow-ups."""
    now, _, first = run.follow_ups
    return _ratio((now == first).sum(), len(now))


@_score("requests")
def migrations(run: Scored) -> int:
    """Scored follow-ups on another instance than the request before them in their session."""
    now, before, _ = run.follow_ups
    return int((now != before).sum())


@_score("requests")
def overload_fallbacks(run: Scored) -> int:
    """Scored decisions that fell back to load balance because the instance with the hits was overloaded."""
    return run.count_reason("OVERLOAD")


@_score("requests")
def eviction_fallbacks(run: Scored) -> int:
    """Scored decisions that fell back to load balance because the cache of the session was evicted."""
    return run.count_reason("EVICTED")


@_score("bytes/s")
def global_read_bytes_per_s(run: Scored) -> float:
    """KV bytes moved from the global tier for scored requests, in whole chunks, per second of the window."""
    return run.per_s(run.outcome["read_tokens"]) * run.kv_bytes_per_token


@_score("bytes/s")
def global_read_peak_bytes_per_s(run: Scored) -> float:
    """The same of all requests in the busiest 10 s of the window; each counts when it is admitted."""
    return run.read_peak_bytes_per_s()


@_score("count")
def preemptions(run: Scored) -> int:
    """Times that a scored request lost its blocks to another one and was computed again."""
    return int(run.outcome["preemptions"].sum())


@_score("requests")
def requests(run: Scored) -> int:
    """Scored requests: those that arrived in the scored window."""
    return len(run.outcome)


@_score("requests")
def unfinished(run: Scored) -> int:
    """Scored requests without a last token when everything had drained."""
    return int((~run.finished).sum())


@_score("")
def saturation(run: Scored) -> str:
    """Whether the cluster keeps up: stable, backlogged (10 % of requests start late) or overloaded."""
    return run.saturation()


@_score("")
def arrival_mode(run: Scored) -> str:
    """How requests arrived: open, causal or closed."""
    return run.arrival_mode


@_score("")
def seed(run: Scored) -> int:
    """Seed of the workload and of the policy."""
    return run.seed


@_score("share")
def largest_instance_share(run: Scored) -> float:
    """Scored requests on the instance that got most of them / scored requests."""
    return _ratio(run.routed().max(), len(run.outcome))


@_score("share")
def sacrificed_share(run: Scored) -> float:
    """Scored requests whose first token came after 3 times their TTFT limit, or never / scored requests."""
    in_bounds = run.ttft_s <= SACRIFICED * run.slo.ttft_limit_s(run.prompt)
    return _ratio((~in_bounds).sum(), len(in_bounds))


@_score("share")
def worst_session_attainment(run: Scored) -> float:
    """Lowest share of requests that met both limits, over the sessions with 4 or more scored requests."""
    session = run.trace.requests["session"][run.mask]
    requests, met = np.bincount(session), np.bincount(session, weights=run.met)
    long = requests >= SESSION_REQUESTS
    shares = met[long] / requests[long]
    return float(shares.min()) if len(shares) else float("nan")
