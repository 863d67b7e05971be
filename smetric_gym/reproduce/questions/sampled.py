"""A run on a sample of the sessions of a recorded trace, at a multiple of its recorded rate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from smetric_gym.experiment.evaluate import run
from smetric_gym.workload.readers import read_trace
from smetric_gym.workload.sampling import sample_sessions
from smetric_gym.workload.trace import Trace


def scores(settings: Mapping[str, Any], how: Mapping[str, Any]) -> dict[str, Any]:
    """Scores of one run; a recorded trace is sampled by the seed, and its times squeezed to the load.

    Args:
        settings: of the run.
        how: ``share`` of the sessions that are kept.
    """
    values = settings["workload"]
    if "path" not in values:
        return dict(run(settings))
    trace = _sampled(tuple(sorted(values.items())), how["share"], settings["seed"])
    return dict(run({**settings, "load": settings["load"] / how["share"], "load_by": "time"}, trace=trace))


@lru_cache(maxsize=2)
def _sampled(values: tuple[tuple[str, Any], ...], share: float, seed: int) -> Trace:
    return sample_sessions(_read(values), share, seed)


@lru_cache(maxsize=2)
def _read(values: tuple[tuple[str, Any], ...]) -> Trace:
    return read_trace(**dict(values))
