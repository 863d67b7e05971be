"""The synthetic workload against the published statistics (rows W1 to W9), and its promises of structure."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.workload.audit import audit
from smetric_gym.workload.presets import PRESETS
from smetric_gym.workload.synthetic import generate, session_rate
from smetric_gym.workload.trace import Trace, Trigger

WARM_UP_S = 600
# Rows of the paper's targets: quantity -> (trace 1, trace 2, tolerance).
ROWS = {
    "ideal_reuse": (0.82, 0.81, 0.02),  # W1, W2
    "same_session_share": (0.67, 0.67, 0.04),  # W3
    "system_share": (0.18, 0.20, 0.03),  # W4, W5
    "reuse_within_100s": (0.90, 0.90, 0.03),  # W6
    "tool_triggered": (0.929, 0.942, 0.02),  # W7, W8
}


def trace_of(preset, instances=8, load=1.0, duration_s=2400, seed=0, **changes):
    config = replace(PRESETS[preset], **changes)
    return generate(config, instances=instances, load=load, duration_s=duration_s, seed=seed)


@pytest.fixture(scope="module")
def small():
    return trace_of("trace1")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("instances", [8, 32, 128])
@pytest.mark.parametrize("which", [0, 1])
def test_rows_w1_to_w9(which, instances, seed):
    a = audit(trace_of(f"trace{which + 1}", instances, seed=seed), warm_up_s=WARM_UP_S)
    missed = {key: (a[key], row[which]) for key, row in ROWS.items() if abs(a[key] - row[which]) > row[2]}
    assert not missed
    assert a["top_25pct_sessions"] >= 0.80  # W9


@pytest.mark.parametrize("preset", ["trace1", "trace2"])
def test_lengths_and_gaps_are_those_of_coding_traffic(preset):
    t = trace_of(preset, 64)
    r = t.requests
    assert r["prompt"].mean() == pytest.approx(34_000, rel=0.1)
    assert np.median(r["prompt"]) == pytest.approx(20_000, rel=0.3)
    assert np.quantile(r["prompt"], 0.9) == pytest.approx(88_000, rel=0.12)
    assert r["output"].mean() == pytest.approx(445, rel=0.07)
    assert 80 <= np.median(r["output"]) <= 216
    assert (r["prompt"].astype(np.int64) + r["output"]).max() <= 131_072
    tool = r["gap"][(r["trigger"] == Trigger.TOOL) & (r["parent"] >= 0)]
    # A window misses the longest gaps, so the tail falls a little short of what is drawn.
    for level, gap_s, short in ((0.5, 1.6, 0.1), (0.75, 8.6, 0.2), (0.9, 44.0, 0.3)):
        assert gap_s * (1 - short) < np.quantile(tool, level) < gap_s * 1.1
    human = r["gap"][(r["trigger"] == Trigger.HUMAN) & (r["parent"] >= 0)]
    assert np.median(human) > 10 * np.median(tool)


def test_chat_is_mostly_people_and_single_turns():
    a = audit(trace_of("chat", 32), warm_up_s=WARM_UP_S)
    assert 0.54 <= a["ideal_reuse"] <= 0.62
    assert a["tool_triggered"] < 0.2
    assert a["single_turn_sessions"] > 0.5


def test_rate_follows_instances_and_load():
    for instances, load in ((32, 1.0), (32, 2.0), (96, 0.5)):
        got = len(trace_of("trace1", instances, load)) / 40
        assert got == pytest.approx(10 * instances * load, rel=0.1)


def test_traffic_is_steady_from_the_first_moment():
    counts = sum(
        np.histogram(trace_of("trace1", 64, seed=s).requests["arrival"], np.arange(0, 2401, 300))[0]
        for s in range(4)
    )
    assert np.abs(counts / counts.mean() - 1).max() < 0.1
    first = trace_of("trace1", 64).requests
    at_start = first[first["arrival"] < 60]
    assert np.median(at_start["prompt"]) == pytest.approx(np.median(first["prompt"]), rel=0.25)


def test_sessions_under_way_carry_their_history(small):
    r = small.requests
    _, first = np.unique(r["session"], return_index=True)
    under_way = r[first][r["turn"][first] > 0]
    assert len(under_way) == small.report["sessions under way at the start"] > 10
    assert (under_way["parent"] == -1).mean() > 0.8  # the others wait for a sub-agent that goes on, too
    assert (under_way["gap"][under_way["parent"] == -1] == 0).all()
    assert (under_way["messages"] > 0).mean() > 0.9
    assert (under_way["history"] > 0).all()


def test_requests_make_sense(small):
    r = small.requests
    rebuilt = Trace.build(r.copy())
    assert np.array_equal(rebuilt.nodes, small.nodes)
    assert (np.diff(np.unique(r["session"])) == 1).all() and r["session"].min() == 0
    follow = r["parent"] >= 0
    assert (r["arrival"][follow] >= r["arrival"][r["parent"][follow]] + r["gap"][follow]).all()
    # No turn of a session is missing once it has appeared.
    for s in range(0, small.sessions, 17):
        turns = r["turn"][r["session"] == s]
        assert (np.diff(turns) == 1).all()
    assert (r["messages"][r["turn"] == 0] == 0)[r["trigger"][r["turn"] == 0] == Trigger.HUMAN].all()
    assert (r["system"] <= r["prompt"]).all() and (r["system"] > 0).all()


def test_forks_inherit_and_wait(small):
    r = small.requests
    spawn = np.flatnonzero((r["trigger"] == Trigger.SPAWN) & (r["parent"] >= 0))
    caller = r[r["parent"][spawn]]
    assert (r["turn"][spawn] == 0).all() and (r["session"][spawn] != caller["session"]).all()
    heirs = r["messages"][spawn] > 0
    assert 0.4 < heirs.mean() < 0.95
    inherited = caller["prompt"].astype(int) + caller["output"]
    assert (r["shared"][spawn][heirs] == inherited[heirs]).all()
    # The caller's next request waits for a sub-agent: its parent is in another session.
    waits = (r["parent"] >= 0) & (r["turn"] > 0)
    assert (r["session"][waits] != r["session"][r["parent"][waits]]).mean() > 0.05


def test_histories_are_appended_edited_compacted_and_dropped():
    t = trace_of("trace1", 32)
    r = t.requests
    order = np.lexsort((r["turn"], r["session"]))
    follows = r["session"][order[1:]] == r["session"][order[:-1]]
    before, after = r[order[:-1][follows]], r[order[1:][follows]]
    length = before["prompt"].astype(int) + before["output"]
    appended = after["shared"] == length
    only_system = after["shared"] == after["system"]
    edited = ~appended & (after["shared"] > after["system"]) & (after["shared"] < length)
    dropped = after["messages"] == 0
    compacted = only_system & (after["messages"] == 2) & (before["messages"] > 2)
    answer_rewritten = after["shared"] == before["prompt"]
    assert appended.mean() > 0.4 and (appended | answer_rewritten).mean() > 0.75
    edited &= ~answer_rewritten
    for share in (edited.mean(), dropped.mean(), compacted.mean()):
        assert 0.001 < share < 0.15
    assert (after["prompt"] < before["prompt"])[compacted].mean() > 0.5


def test_same_seed_same_trace_in_another_process(small):
    code = (
        "import hashlib; from smetric_gym.workload.presets import PRESETS;"
        "from smetric_gym.workload.synthetic import generate;"
        "t = generate(PRESETS['trace1'], instances=8, load=1.0, duration_s=2400, seed=0);"
        "print(hashlib.sha256(t.requests.tobytes() + t.nodes.tobytes()).hexdigest())"
    )
    import hashlib

    here = hashlib.sha256(small.requests.tobytes() + small.nodes.tobytes()).hexdigest()
    there = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert there == here
    assert len(trace_of("trace1", seed=1)) != len(small)


def test_common_random_numbers_across_loads_and_sizes():
    """The first session that starts inside the window is the same session, told faster or slower."""

    def young(trace):
        r = trace.requests
        starts = np.flatnonzero((r["turn"] == 0) & (r["trigger"] == Trigger.HUMAN))
        return [(r["prompt"][i], r["output"][i]) for i in starts[:40]], r["arrival"][starts[:40]]

    content, times = young(trace_of("trace1", 8, 1.0))
    for instances, load in ((8, 2.0), (32, 1.0)):
        same, sooner = young(trace_of("trace1", instances, load))
        assert same == content
        assert sooner * load * instances / 8 == pytest.approx(times)


def test_bursts_change_when_sessions_start_and_nothing_else():
    calm, bursty = (session_times(trace_of("trace1", 64, burstiness=b)) for b in (1.0, 4.0))
    assert calm.std() / calm.mean() == pytest.approx(1.0, abs=0.15)
    assert bursty.std() / bursty.mean() > 2.0


def session_times(trace):
    r = trace.requests
    return np.diff(r["arrival"][(r["turn"] == 0) & (r["trigger"] == Trigger.HUMAN)])


def test_an_hour_of_a_large_cluster_is_drawn_quickly():
    import time

    trace_of("trace1", 8, duration_s=600)
    began = time.perf_counter()
    t = trace_of("trace1", 256)
    assert len(t) > 80_000
    assert time.perf_counter() - began < 10


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"single_share": 1.5}, "workload.single_share is 1.5"),
        ({"turns_median": -1}, "workload.turns_median is -1"),
        ({"system_tokens": ()}, "workload.system_tokens"),
        ({"tool_gap_levels": (0.5, 0.25)}, "workload.tool_gap_levels"),
        ({"context_tokens": 8000}, "workload.context_tokens"),
    ],
)
def test_bad_values_are_named(bad, says):
    with pytest.raises(SmetricError, match=f"{says}.*allowed"):
        replace(PRESETS["trace1"], **bad)


@pytest.mark.parametrize("bad", [{"instances": 0}, {"load": 0.0}, {"duration_s": float("nan")}, {"seed": -1}])
def test_bad_arguments_are_named(bad):
    with pytest.raises(SmetricError, match=f"workload.{next(iter(bad))}"):
        generate(PRESETS["trace1"], **({"instances": 8, "load": 1.0, "duration_s": 600, "seed": 0} | bad))


def test_requests_per_session_do_not_depend_on_load():
    config = PRESETS["trace1"]
    assert session_rate(config, instances=32, load=2.0) == pytest.approx(
        8 * session_rate(config, instances=8, load=1.0)
    )
