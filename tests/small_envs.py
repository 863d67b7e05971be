"""Small episodes for tests of environments: long prompts that arrive too fast for some limits."""

from small import sessions

SCENARIO = {
    "max_instances": 6,
    "shuffle": True,
    "trace_seeds": [0, 50],
    "draw": {
        "instances": {"integers": [2, 6]},
        "global_tier": [0.0, 1.6],
        "load": {"uniform": [0.5, 2.0]},
        "cluster.view_lag_s": [0.0, 0.5],
        "outages": [0, 1],
        "outage_s": 5.0,
        "warm_up_s": 2.0,
        "window_s": {"uniform": [20.0, 40.0]},
    },
}


def agents(seed):
    return sessions(count=12, turns=4, prompt=8000, new=3000, output=60, gap=0.3, every=0.4, system=4000, seed=seed)


BASE = {"instances": 4, "workload": agents, "warm_up_s": 1, "window_s": 6, "global_tier": 1.0}
