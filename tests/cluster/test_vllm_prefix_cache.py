"""Every recorded request of vLLM's own block pool gets the same hit length from the compiled KV pool."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from smetric_gym.cluster import Cluster, ClusterConfig, engine
from smetric_gym.cluster.cluster import check_invariants
from smetric_gym.cluster.steptime import StepTime
from smetric_gym.workload.trace import REQUEST, Trace

ORACLES = Path(__file__).parents[1] / "data" / "oracles"


def spell(runs):
    return [token for first, count in runs for token in range(first, first + count)]


def trace_of(starts):
    """The recorded token sequences as a trace: each shares its longest common prefix with an earlier one."""
    requests = np.zeros(len(starts), dtype=REQUEST)
    texts = [spell(e["prompt"]) + spell(e["output"]) for e in starts]
    for r, event in enumerate(starts):
        prompt = len(spell(event["prompt"]))
        requests[r]["prompt"], requests[r]["output"] = prompt, len(texts[r]) - prompt
        requests[r]["base"] = requests[r]["parent"] = -1
        requests[r]["arrival"] = r
        for p in range(r):
            shared = 0
            for a, b in zip(texts[r][:prompt], texts[p], strict=False):
                if a != b:
                    break
                shared += 1
            if shared > requests[r]["shared"]:
                requests[r]["shared"], requests[r]["base"] = shared, p
    return Trace.build(requests)


def step_time(block, blocks):
    one = np.ones(1, dtype=np.int64)
    return StepTime(np.repeat(one, 9), np.repeat(one, 9), 1, 1, 1, 0, 0, 0, block * blocks, 1, 8)


def grow(state, q, tokens):
    """Take what `tokens` tokens need; False where no block is left."""
    block, inst = state.cluster[0]["block"], state.instances[0]
    need = -(-tokens // block) - q["blocks"]
    if need > inst["empty"] + inst["idle"]:
        return False
    engine.take(state, inst, np.int64(need))
    q["private"] += need
    q["blocks"] += need
    engine.fill(state, np.int64(0), q, np.int64(q["computed"] // block), np.int64(tokens // block))
    q["computed"] = tokens
    return True


@pytest.mark.parametrize("name", ["serial", "serial_tight", "overlapping"])
def test_every_request_gets_vllms_own_hit_length(name):
    oracle = json.loads(gzip.decompress((ORACLES / f"vllm_prefix_cache_{name}.json.gz").read_bytes()))
    starts = [e for e in oracle["events"] if e["op"] == "start"]
    index = {e["id"]: k for k, e in enumerate(starts)}
    config = ClusterConfig(
        instances=1,
        global_tier=0,
        block_tokens=oracle["block_size"],
        chunk_tokens=oracle["block_size"],
        kv_blocks=oracle["blocks"],
        max_batched_tokens=8,
        max_seqs=8,
    )
    cluster = Cluster(
        trace_of(starts), config, step_times=[step_time(oracle["block_size"], oracle["blocks"])]
    )
    state, mismatches = cluster.state, []
    for event in oracle["events"]:
        r = index[event["id"]]
        q = state.requests[r]
        inst = state.instances[0]
        if event["op"] == "finish":
            engine.give_up_all(state, inst, q)
            continue
        q["instance"] = 0
        held, count = engine.look_up(
            state, np.int64(0), engine.walk(state, q), np.int64((q["prompt"] - 1) // oracle["block_size"])
        )
        if held * oracle["block_size"] != event["hit"]:
            mismatches.append((event["id"], int(held) * oracle["block_size"], event["hit"]))
        for e in state.found[:count].astype(np.int64):
            if state.entries[e]["hi"] > held:
                engine.cut(state, np.int64(0), e, np.int64(held))
            if state.entries[e]["uses"] == 0:
                engine.lru_remove(state.entries, inst, e)
            state.entries[e]["uses"] += 1
            engine.use_entry(state, q, e)
        q["blocks"], q["computed"] = held, held * oracle["block_size"]
        assert grow(state, q, int(q["prompt"]))
        complete = all(grow(state, q, int(q["prompt"]) + k) for k in range(1, q["output"]))
        assert complete == event["complete"]
        check_invariants(state)
    assert mismatches == []
    assert len(starts) > 200
