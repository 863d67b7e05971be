"""Pieces of work that are no plain runs: made side by side, kept one by one, and found again."""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from smetric_gym.cluster.fleet import digest
from smetric_gym.reproduce.questions import replay
from smetric_gym.reproduce.study import Work

Make = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]


def make_all(work: Work, make: Make, pieces: Sequence[Mapping[str, Any]], how: Mapping[str, Any]) -> list[Any]:
    """``make(settings, how)`` for every piece, in their order; those that the store has are not made again.

    Args:
        work: of the study.
        make: a function of a module, which other processes can import; returns JSON values.
        pieces: settings of a run each.
        how: whatever else decides the results (JSON values).
    """
    source = str(sys.modules[make.__module__].__file__)
    name = json.dumps([make.__qualname__, digest(Path(source), Path(str(replay.__file__))), how], sort_keys=True)
    if work.jobs == 1:
        here = (work.kept(name, settings, partial(make, settings, how)) for settings in pieces)
        return _told(work, here, len(pieces))
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(work.jobs, context, initializer=_ignore_interrupt) as processes,
        ThreadPoolExecutor(work.jobs) as threads,  # each looks into the store, or waits for a process
    ):

        def one(settings: Mapping[str, Any]) -> Any:
            return work.kept(name, settings, lambda: processes.submit(make, settings, how).result())

        try:
            return _told(work, threads.map(one, pieces), len(pieces))
        except BaseException:  # Ctrl-C and errors alike: what is finished is in the store already
            threads.shutdown(wait=False, cancel_futures=True)
            processes.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _told(work: Work, results: Iterable[Any], of: int) -> list[Any]:
    """The results as they come, with the progress told."""
    found = []
    for result in results:
        found.append(result)
        if work.progress is not None:
            work.progress(len(found), of)
    return found


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
