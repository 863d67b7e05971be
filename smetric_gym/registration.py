"""The Gymnasium ids of smetric_gym."""

from __future__ import annotations

ENVIRONMENTS = {
    "SMetric/Colocated-v0": ("smetric_gym.envs.colocated:ColocatedEnv", "smetric_gym.envs.vector:VectorColocatedEnv"),
    "SMetric/Disaggregated-v0": (
        "smetric_gym.envs.disaggregated:DisaggregatedEnv",
        "smetric_gym.envs.vector:VectorDisaggregatedEnv",
    ),
}
"""Ids to the class of one environment, and of a vector of them."""


def register_environments() -> None:
    """Make the ids known to ``gymnasium.make`` and ``make_vec``; calling it again changes nothing.

    ``gymnasium.make("smetric_gym:SMetric/Colocated-v0")`` imports ``smetric_gym`` first, which calls this.
    Worker processes import nothing else, so they need that prefix.
    """
    from gymnasium.envs.registration import register, registry

    for name, (one, many) in ENVIRONMENTS.items():
        if name not in registry:
            register(id=name, entry_point=one, vector_entry_point=many)
