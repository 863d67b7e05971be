"""The cluster on cases small enough to work out by hand, and the promises of its interface."""

import math

import numpy as np
import pytest
from small import least_tokens, sessions, step_time, trace

from smetric_gym.cluster import DONE, UNISSUED, Cluster, ClusterConfig
from smetric_gym.cluster.fleet import Fleet
from smetric_gym.errors import SmetricError


def make(rows_or_trace, *, times=None, mode="closed", window_s=math.inf, debug=True, **config):
    config = {
        "instances": 1,
        "global_tier": 0,
        "max_batched_tokens": 64,
        "max_seqs": 8,
        "chunk_tokens": 32,
        **config,
    }
    config = ClusterConfig(**config)
    count = config.instances + config.decode_instances
    return Cluster(
        rows_or_trace,
        config,
        arrival_mode=mode,
        window_s=window_s,
        debug=debug,
        step_times=times or [step_time(budget=config.max_batched_tokens, rows=config.max_seqs)] * count,
    )


def test_a_cold_prompt_is_chunked_and_then_decodes():
    cluster = make(trace((0.0, 0, 0, 100, 3)))
    least_tokens(cluster)
    done = cluster.outcome[0]
    # 64 tokens: 10 + 64 ms; 36 tokens: 10 + 36 ms; two decode steps of 11 ms
    assert done["first_token_s"] == pytest.approx(0.120, abs=1e-12)
    assert done["finish_s"] == pytest.approx(0.142, abs=1e-12)
    assert done["state"] == DONE and done["local_hit_tokens"] == 0


def test_a_follow_up_hits_prompt_and_output_in_full_blocks():
    cluster = make(trace((0.0, 0, 0, 100, 30), (1.0, 0, 1, 140, 1, 0, 0, 130, 0.5)))
    least_tokens(cluster)
    second = cluster.outcome[1]
    assert (
        second["local_hit_tokens"] == 128
    )  # 129 tokens have KV (the last sampled one has none): 8 blocks of 16
    assert second["arrival_s"] == pytest.approx(cluster.outcome[0]["finish_s"] + 0.5)
    assert second["first_token_s"] - second["arrival_s"] == pytest.approx(0.010 + 0.012)


def test_the_last_block_of_a_cached_prompt_is_computed_again():
    cluster = make(trace((0.0, 0, 0, 64, 1), (1.0, 1, 0, 64, 1, None, 0, 64)))
    least_tokens(cluster)
    assert cluster.outcome["local_hit_tokens"].tolist() == [0, 48]


def test_arrival_modes():
    rows = ((0.0, 0, 0, 100, 30), (0.1, 0, 1, 140, 1, 0, 0, 130, 0.5))
    first_ends = 0.12 + 29 * 0.011
    for mode, expected in (("open", 0.1), ("causal", first_ends), ("closed", first_ends + 0.5)):
        cluster = make(trace(*rows), mode=mode)
        least_tokens(cluster)
        assert cluster.outcome["arrival_s"][1] == pytest.approx(expected), mode


def test_nothing_arrives_after_the_window_and_what_is_there_ends():
    cluster = make(sessions(), window_s=0.5, instances=2)
    least_tokens(cluster)
    outcome = cluster.outcome
    issued = outcome["state"] == DONE
    assert (outcome["state"][~issued] == UNISSUED).all() and 0 < issued.sum() < len(outcome)
    assert outcome["arrival_s"][issued].max() < 0.5 < outcome["finish_s"][issued].max()


def test_the_global_tier_serves_another_instance_over_the_links():
    link = {
        "nic_bytes_per_s": 1e6,
        "nic_latency_s": 0.002,
        "pcie_bytes_per_s": 1e7,
        "pcie_latency_s": 0.0,
    }  # 1 ms and 0.1 ms per token
    rows = ((0.0, 0, 0, 96, 1), (1.0, 0, 1, 110, 1, 0, 0, 97, 0.5))
    cluster = make(trace(*rows), instances=2, global_tier=1.0, **link)
    for choice in (0, 1):
        assert cluster.advance()
        if choice:
            assert cluster.request.global_hit_tokens == 96
            assert cluster.view.local_hit_tokens.tolist() == [96, 0]
        cluster.assign(choice)
    assert not cluster.advance()
    second = cluster.outcome[1]
    assert (second["local_hit_tokens"], second["global_hit_tokens"], second["read_tokens"]) == (0, 96, 96)
    load = 0.002 + 96 * 0.001 + 96 * 0.0001
    assert second["first_token_s"] - second["arrival_s"] == pytest.approx(load + 0.010 + 0.014)


