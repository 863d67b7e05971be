"""The Gymnasium ids of smetric_gym."""

from __future__ import annotations

ENVIRONMENTS = {
    "SMetric/Colocated-v0": "smetric_gym.envs.colocated:ColocatedEnv",
    "SMetric/Disaggregated-v0": "smetric_gym.envs.disaggregated:DisaggregatedEnv",
}


def register_environments() -> None:
    """Make the ids known to ``gymnasium.make``; calling it again changes nothing.

    ``gymnasium.make("smetric_gym:SMetric/Colocated-v0")`` imports ``smetric_gym`` first, which calls this.
    Worker processes import nothing else, so they need that prefix.
    """
    from gymnasium.envs.registration import register, registry

    for name, entry_point in ENVIRONMENTS.items():
        if name not in registry:
            register(id=name, entry_point=entry_point)
