"""Random cases for tests, and how the reference serves one."""

from reference.simulator import ReferenceCluster
from smetric_gym.cluster.fuzz import random_case, random_choice

__all__ = ["random_case", "serve_by_reference"]


def serve_by_reference(case, *, trace_events=False):
    """Serve a case by the reference, routed by ``random_choice``, and return the finished cluster."""
    trace, config, step_times, arrival_mode, window_s, policy_seed = case
    cluster = ReferenceCluster(
        trace, config, step_times, arrival_mode=arrival_mode, window_s=window_s, trace_events=trace_events
    )

    def policy(view, request):
        return random_choice(
            policy_seed,
            request["id"],
            request["retries"],
            [i["alive"] for i in view],
            [i["local_hit"] for i in view],
        )

    cluster.run(policy)
    return cluster
