"""Which cached content goes first: cases by hand, and what each policy promises."""

import math

import numpy as np
import pytest
from small import least_tokens, sessions, step_time, trace

from smetric_gym.cluster import Cluster, ClusterConfig
from smetric_gym.cluster.cluster import _users
from smetric_gym.cluster.duel import differences
from smetric_gym.cluster.fuzz import random_case
from smetric_gym.errors import SmetricError


def one_instance(requests, eviction, blocks, mode="open", **config):
    config = ClusterConfig(
        instances=1, global_tier=0, kv_blocks=blocks, max_batched_tokens=64, max_seqs=8, eviction=eviction, **config
    )
    return Cluster(requests, config, arrival_mode=mode, window_s=math.inf, debug=True, step_times=[step_time()])


@pytest.mark.parametrize(
    "eviction, next_one, hit",
    [("lru", "a", 0), ("lru", "b", 32), ("lfu", "a", 32), ("lfu", "b", 0), ("belady", "a", 32), ("belady", "b", 32)],
)
def test_of_two_prompts_the_one_goes_that_the_policy_names(eviction, next_one, hit):
    # Of 8 blocks a holds 3, of which two were hit once, and b, used last, holds 3. The 6 blocks of c take 4 of these.
    a, b = (0.0, 0, 0, 48, 1), (2.0, 2, 0, 48, 1)
    rows = [a, (1.0, 1, 0, 48, 1, None, 0, 48), b, (3.0, 3, 0, 96, 1)]
    bases = [0, 2] if next_one == "a" else [2, 0]
    rows += [(4.0 + k, 4 + k, 0, 48, 1, None, base, 48) for k, base in enumerate(bases)]
    cluster = one_instance(trace(*rows), eviction, blocks=8)
    least_tokens(cluster)
    assert cluster.outcome["local_hit_tokens"][:5].tolist() == [0, 32, 0, 0, hit]


def test_belady_lets_go_first_what_is_never_used_again():
    rows = [(0.0, 0, 0, 48, 1), (1.0, 1, 0, 48, 1), (2.0, 2, 0, 80, 1), (3.0, 3, 0, 48, 1, None, 0, 48)]
    for eviction, hit in (("lru", 0), ("belady", 32)):
        cluster = one_instance(trace(*rows), eviction, blocks=8)
        least_tokens(cluster)
        assert cluster.outcome["local_hit_tokens"][3] == hit


@pytest.mark.parametrize("other, busy_from, hit", [(1, 1.1, 16), (1, 1.088, 16), (0, 1.088, 32), (0, 1.1, 16)])
def test_a_block_is_taken_with_what_is_to_come_at_that_moment(other, busy_from, hit):
    """Long decodes are one event, but choose what goes at the time of each step.

    A decode takes its third block at 1.162 s, where p and q are cached. A request that uses p is admitted elsewhere
    74 ms after `busy_from`: from then on p is never used again. At the same tick the lower instance goes first.
    """
    p, q = (0.0, 0, 0, 32, 1), (0.2, 1, 0, 32, 1)
    uses_p, uses_q = (1.11, 4, 0, 40, 1, None, 0, 32), (1.3, 5, 0, 40, 1, None, 1, 32)
    rows = [p, q, (1.0, 2, 0, 20, 40), (busy_from, 3, 0, 64, 1), uses_p, uses_q]
    config = ClusterConfig(
        instances=2, global_tier=0, kv_blocks=6, max_batched_tokens=64, max_seqs=8, eviction="belady"
    )
    cluster = Cluster(trace(*rows), config, arrival_mode="open", debug=True, step_times=[step_time()] * 2)
    here = 1 - other
    for choice in (here, here, here, other, other):
        assert cluster.advance()
        cluster.assign(choice)
    assert cluster.advance() and cluster.view.local_hit_tokens[here] == hit


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_who_knows_the_future_hits_more(mode):
    hits = {}
    for eviction in ("lru", "lfu", "belady"):
        cluster = one_instance(sessions(), eviction, blocks=60, mode=mode)
        least_tokens(cluster)
        hits[eviction] = int(cluster.outcome["local_hit_tokens"].sum())
    assert hits["belady"] > max(hits["lru"], hits["lfu"]), hits


@pytest.mark.parametrize("eviction", ["lru", "lfu", "belady"])
def test_a_cache_that_is_large_enough_evicts_nothing(eviction):
    cluster = one_instance(sessions(count=4), eviction, blocks=1000)
    least_tokens(cluster)
    roomy = one_instance(sessions(count=4), "lru", blocks=1000)
    least_tokens(roomy)
    assert cluster.outcome.tobytes() == roomy.outcome.tobytes()


def test_the_users_of_a_node_are_the_requests_that_pass_through_it():
    for seed in range(5):
        case = random_case(seed)[0]
        start, users = _users(case)
        expected = [[] for _ in case.nodes]
        for r in range(len(case)):
            n = case.requests["node"][r]
            while n > 0:
                expected[n].append(r)
                n = case.nodes["parent"][n]
        assert [users[a:b].tolist() for a, b in zip(start[:-1], start[1:], strict=True)] == expected


def test_random_cases_draw_every_policy():
    assert {random_case(seed)[1].eviction for seed in range(6)} == {"lru", "lfu", "belady"}


def test_the_reference_notices_another_policy(monkeypatch):
    """The duel can lose: where the event loop evicts by LRU what it should by LFU, and by LFU for Belady's."""
    from smetric_gym.cluster import cluster as module

    monkeypatch.setattr(module, "EVICTIONS", ("lfu", "belady", "lru"))
    seeds = [seed for seed in range(30) if random_case(seed)[1].eviction != "lru"]
    differ = np.array([bool(differences(seed)) for seed in seeds])
    assert differ.mean() > 0.3, differ


def test_an_unknown_policy_is_refused():
    with pytest.raises(SmetricError, match="cluster.eviction is 'fifo', allowed: lru, lfu, belady"):
        ClusterConfig(eviction="fifo")
