"""A research gym for routing the requests of LLM agents over a cluster of serving instances.

Example:
    >>> from smetric_gym import evaluate
    >>> def cheapest(view, request, memory, params):
    ...     return int((request.prompt_tokens - view.local_hit_tokens + view.unprefilled_tokens).argmin())
    >>> evaluate(cheapest, workload="trace1", load=1.5)["tps_within_slo"]  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for editors and type checkers; the names are imported when they are first used
    from smetric_gym.cluster import Cluster, ClusterConfig
    from smetric_gym.errors import SmetricError
    from smetric_gym.experiment.compare import compare
    from smetric_gym.experiment.evaluate import Result, evaluate
    from smetric_gym.scoring import SCORES
    from smetric_gym.slo import SLO
    from smetric_gym.workload.audit import audit
    from smetric_gym.workload.readers import read_trace
    from smetric_gym.workload.trace import Trace

_HOME = {
    "Cluster": "cluster",
    "ClusterConfig": "cluster",
    "Result": "experiment.evaluate",
    "SCORES": "scoring",
    "SLO": "slo",
    "SmetricError": "errors",
    "Trace": "workload.trace",
    "audit": "workload.audit",
    "compare": "experiment.compare",
    "evaluate": "experiment.evaluate",
    "read_trace": "workload.readers",
}

__all__ = [
    "SCORES",
    "SLO",
    "Cluster",
    "ClusterConfig",
    "Result",
    "SmetricError",
    "Trace",
    "audit",
    "compare",
    "evaluate",
    "read_trace",
]


def __getattr__(name: str):
    """Import a public name when it is first used, so that `import smetric_gym` costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


# `gymnasium.make("smetric_gym:SMetric/Colocated-v0")` imports this module and then expects the id to be there.
import_module("smetric_gym.registration").register_environments()
