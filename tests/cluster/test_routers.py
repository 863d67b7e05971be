"""Several router replicas: what each of them sees, and that each remembers for itself."""

import dataclasses
import math

import numpy as np
import pytest
from small import least_tokens, sessions, step_time, trace

from smetric_gym.agents.policy import Policy, load_policy
from smetric_gym.cluster import Cluster, ClusterConfig, engine
from smetric_gym.cluster.fuzz import random_case, random_choice
from smetric_gym.cluster.state import Stage
from smetric_gym.errors import SmetricError

COUNTED = ("in_flight", "in_flight_tokens", "unprefilled_tokens", "routed")


def make(requests, mode="open", **config):
    config = ClusterConfig(**{"global_tier": 0, "max_batched_tokens": 64, "max_seqs": 8, **config})
    return Cluster(
        requests, config, arrival_mode=mode, window_s=math.inf, step_times=[step_time()] * config.instances, debug=True
    )


def test_a_replica_sees_its_own_decisions_at_once_and_those_of_others_late():
    # Sessions 0 and 2 belong to replica 0, session 1 to replica 1; the first request stays in flight.
    rows = [(0.0, 0, 0, 64, 100), (0.05, 1, 0, 32, 1), (0.06, 2, 0, 32, 1), (0.14, 1, 1, 32, 1), (0.25, 3, 0, 16, 1)]
    cluster = make(trace(*rows), instances=2, routers=2, view_lag_s=0.1)
    seen, more = [], cluster.advance()
    while more:
        seen.append((cluster.router, cluster.view.in_flight.tolist(), cluster.view.routed.tolist()))
        more = cluster.step(0)
    assert seen == [
        (0, [0, 0], [0, 0]),
        (1, [0, 0], [0, 0]),  # not yet of the first request
        (0, [1, 0], [1, 0]),  # its own first one, not the one of replica 1
        (1, [2, 0], [2, 0]),  # the one that replica 0 had sent by 0.04 s, and its own
        (1, [2, 0], [4, 0]),  # the two of replica 0 that were there at 0.15 s; its own two are done
    ]


def counts(cluster, router):
    """[instances, 5] of the replica: requests, prompts, todo, pairs, and 0 for routed, from the requests themselves."""
    requests, result = cluster.state.requests, np.zeros((cluster.config.instances, 5), dtype=np.int64)
    on_its_way = (Stage.ROUTED, Stage.WAITING, Stage.LOADING, Stage.RUNNING)
    for q in requests[(requests["router"] == router) & np.isin(requests["stage"], on_its_way)]:
        if q["instance"] < cluster.config.instances:
            todo, prompt = int(q["todo"]), int(q["prompt"])
            result[q["instance"], :4] += (1, prompt, todo, todo * (2 * prompt - todo))
    return result


@pytest.mark.parametrize("seed", range(12))
def test_every_view_is_the_own_counts_now_and_those_of_others_as_they_were(seed):
    """Counted anew after every event, from the requests; against the news that the event loop passes on."""
    case, config, times, mode, window_s, policy_seed = random_case(seed)
    lag, routers = (40, 400)[seed % 2], 3
    config = dataclasses.replace(config, view_lag_s=lag * 1e-12, routers=routers)
    cluster = Cluster(case, config, arrival_mode=mode, window_s=window_s, step_times=times)
    state, past = cluster.state, []  # (time, [routers, instances, 5])
    routed = np.zeros((routers, config.instances), dtype=np.int64)
    choice, views = -1, 0
    while True:
        if choice >= 0:
            routed[cluster.router, choice] += 1
            engine.assign(state, choice, 0)
            choice = -1
        table = np.stack([counts(cluster, k) for k in range(routers)])
        table[:, :, 4] = routed
        past.append((int(state.cluster["now"][0]), table))
        code = engine.advance(state, -1, 0, 1)
        if code == engine.GROW:
            cluster._grow()
            state = cluster.state
        elif code == engine.DRAINED:
            break
        elif code == engine.DECISION:
            now, own = int(state.cluster["now"][0]), cluster.router
            known = [table for time, table in past if time <= now - lag]
            expected = (known[-1] if known else np.zeros_like(past[0][1])).copy()
            expected[own] = past[-1][1][own]
            seen = np.stack([cluster.view[name] for name in COUNTED], axis=1)
            requests, prompts, todo, pairs, sent = expected.sum(axis=0).T
            inst = state.instances[: config.instances]
            seconds = todo * inst["prefill_token_s"] + 0.5 * pairs * inst["prefill_pair_s"]
            assert (seen == np.stack([requests, prompts, todo, sent], axis=1)).all(), f"decision {views} at {now}"
            assert cluster.view.unprefilled_s == pytest.approx(seconds, rel=1e-6)
            retries = int(state.requests["retries"][cluster.pending])
            hits = cluster.view.local_hit_tokens.tolist()
            choice = random_choice(policy_seed, cluster.pending, retries, list(cluster.view.alive > 0), hits)
            views += 1
    assert views > 10


def test_replicas_of_an_exact_view_see_what_one_router_sees():
    runs = []
    for routers in (1, 3):
        cluster = make(sessions(), mode="closed", instances=3, kv_blocks=60, routers=routers)
        runs.append((least_tokens(cluster), cluster.outcome.tobytes()))
    assert runs[0] == runs[1]


def test_each_replica_remembers_for_itself():
    rows = [(0.1 * k, k, 0, 32, 1) for k in range(8)]
    for routers, expected in ((1, [0, 1, 2, 3] * 2), (2, [0, 0, 1, 1, 2, 2, 3, 3])):
        cluster = make(trace(*rows), instances=4, routers=routers)
        cluster.run(load_policy("round_robin"))
        assert cluster.outcome["instance"].tolist() == expected


def test_the_first_replica_draws_like_a_single_router_and_the_others_differently():
    policy = Policy(lambda view, request, memory, params: 0)
    cluster = make(sessions(count=2), instances=1, routers=3)
    one, *others = cluster.new_memories(policy, seed=7)
    assert one.tobytes() == policy.new_memory(2, 7).tobytes()
    assert len({memory.tobytes() for memory in (one, *others)}) == 3


@pytest.mark.parametrize("routers", [0, 1.5, 1025])
def test_a_number_of_replicas_that_makes_no_sense_is_refused(routers):
    with pytest.raises(SmetricError, match="cluster.routers is .*allowed: a whole number, 1 to 1,024"):
        ClusterConfig(routers=routers)