def test_a_blocking_load_stalls_the_decode_beside_it_and_an_asynchronous_one_does_not():
    link = {"nic_bytes_per_s": 1e6, "nic_latency_s": 0.0, "pcie_bytes_per_s": math.inf, "pcie_latency_s": 0.0}
    rows = ((0.0, 0, 0, 96, 1), (0.5, 1, 0, 20, 60), (0.7, 0, 1, 110, 1, 0, 0, 97))
    ends = {}
    for loads in ("blocking", "async"):
        cluster = make(trace(*rows), instances=2, global_tier=1.0, mode="open", loads=loads, **link)
        for choice in (0, 1, 1):
            cluster.advance()
            cluster.assign(choice)
        assert not cluster.advance()
        ends[loads] = cluster.outcome["finish_s"][1]
    assert ends["blocking"] - ends["async"] == pytest.approx(0.096)


def test_decode_that_runs_out_of_blocks_preempts_the_last_admitted():
    # 8 blocks of 16: two prompts of 3 blocks grow until the second one has to go.
    cluster = make(trace((0.0, 0, 0, 48, 40), (0.0, 1, 0, 48, 40)), kv_blocks=8)
    least_tokens(cluster)
    assert cluster.outcome["preemptions"].tolist() == [0, 1]
    assert (cluster.outcome["state"] == DONE).all()


def test_a_disaggregated_cluster_hands_the_kv_over():
    link = {"nic_bytes_per_s": 1e6, "nic_latency_s": 0.002}
    cluster = make(trace((0.0, 0, 0, 64, 3)), decode_instances=2, **link)
    least_tokens(cluster)
    done = cluster.outcome[0]
    assert done["decode_instance"] == 1 and len(cluster.view) == 1
    assert done["first_token_s"] == done["handed_over_s"] == pytest.approx(0.074)
    assert done["finish_s"] == pytest.approx(0.074 + 0.002 + 64 * 0.001 + 2 * 0.011)


def test_an_instance_that_goes_away_loses_its_requests_and_its_cache():
    schedule = ((0.5, 0, False), (0.9, 0, True))
    cluster = make(
        trace((0.0, 0, 0, 64, 20), (0.48, 1, 0, 64, 5, None, 0, 64), (1.0, 2, 0, 64, 1, None, 0, 64)),
        mode="open",
        instances=2,
        schedule=schedule,
    )
    seen = []
    for choice in (0, 0, 1, 0):
        assert cluster.advance()
        seen.append(
            (round(cluster.now_s, 3), cluster.action_mask.tolist(), cluster.view.local_hit_tokens.tolist())
        )
        cluster.assign(choice)
    assert not cluster.advance()
    assert seen[1][2] == [48, 0]
    assert seen[2] == (0.5, [False, True], [0, 0])
    assert seen[3] == (1.0, [True, True], [0, 48])
    assert cluster.outcome["retries"].tolist() == [0, 1, 0]
    assert (cluster.outcome["state"] == DONE).all()


def test_when_all_are_away_requests_wait_for_the_first_to_return():
    cluster = make(trace((0.2, 0, 0, 16, 1)), schedule=((0.1, 0, False), (3.0, 0, True)))
    assert cluster.advance() and cluster.now_s == 3.0
    cluster.assign(0)
    assert not cluster.advance()
    assert cluster.outcome["arrival_s"][0] == 0.2


def test_a_lagging_view_shows_caches_and_engines_as_they_were():
    def seen(lag):
        cluster = make(
            trace((0.0, 0, 0, 64, 200), (0.05, 1, 0, 64, 1, None, 0, 64), (0.5, 2, 0, 64, 1, None, 0, 64)),
            mode="open",
            view_lag_s=lag,
        )
        rows = []
        while cluster.advance():
            row = cluster.view[0]
            rows.append([float(row[k]) for k in ("local_hit_tokens", "running", "in_flight")])
            cluster.assign(0)
        return rows

    assert seen(0.0) == [[0, 0, 0], [48, 1, 1], [48, 1, 1]]
    assert seen(0.2) == [[0, 0, 0], [0, 0, 1], [48, 1, 1]]
    assert seen(9.0) == [[0, 0, 0], [0, 0, 1], [0, 0, 1]]


def test_a_lag_shorter_than_any_step_hardly_changes_the_view():
    exact, late = (make(sessions(), instances=3, view_lag_s=lag, kv_blocks=60) for lag in (0.0, 1e-12))
    assert least_tokens(exact) == least_tokens(late)


