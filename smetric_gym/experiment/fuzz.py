"""``smetric-gym fuzz``: random hostile clusters through the event loop and the reference simulator."""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from smetric_gym.cluster.duel import differences, reference_cluster
from smetric_gym.errors import SmetricError

SHOWN = 5
"""Differences that are printed of one cluster."""


def fuzz(
    clusters: int, *, first: int = 0, jobs: int = 1, debug: bool = False, progress=None
) -> dict[int, list[str]]:
    """Compare the two simulators on the random cases ``first .. first + clusters - 1``.

    Args:
        clusters: how many cases.
        first: the first seed; a failing case is repeated with ``clusters=1, first=SEED``.
        jobs: processes.
        debug: check the invariants of the event loop after every event as well (slow).
        progress: called with the seed after every case.

    Returns:
        For each case that differs its seed and what differs; empty when all agree.
    """
    seeds = range(first, first + clusters)
    found: dict[int, list[str]] = {}
    with ProcessPoolExecutor(jobs) as pool:
        for seed, said in zip(seeds, pool.map(_case, seeds, repeat(debug), chunksize=4), strict=True):
            if said:
                found[seed] = said
            if progress:
                progress(seed)
    return found


def _case(seed: int, debug: bool) -> list[str]:
    try:
        return differences(seed, debug=debug)
    except Exception as error:  # a crash is a finding, and the other cases go on
        return [f"{type(error).__name__}: {error}"]


def main(arguments: list[str]) -> None:
    """The command. Exit code 1 when a case differs."""
    parser = argparse.ArgumentParser(
        prog="smetric-gym fuzz",
        description="Random clusters, workloads and policies (tiny caches, overload, preemption, "
        "thrashing tiers, links of every speed, instances that fail): the event loop must equal the reference.",
    )
    parser.add_argument("--clusters", type=int, default=300, help="how many cases, 1 or more (default 300)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case (default 0)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)"
    )
    parser.add_argument("--debug", action="store_true", help="check every invariant after every event (slow)")
    options = parser.parse_args(arguments)
    if options.clusters < 1 or options.jobs < 1 or options.seed < 0:
        raise SmetricError("fuzz takes --clusters and --jobs of 1 or more, and a --seed of 0 or more")
    reference_cluster()
    from rich.progress import Progress

    began = time.perf_counter()
    with Progress(transient=True) as bar:
        task = bar.add_task("clusters", total=options.clusters)
        found = fuzz(
            options.clusters,
            first=options.seed,
            jobs=options.jobs,
            debug=options.debug,
            progress=lambda _seed: bar.advance(task),
        )
    for seed, said in found.items():
        print(f"seed {seed}: {len(said)} differences")
        for line in said[:SHOWN]:
            print(f"  {line}")
    print(f"{options.clusters} clusters, {len(found)} differ, {time.perf_counter() - began:.0f} s")
    if found:
        raise SystemExit(1)
