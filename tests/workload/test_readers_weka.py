import json

import numpy as np
import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.workload.readers import read_trace
from smetric_gym.workload.trace import Trigger

TOOLS, SYSTEM = 640, 128  # 10 + 2 blocks


def request(t, prompt, ids=None, out=10, kind="n", new=("tool_result",), **more):
    ids = list(range(1, prompt // 64 + 1)) if ids is None else ids
    more = {"api_time": 2.0, **more}
    row = {"t": t, "type": kind, "in": prompt, "out": out, "hash_ids": ids, "input_types": list(new), **more}
    return {key: value for key, value in row.items() if value is not None}


def agent(t, requests, **more):
    sizes = {"tool_tokens": 320, "system_tokens": 64}
    return {"t": t, "type": "subagent", "agent_id": "x", **sizes, "requests": requests, **more}


def session(requests, **more):
    head = {
        "id": "x",
        "block_size": 64,
        "hash_id_scope": "local",
        "tool_tokens": TOOLS,
        "system_tokens": SYSTEM,
    }
    return {**head, **more, "requests": requests}


@pytest.fixture
def read(tmp_path):
    def write_and_read(*sessions, **options):
        for i, one in enumerate(sessions):
            text = one if isinstance(one, str) else json.dumps(one)
            (tmp_path / f"trace_{i:04d}.json").write_text(text)
        return read_trace(tmp_path, **options)

    return write_and_read


FIRST = request(0, 1000, new=("text",), think_time=0.0)


def test_a_session_is_a_closed_loop_with_think_times(read):
    trace = read(
        session([FIRST, request(9, 1100, think_time=7.0), request(20, 1300, new=("text",), think_time=9.0)])
    )
    r = trace.requests
    assert trace.sessions == 1 and trace.has_gaps and trace.has_content
    assert r["arrival"].tolist() == pytest.approx([0, 9, 20]) and r["gap"].tolist() == [0, 7, 9]
    assert r["trigger"].tolist() == [Trigger.HUMAN, Trigger.TOOL, Trigger.HUMAN]
    assert r["turn"].tolist() == [0, 1, 2] and r["messages"].tolist() == [0, 2, 4]
    assert r["shared"].tolist() == [0, 1010, 1110] == r["history"].tolist()
    assert (r["system"] == 768).all()
    assert read(session([FIRST, request(9, 1100)]), assume_append=False).requests["shared"][1] == 15 * 64


def test_gaps_without_think_time_are_what_the_times_leave(read):
    silent = request(9, 1100, api_time=None)
    r = read(session([FIRST, silent, request(20, 1300, think_time=99.0), request(30, 1400)])).requests
    # Behind a response of unknown time think_time is not the gap: 20 - 9 - (2 s + 17.5 ms x 10 tokens).
    assert r["gap"] == pytest.approx([0, 7, 8.825, 8])


def test_sub_agents_end_at_their_marker_and_the_parent_waits_for_them(read):
    inner = [request(0, 500, list(range(100, 107)), new=("text",)), request(6, 600, list(range(100, 109)))]
    # Sent at 12 - 9 = 3 s, 1 s after the response at 2 s; the last inner response ends at 3 + 6 + 2 = 11.
    for marker in ({"duration_ms": 9000}, {"t": 3}):
        trace = read(session([FIRST, agent(12, inner) | marker, request(15, 1100, think_time=13.0)]))
        r = trace.requests
        assert r["arrival"].tolist() == pytest.approx([0, 3, 9, 15]) and trace.sessions == 1
        assert r["parent"].tolist() == [-1, 0, 1, 2] and r["gap"] == pytest.approx([0, 1, 4, 4])
        assert r["trigger"].tolist() == [Trigger.HUMAN, Trigger.SPAWN, Trigger.TOOL, Trigger.TOOL]
        assert r["messages"].tolist() == [0, 0, 2, 2] and r["system"].tolist() == [768, 384, 384, 768]
        assert r["history"].tolist() == [0, 0, 510, 1010] and r["shared"].tolist() == [0, 0, 510, 1010]
        assert trace.report["sub-agents"] == 1


def test_absolute_inner_times_are_taken_as_they_are(read):
    inner = [request(5, 500, list(range(100, 107))), request(8, 600, list(range(100, 109)))]
    r = read(session([FIRST, agent(5, inner), request(15, 1100)])).requests
    assert r["arrival"].tolist() == pytest.approx([0, 5, 8, 15])


def test_the_parent_waits_for_the_last_of_several_and_not_for_the_background(read):
    def alone(t, first):
        return request(t, 500, list(range(first, first + 7)))

    entries = [FIRST, agent(3, [alone(0, 100)]), agent(4, [alone(0, 200)]), agent(3, [alone(0, 300)])]
    trace = read(session([*entries, agent(4, [alone(0, 400), alone(60, 500)]), request(20, 1100)]))
    r = trace.requests
    last = np.flatnonzero(r["prompt"] == 1100)[0]
    assert r["arrival"][r["parent"][last]] == pytest.approx(4) and r["gap"][last] == pytest.approx(14)
    assert trace.report["sub-agents in the background, not waited for"] == 1


def test_sessions_share_tools_and_system_by_their_sizes(read):
    own = [1000 + i for i in range(15)]
    same = session([request(0, 1000, own)])
    other_system = session([request(0, 1000, own)], system_tokens=192)
    other_tools = session([request(0, 1000, own)], tool_tokens=704)
    r = read(session([FIRST]), same, other_system, other_tools, session([request(0, 400, own[:6])])).requests
    # In order of arrival each prompt shares with an earlier one what the sizes say: 12, 10 or no blocks.
    sizes = {(768, 1000): 0, (832, 1000): 0, (400, 400): 0}
    assert len(r) == 5 and {(int(s), int(p)) for s, p in r[["system", "prompt"]].tolist()} == set(sizes)
    best = sorted(r["shared"].tolist())
    assert best[:2] == [0, 0] and best[2] == 384 and set(best[3:]) <= {640, 768} and 640 in best


def test_inside_a_session_the_recorded_ids_have_the_last_word(read):
    changed = [1, 2, 3, *range(50, 62)]  # the tools' fourth block differs
    r = read(session([FIRST, request(9, 1000, changed)]), assume_append=False).requests
    assert r["shared"].tolist() == [0, 3 * 64]
    alike = read(session([FIRST, request(9, 1000)]), session([request(0, 1000, changed)])).requests
    assert sorted(alike["shared"].tolist())[-1] == 960


def test_triggers_that_cannot_be_known(read):
    silent = request(9, 1100, api_time=None, kind="s", new=("text",))
    mixed = request(40, 1500, new=("text", "thinking", "tool_result", "tool_use"))
    r = read(session([FIRST, silent, request(20, 1300, new=("text",)), request(30, 1400), mixed])).requests
    assert [Trigger(x).name for x in r["trigger"]] == ["HUMAN", "HUMAN", "UNKNOWN", "TOOL", "UNKNOWN"]


def test_a_resumed_conversation_shows_its_history(read):
    r = read(session([request(0, 64_000), request(9, 65_000)])).requests
    assert r["messages"].tolist() == [1, 3] and r["turn"].tolist() == [0, 1]
    assert r["history"].tolist() == [64_000 - 655, 64_010]


def test_global_ids_keep_one_record_of_a_turn_and_match_between_files(read):
    twice = [request(0, 640), request(0, 640, kind="s"), request(5, 1280)]
    other = [request(0, 640, [1, 2, 3, 7, 8, 9, 10, 11, 12, 13])]
    scope = {"hash_id_scope": "global"}
    trace = read(
        session(twice, **scope), session(other, **scope), assume_append=False, session_rate_per_s=1e-3
    )
    assert len(trace) == 3 and trace.report["streaming duplicates of v6, left out"] == 1
    assert sorted(trace.requests["shared"].tolist()) == [0, 192, 640]


def test_zero_outputs_and_backward_times_are_mended_and_counted(read):
    trace = read(session([FIRST, request(9, 1100, out=0), request(7, 1200)]))
    assert trace.requests["output"].tolist() == [10, 1, 10]
    assert trace.requests["arrival"].tolist() == pytest.approx([0, 9, 9])
    assert trace.report["rows with zero output, raised to 1"] == 1
    assert trace.report["requests recorded before the one before them, moved to its time"] == 1


def test_capped_gaps_move_what_follows(read):
    entries = [FIRST, request(1002, 1100, think_time=1000.0), request(1010, 1200, think_time=6.0)]
    trace = read(session(entries), max_gap_s=60.0)
    assert trace.requests["arrival"].tolist() == pytest.approx([0, 62, 70])
    assert trace.requests["gap"].tolist() == [0, 60, 6]
    assert trace.report["gaps over max_gap_s, capped"] == 1


def test_a_context_limit_ends_a_conversation_but_not_its_parent(read):
    inner = [request(0, 500, list(range(100, 107))), request(3, 5000), request(6, 500, list(range(100, 107)))]
    trace = read(session([FIRST, agent(3, inner), request(15, 1100), request(20, 9000)]), max_context=4000)
    assert trace.requests["prompt"].tolist() == [1000, 500, 1100]
    assert trace.requests["parent"].tolist() == [-1, 0, 1]
    assert trace.report["conversations ended at 4000 tokens"] == 2
    assert trace.report["requests dropped, at or after a prompt over 4000 tokens"] == 3


def test_starts_are_poisson_and_seeded(read):
    sessions = [session([request(0, 1000)]) for _ in range(200)]
    trace = read(*sessions, session_rate_per_s=2.0)
    assert 70 < trace.span_s < 140
    assert (read(*sessions, session_rate_per_s=2.0).requests["arrival"] == trace.requests["arrival"]).all()
    assert read(*sessions, session_rate_per_s=2.0, seed=3).span_s != trace.span_s
    assert read(*sessions).report["session starts per s (made up, Poisson)"] == 1.0
    long = [session([request(0, 1000), request(1000, 1100)]) for _ in range(200)]
    assert read(*long).report["session starts per s (made up, Poisson)"] == pytest.approx(200 / 2000)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (request(9, -5, []), "in is -5"),
        (request(9, 1100, [1, 2]), "number of hash_ids is 2"),
        (request("x", 1100), "t is 'x'"),
        (request(9, 1100, out=None), "out is missing"),
        (request(9, 1100, api_time=-1), "api_time is -1"),
        (request(1e10, 1100), "t is 10000000000.0"),
        (request(9, 1100, think_time="long"), "think_time is 'long'"),
        (7, "the entry is of type int"),
        (agent(None, []), "t is null"),
        (agent(3, [request(0, 500, [1])]), "number of hash_ids is 1"),
    ],
)
def test_bad_requests_are_named_or_skipped(read, bad, words):
    entries = [FIRST, request(5, 1050), bad, request(20, 1200)]
    with pytest.raises(
        SmetricError, match=rf"trace_0000\.json request 2.*: .*{words}.*allowed.*workload\.on_bad=skip \(on_bad"
    ):
        read(session(entries))
    trace = read(session(entries), on_bad="skip")
    assert trace.requests["parent"].tolist() == [-1, 0, 1] and trace.report["bad rows skipped"] == 1


@pytest.mark.parametrize(
    "bad",
    [
        '{"block_size": 64, "requests": [',
        '{"block_size": 64, "requests": 5}',
        json.dumps(session([], block_size=32)),
    ],
)
def test_bad_sessions_are_named_or_skipped(read, bad):
    with pytest.raises(SmetricError, match=r"trace_0001\.json: .*allowed"):
        read(session([FIRST]), bad)
    assert read(session([FIRST]), bad, on_bad="skip").report["bad sessions skipped"] == 1