@pytest.mark.parametrize("config", [{}, {"eviction": "belady"}, {"routers": 3, "view_lag_s": 0.05}])
def test_a_snapshot_can_be_run_twice(config):
    cluster = make(sessions(), instances=3, global_tier=1.5, kv_blocks=64, **config)
    for _ in range(50):
        cluster.advance()
        cluster.assign(0)
    cluster.advance()
    saved = cluster.snapshot()
    first = least_tokens_from_here(cluster)
    cluster.restore(saved)
    assert least_tokens_from_here(cluster) == first


def least_tokens_from_here(cluster):
    more, choices = True, []
    while more:
        choices.append(
            (cluster.now_s, int((cluster.view.unprefilled_tokens - cluster.view.local_hit_tokens).argmin()))
        )
        more = cluster.step(choices[-1][1])
    return choices, cluster.outcome.tobytes()


def test_a_fleet_steps_like_single_clusters():
    kinds = [
        {"instances": 3, "kv_blocks": 64},
        {"instances": 2, "decode_instances": 1},
        {"instances": 5, "global_tier": 2.0},
        {"instances": 3, "kv_blocks": 64, "eviction": "belady", "routers": 2, "view_lag_s": 0.05},
    ]
    singles = [make(sessions(seed=k), debug=False, **kind) for k, kind in enumerate(kinds)]
    for cluster in singles:
        least_tokens(cluster)
    members = [make(sessions(seed=k), debug=False, **kind) for k, kind in enumerate(kinds)]
    fleet = Fleet(members)
    waiting = fleet.step(np.full(len(kinds), -1))
    while waiting.any():
        choices = np.array([(c.view.unprefilled_tokens - c.view.local_hit_tokens).argmin() for c in members])
        waiting = fleet.step(choices)
    for single, member in zip(singles, members, strict=True):
        assert single.outcome.tobytes() == member.outcome.tobytes()


def test_a_warm_cluster_starts_with_the_histories_of_its_sessions():
    rows = ((0.0, 0, 3, 100, 1), (0.1, 1, 2, 80, 1))
    cold, warm = (make(trace(*rows), instances=2, warm=warm) for warm in (False, True))
    for cluster in (cold, warm):
        cluster.trace.requests["history"] = [90, 70]
    warm = make(cold.trace, instances=2, warm=True)
    assert cold.advance() and warm.advance()
    assert cold.view.local_hit_tokens.tolist() == [0, 0]
    assert warm.view.local_hit_tokens.tolist() == [80, 0]


@pytest.mark.parametrize(
    "message, change",
    [
        ("needs 100 tokens of KV cache, and instance 0 holds 64", {"kv_blocks": 4}),
        ("allowed: open, causal, closed", {"mode": "semi"}),
        ("the window ends at 0 s", {"window_s": 0}),
        ("allowed: 0 .none. or more", {"global_tier": -1}),
        ("chunk_tokens is 24", {"chunk_tokens": 24}),
        ("loads is 'later'", {"loads": "later"}),
        ("cluster.schedule has the row", {"schedule": ((1.0, 7, True),)}),
    ],
)
def test_an_impossible_cluster_is_refused_in_one_sentence(message, change):
    with pytest.raises(SmetricError, match=message):
        make(trace((0.0, 0, 0, 100, 1)), **change)


def test_a_wrong_choice_is_refused():
    cluster = make(trace((0.0, 0, 0, 100, 1)))
    with pytest.raises(SmetricError, match="no request waits"):
        cluster.assign(0)
    cluster.advance()
    with pytest.raises(SmetricError, match=r"instance 1 was chosen, allowed: an alive one of 0\.\.0"):
        cluster.assign(1)


def test_a_closed_loop_needs_recorded_gaps():
    with pytest.raises(SmetricError, match="arrival_mode=causal"):
        make(trace((0.0, 0, 0, 100, 1), has_gaps=False))


def test_months_are_refused_or_cut_off_by_the_window():
    rows = ((0.0, 0, 0, 10, 1), (1e7, 1, 0, 10, 1))
    with pytest.raises(SmetricError, match="allowed without an end of the window: 4000000 s"):
        make(trace(*rows))
    with pytest.raises(SmetricError, match="at most 4000000 s, or inf"):
        make(trace(*rows), window_s=1e7)
    cluster = make(trace(*rows), window_s=3e6)
    least_tokens(cluster)
    assert cluster.outcome["state"].tolist() == [DONE, UNISSUED]


