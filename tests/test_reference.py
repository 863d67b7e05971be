"""The reference simulator: its invariants, vLLM's recorded answers, and small cases worked out by hand."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from reference import BlockPool, ReferenceCluster
from reference.events import STEP_END
from reference.random_cluster import random_case, serve_by_reference
from reference.request import Request
from reference.tier import GlobalTier

from smetric_gym.cluster.config import ClusterConfig
from smetric_gym.cluster.steptime import StepTime
from smetric_gym.workload.trace import REQUEST, Trace

ORACLES = sorted((Path(__file__).parent / "data" / "oracles").glob("vllm_prefix_cache_*.json.gz"))
CASES = 200


# Random cases, with every invariant asserted inside the simulator


@pytest.mark.parametrize("first", range(0, CASES, 50))
def test_random_cases_end_and_keep_every_invariant(first):
    for seed in range(first, first + 50):
        case = random_case(seed)
        trace, _config, _times, mode, window_s, _seed = case
        outcome = serve_by_reference(case).outcome
        for r, row in enumerate(outcome):
            if row["state"] == "unissued":
                assert np.isfinite(window_s)
                continue
            times = [row["arrival"], row["admitted"], row["handed_over"], row["first_token"], row["finish"]]
            times = [t for t in times if t is not None]
            assert row["state"] == "done" and times == sorted(times), f"case {seed}, request {r}: {row}"
            parent = trace.requests["parent"][r]
            if mode != "open" and parent >= 0:
                assert row["arrival"] >= outcome[parent]["finish"]


def test_random_cases_reach_the_corners():
    seen = {"preemptions": 0, "retries": 0, "read_tokens": 0, "local_hit": 0, "global_hit": 0}
    decoded = unissued = 0
    for seed in range(40):
        for row in serve_by_reference(random_case(seed)).outcome:
            for name in seen:
                seen[name] += row[name] > 0
            decoded += row["decode_instance"] >= 0
            unissued += row["state"] == "unissued"
    assert min(*seen.values(), decoded, unissued) > 50, (seen, decoded, unissued)


def test_equal_seeds_give_equal_runs():
    for seed in (3, 5, 8):
        one, two = (serve_by_reference(random_case(seed), trace_events=True) for _ in range(2))
        assert one.outcome == two.outcome and one.events == two.events and one.decisions == two.decisions


def test_a_step_computes_what_the_budget_and_max_seqs_allow():
    case = random_case(12)
    cluster = serve_by_reference(case, trace_events=True)
    config = case[1]
    assert cluster.steps
    for start, _instance, rows, end in cluster.steps:
        assert end > start and len(rows) <= config.max_seqs
        assert sum(n for _, n in rows) <= config.max_batched_tokens and all(n > 0 for _, n in rows)


# vLLM's own block pool


def spell(runs):
    return [token for first, count in runs for token in range(first, first + count)]


class OracleRequest:
    """What a recording does for a request: a look-up, prompt blocks at once, then token by token."""

    def __init__(self, pool, event, block):
        self.pool, self.block = pool, block
        text = spell(event["prompt"]) + spell(event["output"])
        self.prompt, self.last = len(spell(event["prompt"])), len(text) - 1
        self.keys = [tuple(text[: (b + 1) * block]) for b in range(len(text) // block)]
        hits = pool.hit(self.keys[: (self.prompt - 1) // block])
        self.hit = len(hits) * block
        pool.use(hits)
        self.blocks, self.filled = hits, len(hits)

    def grow(self, tokens):
        need = -(-tokens // self.block) - len(self.blocks)
        if need > self.pool.free:
            return False
        self.blocks += self.pool.take(need)
        for b in range(self.filled, tokens // self.block):
            self.pool.fill(self.blocks[b], self.keys[b])
        self.filled = max(self.filled, tokens // self.block)
        return True


@pytest.mark.parametrize("path", ORACLES, ids=lambda p: p.name.split(".")[0])
def test_the_block_pool_hits_what_vllm_hit(path):
    oracle = json.loads(gzip.decompress(path.read_bytes()))
    pool, live, wrong, compared = BlockPool(oracle["blocks"]), {}, [], 0
    for event in oracle["events"]:
        if event["op"] == "finish":
            pool.release(live.pop(event["id"]).blocks)
        else:
            request = live[event["id"]] = OracleRequest(pool, event, oracle["block_size"])
            assert request.grow(request.prompt)
            complete = all(request.grow(t) for t in range(request.prompt + 1, request.last + 1))
            compared += 1
            if (request.hit, complete) != (event["hit"], event["complete"]):
                wrong.append((event["id"], request.hit, event["hit"], complete))
        pool.check([r.blocks for r in live.values()])
    assert compared >= 200 and wrong == []


def test_there_are_recordings():
    assert len(ORACLES) == 3


# Content


def test_blocks_have_equal_keys_exactly_where_the_tokens_are_equal():
    for seed in range(30):
        trace, config, *_ = random_case(seed)
        texts, fresh = [], 0
        for q in trace.requests:
            shared = texts[q["base"]][: q["shared"]] if q["base"] >= 0 else []
            new = int(q["prompt"]) + int(q["output"]) - len(shared)
            texts.append(shared + list(range(fresh, fresh + new)))
            fresh += new
        by_key, by_text = {}, {}
        for r, text in enumerate(texts):
            keys = Request(trace, r, config).keys
            assert len(keys) == len(text) // config.block_tokens
            for b, key in enumerate(keys):
                head = tuple(text[: (b + 1) * config.block_tokens])
                assert by_key.setdefault(key, head) == head
                assert by_text.setdefault(head, key) == key


# The global tier


def test_the_tier_evicts_the_last_chunk_of_the_least_recent_node():
    tier = GlobalTier(5)
    trunk, a, b = (1, 0, 2), (2, 2, 4), (3, 2, 4)
    tier.write([trunk, a], 4)
    assert list(tier.chunks.items()) == [(2, 2), (1, 2)]
    tier.write([trunk, b], 3)
    assert list(tier.chunks.items()) == [(2, 2), (3, 1), (1, 2)]
    tier.write([trunk, b], 4)
    assert list(tier.chunks.items()) == [(2, 1), (3, 2), (1, 2)]
    assert (
        tier.found([trunk, a], 4) == 3 and tier.found([trunk, b], 4) == 4 and tier.found([trunk, b], 1) == 1
    )
    tier.check()


# Cases by hand: a step takes 100 ticks and 1 more per token; blocks of 4


def times(**changed):
    fields = dict(
        tokens_ticks=100 + np.arange(65),
        rows_ticks=np.zeros(9, dtype=np.int64),
        half_pair_ticks=0,
        context_ticks=0,
        mixed_context_ticks=0,
        connector_ticks=0,
        api_ticks=0,
        api_token_ticks=0,
        kv_capacity_tokens=400,
        kv_bytes_per_token=1,
        instances_per_server=8,
    )
    return StepTime(**fields | changed)


def serve(rows, *, step=None, count=1, mode="open", window_s=float("inf"), **config):
    """Rows: (arrival in ticks, prompt, output, parent, base, shared). The first alive instance takes all."""
    requests = np.zeros(len(rows), dtype=REQUEST)
    for r, row in enumerate(rows):
        arrival, prompt, output, parent, base, shared = (*row, *(-1, -1, 0)[len(row) - 3 :])
        q = requests[r]
        q["arrival"], q["prompt"], q["output"] = arrival * 1e-12, prompt, output
        q["parent"], q["base"], q["shared"] = parent, base, shared
    fields = dict(
        instances=count,
        global_tier=0,
        block_tokens=4,
        chunk_tokens=4,
        max_batched_tokens=64,
        max_seqs=8,
        nic_latency_s=0,
        nic_bytes_per_s=1e12,
        pcie_latency_s=0,
        pcie_bytes_per_s=float("inf"),
    )
    config = ClusterConfig(**fields | config)
    total = config.instances + config.decode_instances
    cluster = ReferenceCluster(
        Trace.build(requests),
        config,
        [step or times()] * total,
        arrival_mode=mode,
        window_s=window_s,
        trace_events=True,
    )
    cluster.run(lambda view, request: next(i for i, seen in enumerate(view) if seen["alive"]))
    return cluster


def test_one_request_by_hand():
    cluster = serve([(7, 10, 3)], step=times(api_ticks=20, api_token_ticks=2, context_ticks=3))
    # DELIVER at 7 + 20 + 10 * 2 = 47; 110 for the prompt; a decode takes 101 + 3 * its context (11, then 12).
    assert cluster.steps == [
        (47, 0, ((0, 10),), 157),
        (157, 0, ((0, 1),), 157 + 134),
        (291, 0, ((0, 1),), 291 + 137),
    ]
    row = cluster.outcome[0]
    assert (row["arrival"], row["admitted"], row["first_token"], row["finish"]) == (7, 47, 157, 428)


def test_two_requests_admitted_in_one_step_share_their_full_blocks():
    outcome = serve([(0, 12, 1), (0, 12, 1, -1, 0, 12)], step=times(api_ticks=5)).outcome
    # The second is delivered at the same tick, but after the step of the first was scheduled.
    assert [row["local_hit"] for row in outcome] == [0, 8]
    # Its last full block of the prompt is computed again: at most (12 - 1) // 4 = 2 blocks hit.
    assert [row["admitted"] for row in outcome] == [5, 5 + 112]
    assert outcome[1]["finish"] == 117 + 104


def test_the_last_of_the_running_list_is_preempted_and_hits_what_is_left_of_it():
    cluster = serve([(0, 5, 6), (0, 7, 4)], kv_blocks=4)
    # The second needs a third block for its 9th token and is the last itself: it waits until the first is
    # done. That took one of its two idle blocks meanwhile, the last: 4 tokens are left, 5 of 9 are computed.
    assert [row["preemptions"] for row in cluster.outcome] == [0, 1]
    assert [n for _, _, rows, _ in cluster.steps for r, n in rows if r == 1] == [7, 1, 5, 1]
    assert cluster.steps[-2][0] == cluster.outcome[0]["finish"]


def test_a_blocking_load_holds_up_the_step_and_an_asynchronous_one_does_not():
    rows = [(0, 16, 1), (500, 17, 1, -1, 0, 16), (500, 4, 1)]
    common = dict(kv_blocks=5, count=2, global_tier=float("inf"), min_load_tokens=4, nic_bytes_per_s=1e11)
    down = ((400e-12, 0, False),)  # the second request finds the chunks of the first in the tier only
    blocking = serve(rows, loads="blocking", schedule=down, **common)
    # 16 tokens at 10 ticks; DELIVER of request 1 schedules it alone, so request 2 is in the next step.
    assert blocking.outcome[1]["global_hit"] == 16 and blocking.outcome[1]["read_tokens"] == 16
    assert blocking.outcome[1]["first_token"] == 500 + 160 + 101
    assert blocking.outcome[2]["first_token"] == 761 + 104
    aside = serve(rows, loads="async", schedule=down, **common)
    # Request 2 is not held up: its step runs from 500 to 604, the load ends at 660.
    assert [row["first_token"] for row in aside.outcome[1:]] == [660 + 101, 604]


@pytest.mark.parametrize("bytes_per_s, preemptions", [(1e12, [1, 0]), (1e11, [1, 1])])
def test_one_that_keeps_loaded_blocks_yields_where_nobody_could_go_on(bytes_per_s, preemptions):
    # Request 1 loads 3 of 4 blocks, until 512 or 620. Request 2 needs a second block at 604: it gets one of
    # these at once, or is preempted by itself, and gets one when the load has ended and nobody runs.
    rows = [(0, 12, 1), (500, 13, 1, -1, 0, 12), (500, 4, 6)]
    cluster = serve(
        rows,
        loads="async",
        kv_blocks=4,
        count=2,
        global_tier=float("inf"),
        min_load_tokens=4,
        nic_bytes_per_s=bytes_per_s,
        max_seqs=1,
        schedule=((400e-12, 0, False),),
    )
    assert [row["preemptions"] for row in cluster.outcome[1:]] == preemptions
    assert cluster.outcome[2]["finish"] == (604 if preemptions[1] == 0 else 620) + 5 * 101
    assert cluster.outcome[1]["admitted"] == 500


def test_a_failure_sends_requests_back_with_their_first_arrival():
    cluster = serve([(10, 8, 2)], count=2, schedule=((50e-12, 0, False),))
    row = cluster.outcome[0]
    assert (row["arrival"], row["admitted"], row["instance"], row["retries"]) == (10, 50, 1, 1)
    assert row["finish"] == 50 + 108 + 101
    assert [e for e in cluster.events if e[1] == STEP_END] == [(158, STEP_END, 1), (259, STEP_END, 1)]


def test_requests_wait_at_the_router_while_nobody_is_alive():
    cluster = serve([(10, 8, 1)], schedule=((5e-12, 0, False), (5e-12, 0, False), (70e-12, 0, True)))
    row = cluster.outcome[0]
    assert (row["arrival"], row["admitted"], row["finish"], row["retries"]) == (10, 70, 178, 0)
    assert len(cluster.decisions) == 1


def test_a_prefill_is_handed_over_and_its_blocks_stay_until_the_transfer_ends():
    cluster = serve([(0, 8, 3), (150, 1, 1)], decode_instances=1, nic_bytes_per_s=1e11)
    row = cluster.outcome[0]
    # Prefill until 108, 8 tokens at 10 ticks until 188, two decodes of 101.
    assert (row["first_token"], row["handed_over"], row["finish"]) == (108, 108, 188 + 202)
    assert (row["instance"], row["decode_instance"]) == (0, 1)
    view, _request, _choice = cluster.decisions[1]
    assert view[0]["in_flight"] == 0 and view[0]["blocks_used"] == 2


@pytest.mark.parametrize("mode, arrivals", [("open", [0, 30]), ("causal", [0, 210])])
def test_arrival_modes(mode, arrivals):
    outcome = serve([(0, 9, 2), (30, 15, 1, 0, 0, 11)], mode=mode).outcome
    assert [row["arrival"] for row in outcome] == arrivals


def test_nothing_arrives_from_the_end_of_the_window_on():
    outcome = serve([(0, 9, 2), (30, 15, 1, 0, 0, 11), (210, 1, 1)], mode="causal", window_s=210e-12).outcome
    assert [row["state"] for row in outcome] == ["done", "unissued", "unissued"]
