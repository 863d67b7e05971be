"""Many short runs in parallel, for whoever searches: a policy on a scenario, and a few scores of it."""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from smetric_gym.agents.policy import Policy
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.cells import Scenario
from smetric_gym.experiment.compiled import is_compiled
from smetric_gym.experiment.prepare import Setup, policy, prepare
from smetric_gym.scoring import SCORES

KEPT = ("tps_within_slo", "prefill_tps_within_slo", "ttft_p99_s", "sacrificed_share", "largest_instance_share")
"""Scores of every run; the others cost time that a search does not have."""
SETUPS = 256
CHUNK = 4
"""Runs that go to a process in one piece."""


class Job(NamedTuple):
    """One run: settings of a policy, or its name with values for its parameters (a NamedTuple of arrays)."""

    scenario: Scenario
    policy: Mapping[str, Any]
    params: tuple | None = None


class Rollouts:
    """Processes that keep their scenarios and compiled policies from one call to the next.

    Args:
        jobs: processes; 1 runs everything in this one.

    Use as a context manager; leaving it ends the processes.

    Raises:
        SmetricError: if `jobs` is no number of processes.
    """

    def __init__(self, jobs: int) -> None:
        if type(jobs) is not int or jobs < 1:
            raise SmetricError(f"jobs is {jobs!r}, allowed: a whole number, 1 or more")
        self.jobs = jobs

    def __enter__(self) -> Rollouts:
        context = multiprocessing.get_context("spawn")
        self._pool = None if self.jobs == 1 else ProcessPoolExecutor(self.jobs, context, initializer=_ignore_interrupt)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=error[0] is None, cancel_futures=True)

    def run(
        self, runs: Sequence[Job], progress: Callable[[int], Any] = lambda done: None
    ) -> dict[str, np.ndarray]:
        """The `KEPT` scores of every run, [runs] float64 each, in their order.

        Runs of one scenario should be neighbours: they go to one process in a row, which builds it once.
        """
        if self._pool is not None and not is_compiled():  # compile once, not once per process
            run_job(runs[0])
        rows: list[dict[str, float]] = []
        chunks = [list(runs[start : start + CHUNK]) for start in range(0, len(runs), CHUNK)]
        done = map(_run_some, chunks) if self._pool is None else self._pool.map(_run_some, chunks)
        for chunk in done:
            rows += chunk
            progress(len(rows))
        return {name: np.array([row[name] for row in rows]) for name in KEPT}


def _run_some(runs: Sequence[Job]) -> list[dict[str, float]]:
    return [run_job(job) for job in runs]


def run_job(job: Job) -> dict[str, float]:
    """The `KEPT` scores of one run."""
    setup = _setup(json.dumps(job.scenario, sort_keys=True))
    router = _policy(json.dumps(dict(job.policy), sort_keys=True), setup.config.disaggregated)
    if job.params is not None:
        router = router.with_params(job.params)
    cluster = setup.cluster()
    cluster.run(router, seed=setup.seed)
    scored = setup.scored(cluster)
    return {name: float(SCORES[name].of(scored)) for name in KEPT}


@lru_cache(maxsize=SETUPS)
def _setup(scenario: str) -> Setup:
    return prepare(json.loads(scenario))


@lru_cache(maxsize=SETUPS)
def _policy(values: str, disaggregated: bool) -> Policy:
    settings = {"policy": json.loads(values), "cluster": {"decode_instances": int(disaggregated)}}
    return policy(settings).compile()


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
