"""Comparisons: every policy on the same requests, over loads and seeds, in parallel, resumable."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, cast

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.comparison import TARGET, Comparison, check_summary
from smetric_gym.experiment.compiled import is_compiled
from smetric_gym.experiment.evaluate import resolve, run
from smetric_gym.experiment.prepare import check, check_boolean, check_workload
from smetric_gym.experiment.prepare import policy as policy_of
from smetric_gym.experiment.settings import choices, group_file, no_function
from smetric_gym.experiment.store import Store
from smetric_gym.workload.trace import Trace

Job = dict[str, Any]
"""Settings of one run; ``function`` in it is the policy where that is an object of Python."""


def compare(
    policies: Sequence[str | Callable | Mapping[str, Any]],
    loads: Sequence[float] = (1.0, 1.25, 1.5, 1.75, 2.0),
    seeds: Sequence[int] = (0, 1, 2),
    *,
    jobs: int = 2,
    store: str | Path | None = None,
    baseline: str | None = None,
    target: str = TARGET,
    force: bool = False,
    progress: Callable[[int, int], Any] | None = None,
    **settings: Any,
) -> Comparison:
    """Run every policy at every load with every seed; all meet the same requests (common random numbers).

    Args:
        policies: as for `evaluate`; functions of Python run in this process.
        loads: multiples of the workload's base rate.
        seeds: seeds of workload and policy.
        jobs: processes.
        store: folder that keeps finished runs; the same call finds them again. None keeps nothing.
        baseline: policy that differences are taken to; None takes the best of the others.
        target: score whose maximum is reported; prefill_tps_within_slo suits a disaggregated cluster.
        force: run again what the store already holds.
        progress: called with (finished, all) runs after each of them.
        **settings: as for `evaluate`.

    Raises:
        SmetricError: one sentence about what makes no sense; finished runs are kept.
    """
    for name in ("load", "seed"):
        if name in settings:
            raise SmetricError(f"compare takes no {name}, allowed: {name}s=[...]")
    values, trace, _ = resolve("smetric" if "smetric" in choices("policy") else None, settings)
    runs = plan(values, policies, loads, seeds, trace=trace, baseline=baseline, target=target)
    records = run_all(runs, jobs=jobs, store=store, force=force, progress=progress)
    return Comparison(records, baseline=baseline, target=target)


def plan(
    settings: Mapping[str, Any],
    policies: Sequence[Any],
    loads: Sequence[float],
    seeds: Sequence[int],
    *,
    trace: Trace | None = None,
    baseline: str | None = None,
    target: str = TARGET,
) -> list[Job]:
    """The runs of a comparison, policies innermost, so that neighbours serve the same trace.

    Raises:
        SmetricError: for whatever makes no sense in any of the runs, or in the summary after them.
    """
    for name, values in (("policies", policies), ("loads", loads), ("seeds", seeds)):
        if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
            raise SmetricError(f"{name} is {values!r}, allowed: a list with at least one entry")
    chosen = [choice(policy) for policy in policies]
    labels = [label for label, _, _ in chosen]
    for _, parameters, function in chosen:
        policy_of({**settings, "policy": parameters}, function)  # says now what is wrong with it
    for name, values in (("policies", labels), ("loads", loads), ("seeds", seeds)):
        twice = [str(value) for k, value in enumerate(values) if value in values[:k]]
        if twice:
            raise SmetricError(f"{name} has {', '.join(twice)} more than once, allowed: each one once")
    check_summary(labels, baseline, target)
    for load in loads:
        for seed in seeds:
            run_settings = {**settings, "load": load, "seed": seed}
            config, _ = check(run_settings)
            check_workload(run_settings, config.instances, trace)
    given = {} if trace is None else {"trace": trace}
    return [
        {**settings, "policy": parameters, "label": label, "function": function, "load": load, "seed": seed, **given}
        for load in loads
        for seed in seeds
        for label, parameters, function in chosen
    ]


def choice(policy: Any) -> tuple[str, dict[str, Any], Any]:
    """A policy of the list: its label, its settings, and its function where it is an object of Python."""
    if isinstance(policy, Mapping):
        if not policy.get("name"):
            found = ", ".join(map(str, policy)) or "nothing"
            raise SmetricError(
                f"policies has a mapping of {found}, without the key name, allowed: {{name: NAME, KEY: VALUE}}"
            )
        changed = {name: value for name, value in policy.items() if name != "name"}
        label, parameters, function = choice(policy.get("name"))
        words = ", ".join(f"{name}={value}" for name, value in changed.items())
        return (f"{label}({words})" if words else label), {**parameters, **changed}, function
    if isinstance(policy, str) and ":" in policy:
        return policy.rpartition(":")[2], {"name": policy}, None
    if isinstance(policy, str):
        if policy.endswith(".py"):
            raise SmetricError(no_function(policy))
        return policy, {**group_file("policy", policy), "name": policy}, None
    if callable(policy):
        return getattr(policy, "name", getattr(policy, "__name__", repr(policy))), {"name": None}, policy
    raise SmetricError(f"policies has {policy!r}, allowed: names, FILE.py:FUNCTION, mappings, functions")


def run_all(
    runs: Sequence[Job],
    *,
    jobs: int,
    store: str | Path | None,
    force: bool = False,
    progress: Callable[[int, int], Any] | None = None,
) -> list[dict[str, Any]]:
    """Records of all runs, in their order; those that the store has are not run again."""
    if type(jobs) is not int or jobs < 1:
        raise SmetricError(f"jobs is {jobs!r}, allowed: a whole number, 1 or more")
    check_boolean("force", force)
    folder = None if store is None else Path(store)
    records: list[dict[str, Any] | None] = [None if force else _stored(job, folder) for job in runs]
    todo = [k for k, record in enumerate(records) if record is None]
    here = [k for k in todo if jobs == 1 or runs[k]["function"] is not None or "trace" in runs[k]]
    away = [k for k in todo if k not in set(here)]
    done = len(runs) - len(todo)
    if progress is not None:
        progress(done, len(runs))
    for k, record in _finish(runs, here, away, jobs, folder):
        records[k] = record
        done += 1
        if progress is not None:
            progress(done, len(runs))
    return cast(list[dict[str, Any]], records)  # all are filled now


def _finish(runs, here, away, jobs, folder) -> Iterator[tuple[int, dict[str, Any]]]:
    for k in here:
        yield k, run_one(runs[k], folder)
    if not away:
        return
    run_first = away.pop(0) if not is_compiled() else None
    if run_first is not None:  # compile once, not once per process
        yield run_first, run_one(runs[run_first], folder)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(away)) or 1, context, initializer=_ignore_interrupt) as pool:
        futures = {pool.submit(run_one, runs[k], folder): k for k in away}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:  # Ctrl-C and errors alike: what is finished is in the store already
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def run_one(job: Job, folder: Path | None) -> dict[str, Any]:
    """Run one job, and save its record before it is returned."""
    job = dict(job)
    function, trace, label = job.pop("function"), job.pop("trace", None), job.pop("label")
    record = run(job, trace=trace, function=function).record() | {"policy": label}
    if folder is not None and function is None and trace is None:
        saved = Store(folder)
        key = saved.key(job)
        saved.save(key, record)
        stored = saved.load(key)
        assert stored is not None  # saved a moment ago
        return stored
    return record


def _stored(job: Job, folder: Path | None) -> dict[str, Any] | None:
    if folder is None or job["function"] is not None or "trace" in job:
        return None
    store = Store(folder)
    record = store.load(store.key(job))
    return None if record is None else record | {"policy": job["label"]}


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