def believed(seed, lag_ticks):
    """A random case with a lagging view; every view is compared with the residency of `lag` ago."""
    from smetric_gym.cluster.fuzz import random_case, random_choice

    case, config, times, mode, window_s, policy_seed = random_case(seed)
    import dataclasses

    config = dataclasses.replace(config, view_lag_s=lag_ticks / 1e12)
    cluster = Cluster(case, config, arrival_mode=mode, window_s=window_s, step_times=times)
    seen, more = [], cluster.advance()
    saved = None
    while more:
        seen.append(cluster.view.tobytes())
        if len(seen) == 10:
            saved = cluster.snapshot()
        r = cluster.pending
        more = cluster.step(random_choice(policy_seed, r, int(cluster.state.requests["retries"][r]),
                                          list(cluster.view.alive > 0), cluster.view.local_hit_tokens.tolist()))
    return cluster, seen, saved, policy_seed


@pytest.mark.parametrize("seed", [13, *range(12)])
def test_a_lagging_view_ends_up_with_the_truth(seed):
    """Once all news has been heard, beliefs are exactly the entries that hold blocks."""
    cluster, _, _, _ = believed(seed, 50)
    state = cluster.state
    state.cluster["now"] += 10**15
    from smetric_gym.cluster import engine

    for i in range(len(state.instances)):
        engine.hear(state, i)
    top = state.cluster["entry_top"][0]
    entries, beliefs = state.entries[:top], state.beliefs[:top]
    live, held = entries["node"] >= 0, beliefs["lo"] < beliefs["hi"]
    assert (live == held).all()
    for name in ("node", "instance", "lo", "hi"):
        assert (entries[name][live] == beliefs[name][live]).all()


@pytest.mark.parametrize("seed", range(6))
def test_a_snapshot_of_a_lagging_view_can_be_run_twice(seed):
    from smetric_gym.cluster.fuzz import random_choice

    cluster, seen, saved, policy_seed = believed(seed, 300)
    if saved is None:
        pytest.skip("fewer than ten decisions")
    cluster.restore(saved)
    again, more = [], True
    while more:
        again.append(cluster.view.tobytes())
        r = cluster.pending
        more = cluster.step(random_choice(policy_seed, r, int(cluster.state.requests["retries"][r]),
                                          list(cluster.view.alive > 0), cluster.view.local_hit_tokens.tolist()))
    assert again == seen[9:]


def test_long_runs_and_warm_starts_do_not_overflow_the_news():
    cluster = make(trace((0.0, 0, 0, 40, 10000)), kv_blocks=700, view_lag_s=1.0, debug=False)
    least_tokens(cluster)
    rows = [(0.001 * k, k, 1, 40, 1) for k in range(3000)]
    many = trace(*rows)
    many.requests["history"] = 32
    cluster = make(many, kv_blocks=20, view_lag_s=0.1, warm=True, debug=False)
    assert cluster.advance() and cluster.view.local_hit_tokens[0] == 32


def test_many_asynchronous_loads_at_once_fit_the_pools():
    rows = [(0.0, 0, 0, 20, 1)]
    for t in range(1, 60):
        rows.append((0.0, 0, t, 20 + 16 * t, 1, len(rows) - 1, len(rows) - 1, 16 * t + 5))
    deepest = len(rows) - 1
    rows += [(50.0, 1 + k, 0, 20 + 16 * 59 + k, 1, None, deepest, 900) for k in range(400)]
    cluster = make(trace(*rows), mode="open", instances=2, max_seqs=1, loads="async", global_tier=50.0,
                   kv_blocks=30000, debug=False, times=[step_time(rows=1)] * 2)
    more = cluster.advance()
    while more:
        more = cluster.step(0 if cluster.now_s < 40 else 1)
    assert (cluster.outcome["state"] == DONE).all()


def test_a_fleet_grows_its_pools_and_checks_choices():
    members = [make(sessions(seed=k), debug=False, instances=3) for k in range(2)]
    for member in members:
        member.state.cluster["hold_margin"] = len(member.state.holds) + 1
    fleet = Fleet(members)
    assert fleet.step(np.full(2, -1)).all()
    with pytest.raises(SmetricError, match="cluster 1: instance 3 was chosen"):
        fleet.step(np.array([0, 3]))


@pytest.mark.parametrize("key, value", [
    ("instances", float("nan")), ("instances", 2.5), ("instances", "abc"), ("kv_blocks", 1e10), ("warm", "foo"),
    ("nic_bytes_per_s", 1e-3), ("nic_bytes_per_s", "fast"), ("view_lag_s", 1e8), ("global_tier", "abc"),
    ("schedule", (1,)), ("schedule", ((1, 0, "down"),)),
    ("schedule", ((1, 0.5, True),)), ("schedule", ((1e8, 0, True),)),
])
def test_nonsense_values_name_their_key(key, value):
    with pytest.raises(SmetricError, match=f"{key} .*allowed"):
        ClusterConfig(**{key: value})
