"""Runs that are small enough for a lesson: 8 instances and 10 scored minutes, well under a second each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np

from smetric_gym.agents.policy import Policy, load_policy
from smetric_gym.experiment.evaluate import Result, resolve
from smetric_gym.experiment.evaluate import run as evaluate_settings
from smetric_gym.experiment.prepare import prepare
from smetric_gym.scoring import SCORES
from smetric_gym.workload.trace import Trace

SETUP: dict[str, Any] = {"instances": 8, "warm_up_s": 300.0, "window_s": 600.0, "global_tier": 1.6}
"""Unless a lesson says otherwise; everything else is as in ``conf/``."""
SEEDS = (0, 1, 2)
WORDS = "8 instances of Qwen3-Coder-30B on one H20 each, 10 minutes after 5 of warm-up"
PER_RUN = ("load", "seed", "warm_up_s", "window_s")
"""Settings that are put in after Hydra has composed the rest, which takes longer than the run."""

_ONE_AT_A_TIME = Lock()  # pages share the process, and Hydra composes for one at a time


def plain(function: Callable) -> Policy:
    """A policy that Python runs as it is: for these short runs quicker than compiling it."""
    return _Plain(function)


class _Plain(Policy):
    def compile(self) -> Policy:
        return self


def run(policy: str | Policy, **settings: Any) -> Result:
    """One run, kept, so that asking again costs nothing.

    Args:
        policy: a registered name, or what `plain` returns.
        **settings: as for ``smetric_gym.evaluate``, on top of `SETUP`; values that can be hashed.

    Raises:
        SmetricError: one sentence about what makes no sense.
    """
    with _ONE_AT_A_TIME:
        return _run(policy, tuple(sorted((SETUP | settings).items())))


@lru_cache(maxsize=256)
def _run(policy: str | Policy, given: tuple) -> Result:
    name, function = (policy, None) if isinstance(policy, str) else (None, policy)
    return evaluate_settings(_settings(name, given), function=function)


def _settings(name: str | None, given: tuple) -> dict[str, Any]:
    rest = dict(given)
    later = {key: rest.pop(key) for key in PER_RUN if key in rest}
    return _composed(name, tuple(rest.items())) | later


@lru_cache(maxsize=128)
def _composed(name: str | None, given: tuple) -> dict[str, Any]:
    return resolve(name, dict(given))[0]


def run_on(trace: Trace, policy: str, **settings: Any) -> Result:
    """One run of a trace of your own, as it is; not kept."""
    with _ONE_AT_A_TIME:
        return evaluate_settings(_settings(policy, tuple(sorted((SETUP | settings).items()))), trace=trace)


def workload(name: str, **settings: Any) -> Trace:
    """The requests that a file of ``conf/workload`` means for a set-up. Do not change them: they are shared."""
    with _ONE_AT_A_TIME:
        given = SETUP | {"workload": name} | settings
        return prepare(_settings("smetric", tuple(sorted(given.items())))).trace


def over_seeds(
    policy: str | Policy, score: str = "tps_within_slo", seeds: Sequence[int] = SEEDS, **settings: Any
) -> np.ndarray:
    """A score of the same policy on several seeds, [seeds]; every policy meets the same requests for a seed."""
    return np.array([run(policy, seed=seed, **settings)[score] for seed in seeds], dtype=np.float64)


def means(policy: str | Policy, seeds: Sequence[int] = SEEDS, **settings: Any) -> dict[str, float]:
    """Every score that is a number, averaged over the seeds."""
    runs = [run(policy, seed=seed, **settings) for seed in seeds]
    numbers = [name for name in SCORES if not isinstance(runs[0][name], str)]
    return {name: float(np.mean([one[name] for one in runs])) for name in numbers}


def agreement(policy: Policy, reference: str, decisions: int = 300, **settings: Any) -> float:
    """Share of decisions at which a policy chooses as the reference does, asked at the same moments of the same run.

    The run follows the reference. (Two runs that each follow their own policy drift apart after a single
    tie that falls otherwise, so comparing these would say little.)

    Args:
        policy: what is compared.
        reference: a registered name.
        decisions: how many are asked, from the start of the run.
        **settings: as for `run`.
    """
    setup = run(reference, **settings).setup
    cluster, judge = setup.cluster(), load_policy(reference)
    memories = [one.new_memory(setup.trace.sessions, setup.seed) for one in (policy, judge)]
    same = asked = 0
    while asked < decisions and cluster.advance():
        choices = [
            int(one(cluster.state.seen, cluster.state.request_view[0], memory))
            if one.compiled
            else int(one(cluster.view, cluster.request, memory))
            for one, memory in zip((policy, judge), memories, strict=True)
        ]
        same, asked = same + (choices[0] == choices[1]), asked + 1
        cluster.assign(choices[1])
    return same / max(asked, 1)


def table(results: Mapping[str, Mapping[str, Any]], scores: Sequence[str], first: str = "policy") -> str:
    """A Markdown table: a row per run, a column per score with its unit.

    Args:
        results: runs, or dicts of their scores, by the name of the row.
        scores: names in ``scoring.SCORES``; shares are shown in percent.
        first: what the rows are.
    """
    head = [first, *map(_heading, scores)]
    rows = [[f"`{name}`", *(_shown(result[score], score) for score in scores)] for name, result in results.items()]
    lines = [head, ["---", *["---:"] * len(scores)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


SHOWN = {"share": ("%", 100.0), "bytes/s": ("GB/s", 1e-9)}
"""Units that a table shows in another one, and the factor."""


def _heading(name: str) -> str:
    unit, _ = SHOWN.get(SCORES[name].unit, (SCORES[name].unit, 1.0))
    bare = name.removesuffix("_s").removesuffix("_bytes_per")
    return f"{bare.replace('_', ' ')} ({unit})"


def _shown(value: Any, name: str) -> str:
    if isinstance(value, str):
        return value
    unit, factor = SHOWN.get(SCORES[name].unit, (SCORES[name].unit, 1.0))
    value *= factor
    if abs(value) >= 100 or unit in ("requests", "count"):
        return f"{value:,.0f}"
    return f"{value:.1f}" if unit == "%" else f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"
