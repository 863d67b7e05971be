"""The audit on a trace small enough to work out by hand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.workload.audit import QUANTITIES, audit
from smetric_gym.workload.audit_kernel import least_in_flight
from smetric_gym.workload.audit_numbers import recorded_durations
from smetric_gym.workload.trace import REQUEST, Trace, Trigger


def five_requests(**changes):
    """A session of three turns (0, 1, 4), another of the same framework (2), a fork of turn 1 (3)."""
    columns = {
        "arrival": [0, 10, 20, 200, 230],
        "gap": [0, 4, 0, 1, 3],
        "session": [0, 0, 1, 2, 0],
        "turn": [0, 1, 0, 0, 2],
        "messages": [0, 2, 0, 4, 4],
        "prompt": [100, 130, 60, 150, 160],
        "output": [10, 10, 5, 8, 9],
        "history": [0, 110, 0, 140, 140],
        "system": [40, 40, 40, 40, 40],
        "parent": [-1, 0, -1, 1, 1],
        "base": [-1, 0, 0, 1, 1],
        "shared": [0, 110, 40, 140, 140],
        "trigger": [Trigger.HUMAN, Trigger.TOOL, Trigger.HUMAN, Trigger.SPAWN, Trigger.TOOL],
    }
    requests = np.zeros(5, dtype=REQUEST)
    for name, values in (columns | changes).items():
        requests[name] = values
    return requests


@pytest.fixture
def trace():
    return Trace.build(five_requests(), name="five")


def test_both_splits_of_the_reuse(trace):
    a = audit(trace, block=1)
    assert a["ideal_reuse"] == pytest.approx(430 / 600)
    # Region split: r1 40 system + 70 same; r2 40 system; r3 40 system + 100 other; r4 40 system + 100 same.
    assert [a[k] for k in ("system_share", "same_session_share", "other_sessions_share")] == pytest.approx(
        [160 / 430, 170 / 430, 100 / 430]
    )
    # Session first: r1 110 and r4 140 are the session's own.
    keys = ("system_after_session_share", "same_session_first_share", "other_after_session_share")
    assert [a[k] for k in keys] == pytest.approx([80 / 430, 250 / 430, 100 / 430])


def test_reuse_counts_full_blocks(trace):
    assert audit(trace, block=16)["ideal_reuse"] == pytest.approx((96 + 32 + 128 + 128) / 600)


def test_intervals_are_since_the_last_use_by_anyone(trace):
    a = audit(trace, block=1)
    # 10 s: 110 (r1) + 40 (r2, after r1); 30 s: 140 (r4, after the fork); 180 s: 40 (r3's system); 190 s: 100.
    assert a["reuse_within_100s"] == pytest.approx(290 / 430)
    assert a["reuse_interval_p50_s"] == pytest.approx(30, rel=0.012)
    assert a["reuse_interval_p90_s"] == pytest.approx(190, rel=0.012)
    assert a.interval_tokens.sum() == 430


def test_warm_up_fills_the_store_but_is_not_scored(trace):
    a = audit(trace, block=1, warm_up_s=15)
    assert a["requests"] == 3
    assert a["ideal_reuse"] == pytest.approx((40 + 140 + 140) / (60 + 150 + 160))
    assert a.minutes["requests"].tolist() == [3, 0, 0, 2]


def test_minutes_add_up_to_the_whole(trace):
    a = audit(trace, block=1)
    assert a.minutes["prompt"].sum() == 600
    assert [a.minutes[n].sum() for n in ("system", "same", "other")] == [160, 170, 100]


def test_shape_of_the_traffic(trace):
    a = audit(trace, block=1, instances=2)
    assert a["tool_triggered"] == pytest.approx(3 / 5)
    assert a["first_turns"] == pytest.approx(3 / 5)
    assert a["without_history"] == pytest.approx(2 / 5)
    assert a["history_kept"] == 1.0
    assert a["new_tokens_first"] == pytest.approx((100 + 20) / 170)
    assert a["turns_mean"] == pytest.approx(5 / 3)
    assert a["requests_per_minute_per_instance"] == pytest.approx(5 / (230 / 60) / 2)
    assert a.turns.tolist() == [3, 1, 1]


def test_skew_of_equal_and_unequal_sessions():
    requests = five_requests(
        session=[0, 1, 2, 3, 3], base=-1, shared=0, prompt=[10, 10, 10, 400, 551], output=1
    )
    requests["system"], requests["history"] = 0, 0
    a = audit(Trace.build(requests), block=1)
    assert a["top_25pct_sessions"] == pytest.approx(953 / (953 + 33))


def test_dropped_history_is_seen():
    requests = five_requests(shared=[0, 40, 40, 40, 40], messages=0)
    a = audit(Trace.build(requests), block=1)
    assert a["history_kept"] == 0.0
    assert a["without_history"] == 1.0
    assert any("no," in s for s in a.words())


def test_durations_are_the_recorded_ones(trace):
    durations = recorded_durations(trace, trace.ideal_hit_tokens(1))
    assert durations[0] == pytest.approx(6)  # r1 came at 10, 4 s after r0 completed
    assert (durations > 0).all()


def test_least_in_flight_by_hand():
    arrival = np.array([0.0, 1.0, 2.0, 70.0])
    tokens = np.array([60, 30, 30, 120])
    load, sent = least_in_flight(arrival, tokens, np.array([30.0, 60.0, 30.0, 30.0]), 2, 60.0, 2)
    # r0 on 0; r1 and then r2 (30 < 60) on 1; r3 goes on round robin from 0. r1 ends at 61 s.
    assert load[0].tolist() == pytest.approx([60 * 30 / 60, 30 * 59 / 60 + 30 * 30 / 60])
    assert sent.tolist() == [[60, 60], [120, 0]]
    assert load[1].tolist() == pytest.approx([120 * 30 / 60, 30 * 1 / 60])


def test_lengths_only_say_so():
    requests = five_requests(base=-1, shared=0, trigger=Trigger.UNKNOWN)
    a = audit(Trace.build(requests, has_content=False, has_gaps=False), instances=2)
    assert "ideal_reuse" not in a.values and "tool_triggered" not in a.values
    assert "lengths only" in a.words()[0]
    assert all(label for label, _, _ in a.rows())


def test_numbers_are_ready_for_json(trace):
    a = audit(trace, instances=2)
    back = json.loads(json.dumps(a.as_dict()))
    assert back["numbers"]["ideal_reuse"]["unit"] == "fraction"
    assert set(back["numbers"]) == set(a.values) <= set(QUANTITIES)
    assert [r[1] for r in a.rows()] == [n["value"] for n in back["numbers"].values()]


@pytest.mark.parametrize("bad", [{"warm_up_s": 1e6}, {"block": 0}, {"instances": 0}])
def test_bad_input_is_said_in_one_sentence(trace, bad):
    with pytest.raises(SmetricError, match="audit: .*allowed"):
        audit(trace, **bad)


def test_figure_is_drawn_and_matplotlib_is_lazy(trace, tmp_path):
    from smetric_gym.workload.audit_figure import draw

    for name, t in (
        ("full", trace),
        ("lengths", Trace.build(five_requests(base=-1, shared=0), has_content=False)),
    ):
        path = draw(audit(t, instances=2), tmp_path / f"{name}.png")
        assert path.stat().st_size > 10_000
    code = "import sys, smetric_gym.workload.audit_figure; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_long_traces_have_wider_bins():
    from smetric_gym.workload.audit_figure import MOST_BINS, _binned
    from smetric_gym.workload.audit_numbers import MINUTE

    minutes = np.zeros(2 * MOST_BINS + 1, dtype=MINUTE)
    minutes["start_s"], minutes["prompt"] = 60 * np.arange(len(minutes)), 1
    bins, width = _binned(minutes)
    assert width == 3 and bins["start_s"][1] == 180 and bins["prompt"].sum() == len(minutes)
    same, width = _binned(minutes[:MOST_BINS])
    assert width == 1 and (same == minutes[:MOST_BINS]).all()


@pytest.mark.skipif("SMETRIC_GYM_TRACES" not in os.environ, reason="SMETRIC_GYM_TRACES is not set")
def test_mooncake_as_measured_by_another_program():
    """Its figures counted prompts only; counting the KV of outputs too adds about one point of reuse."""
    from smetric_gym.workload.readers import read_trace

    path = Path(os.environ["SMETRIC_GYM_TRACES"]) / "mooncake_conversation.jsonl.gz"
    a = audit(read_trace(path), block=512)
    measured = {
        "ideal_reuse": (0.374, 0.012),
        "system_share": (0.114, 0.006),
        "same_session_share": (0.823, 0.006),
        "other_sessions_share": (0.063, 0.006),
        "same_session_first_share": (0.861, 0.006),
        "reuse_within_100s": (0.462, 0.008),
        "top_25pct_sessions": (0.715, 0.003),
        "first_turns": (0.670, 0.003),
    }
    for key, (value, tolerance) in measured.items():
        assert a[key] == pytest.approx(value, abs=tolerance), key
