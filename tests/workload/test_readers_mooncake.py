import json

import numpy as np
import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.workload.readers import read_trace


def row(t, prompt, output, ids, **more):
    return {"timestamp": t, "input_length": prompt, "output_length": output, "hash_ids": ids, **more}


@pytest.fixture
def read(tmp_path):
    def write_and_read(rows, **options):
        path = tmp_path / "t.jsonl"
        path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in rows))
        return read_trace(path, **{"block_tokens": 512, **options})

    return write_and_read


CHAT = [row(0, 1500, 100, [1, 2, 3]), row(5000, 2000, 10, [1, 2, 9, 10]), row(6000, 600, 5, [77, 78])]


def test_ids_cover_prompts_and_an_append_covers_the_output(read):
    plain = read(CHAT, assume_append=False).requests
    assert plain["shared"].tolist() == [0, 1024, 0] and plain["base"].tolist() == [-1, 0, -1]
    trace = read(CHAT)
    r = trace.requests
    assert r["shared"].tolist() == [0, 1600, 0] == r["history"].tolist()
    assert r["arrival"].tolist() == [0, 5, 6]
    assert r["session"].tolist() == [0, 0, 1] and r["turn"].tolist() == [0, 1, 0]
    assert r["messages"].tolist() == [0, 2, 0] and r["parent"].tolist() == [-1, 0, -1]
    assert not trace.has_gaps and trace.has_content and (r["gap"] == 0).all()
    assert trace.report["sessions inferred from prefixes"] == 2


def test_a_prompt_shorter_than_parent_and_output_is_no_append(read):
    r = read([row(0, 1500, 600, [1, 2, 3]), row(1, 2000, 1, [1, 2, 9, 10])]).requests
    assert r["shared"][1] == 1024 == r["history"][1] and r["parent"][1] == 0


def test_of_two_appends_that_contradict_each_other_only_the_first_has_the_output(read):
    first, second = [1, 7, 8, 9], [1, 17, 18, 19]
    rows = [row(0, 512, 1024, [1]), row(1, 2000, 1, first), row(2, 2000, 1, second)]
    trace = read(rows)
    assert trace.requests["shared"].tolist() == [0, 1536, 512]
    assert trace.report["appends that contradict an earlier one, matched by ids only"] == 1
    # Where they part only behind the output, both have it.
    trace = read([rows[0], rows[1], row(2, 2000, 1, [1, 7, 8, 19])])
    assert trace.requests["shared"].tolist() == [0, 1536, 1536]


def test_the_deepest_earlier_request_is_the_parent_and_branches_stay_in_the_session(read):
    rows = [row(t, 512 * n, 1, list(range(n))) for t, n in enumerate((2, 4, 3, 6, 6))]
    r = read(rows, assume_append=False).requests
    assert r["parent"].tolist() == [-1, 0, 0, 1, 3] and r["session"].tolist() == [0] * 5


def test_ends_inside_a_prefix_that_many_use_make_no_sessions(read):
    rows = [row(0, 512, 1, [0])] + [row(i, 1024, 1, [0, i]) for i in range(1, 2000)]
    trace = read(rows)
    assert trace.sessions == 2000
    assert (trace.requests["system"] == 512).all() and (trace.requests["shared"][1:] == 512).all()


def test_partial_last_blocks_match_only_in_the_same_size(read):
    rows = [row(0, 600, 1, [1, 2]), row(1, 600, 1, [1, 2]), row(2, 700, 1, [1, 2]), row(3, 1024, 1, [1, 2])]
    r = read(rows, assume_append=False).requests
    assert r["shared"].tolist() == [0, 600, 512, 512]


def test_unchained_ids_match_only_behind_the_same_prefix(read):
    r = read([row(0, 1536, 1, [1, 2, 3]), row(1, 1536, 1, [9, 2, 3]), row(2, 1536, 1, [1, 4, 3])]).requests
    assert r["shared"].tolist() == [0, 0, 512]


def test_times_in_nanosecond_strings_and_chunks_of_varying_size(read):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(40):
        ids = [1, 2, 3, 4, *range(100 * i + 10, 100 * i + 16)]
        rows.append(row(str(10**18 + i * 10**9), int(rng.integers(300, 360)), 2, ids))
    trace = read(rows, block_tokens=None, format="mooncake")
    assert trace.requests["arrival"][:3].tolist() == [0, 1, 2]
    assert (np.abs(trace.requests["shared"][1:] - 4 * 33) <= 8).all()
    assert trace.report["rows with chunks of varying size, taken for blocks of the median size"] == 40


def test_the_block_size_is_found_from_the_rows(read):
    rows = [row(i, 64 * 5 + i, 1, list(range(10 * i, 10 * i + 6))) for i in range(1, 30)]
    assert read(rows, block_tokens=None).report["tokens per block id"] == 64
    assert read(CHAT, block_tokens=None).report["tokens per block id"] == 512


def test_three_second_times_are_spread_in_order_and_by_the_seed(read):
    rows = [row(3000 * (i // 4) - (i // 4) % 2, 600, 1, [2 * i, 2 * i + 1]) for i in range(4, 400)]
    trace = read(rows)
    arrival = trace.requests["arrival"]
    assert trace.report["times rounded to 3 s, spread evenly over it"] == 396
    recorded = np.array([x["timestamp"] for x in rows]) / 1e3
    late = arrival - recorded
    late -= late.min()
    assert 2.5 < late.max() < 3.002 and 1.2 < np.mean(late) < 1.8
    assert trace.requests["prompt"].tolist() == [600] * 396 and len(np.unique(arrival)) == 396
    assert (read(rows).requests["arrival"] == arrival).all()
    assert (read(rows, seed=1).requests["arrival"] != arrival).any()


def test_file_order_is_kept_where_times_are_spread(read):
    rows = [row(3000 * (i // 4), 1000 + i, 1, [2 * i, 2 * i + 1]) for i in range(0, 24)]
    rows += [row(3000 * (6 + i // 4), 900, 1, [2 * i + 99, 2 * i + 100]) for i in range(100)]
    r = read(rows).requests
    assert r["prompt"][:24].tolist() == list(range(1000, 1024)) and (np.diff(r["arrival"]) >= 0).all()


def test_exact_times_are_left_alone(read):
    rows = [row(731 * i % 9973, 600, 1, [2 * i, 2 * i + 1]) for i in range(100)]
    assert not [x for x in read(rows).report if x.startswith("times rounded")]


AGENT = [
    {"session_id": "a", "input_length": 100, "output_length": 20, "hash_ids": [1, 2], "timestamp": 500},
    {"session_id": "a", "input_length": 180, "output_length": 1, "hash_ids": [1, 3, 4], "delay_ms": 3000},
    {"session_id": "b", "input_length": 64, "output_length": 1, "hash_ids": [9], "timestamp": 1500},
    {"session_id": "b", "input_length": 64, "output_length": 1, "hash_ids": [9], "delay": 250},
]


def test_sessions_with_delays_are_a_closed_loop(read):
    trace = read(AGENT, block_tokens=64)
    r = trace.requests
    assert trace.has_gaps and r["session"].tolist() == [0, 1, 1, 0]
    assert r["parent"].tolist() == [-1, -1, 1, 0] and r["gap"].tolist() == [0, 0, 0.25, 3]
    assert r["arrival"] == pytest.approx([0, 1, 1 + 2 + 0.0175 + 0.25, 2 + 20 * 0.0175 + 3])
    assert r["shared"].tolist() == [0, 0, 64, 120] and r["history"].tolist() == [0, 0, 64, 120]
    capped = read(AGENT, block_tokens=64, max_gap_s=1.0)
    assert capped.requests["gap"].max() == 1.0 and capped.report["gaps over 1 s, capped"] == 1


def test_a_skipped_turn_leaves_the_session_whole(read):
    for bad in (0, 1):
        rows = [dict(x) for x in [*AGENT[:2], {**AGENT[1], "input_length": 200, "hash_ids": [1, 3, 4, 5]}]]
        rows[bad]["output_length"] = -1
        trace = read(rows, block_tokens=64, on_bad="skip")
        assert trace.requests["parent"].tolist() == [-1, 0] and trace.sessions == 1
        assert trace.report["bad rows skipped"] == 1


def test_a_missing_time_is_not_made_up_without_a_session(read):
    trace = read([row(7, -1, 1, []), {**row(0, 600, 1, [1, 2]), "timestamp": None}, GOOD], on_bad="skip")
    assert len(trace) == 1 and trace.report["bad rows skipped"] == 2


def test_times_that_run_backwards_are_sorted_stably_and_counted(read):
    rows = [row(10, 600, 1, [1, 2]), row(5, 601, 1, [3, 4]), row(10, 602, 1, [5, 6]), row(5, 603, 1, [7, 8])]
    trace = read(rows)
    assert trace.requests["prompt"].tolist() == [601, 603, 600, 602]
    assert trace.report["rows earlier than the row before them, sorted by time"] == 2


def test_repeated_rows_are_kept_and_zero_outputs_raised(read):
    trace = read([row(0, 600, 0, [1, 2])] * 3)
    assert trace.requests["output"].tolist() == [1, 1, 1] and trace.requests["shared"].tolist() == [
        0,
        600,
        600,
    ]
    assert trace.report["repeated rows, kept"] == 2
    assert trace.report["rows with zero output, raised to 1"] == 3


GOOD = row(0, 600, 1, [1, 2])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ('{"timestamp": 1, "input_length": 600, "output_length": 1, "hash_ids": [1, 2', ["JSON"]),
        ("[1, 2]", ["list", "one JSON object"]),
        (row(1, -600, 1, [1, 2]), ["input_length is -600", "1 to 1000000000"]),
        (row(1, 0, 1, []), ["input_length is 0", "1 to 1000000000"]),
        ({"timestamp": 1, "output_length": 1, "hash_ids": [1, 2]}, ["input_length is missing"]),
        (row(1, 600.5, 1, [1, 2]), ["input_length is 600.5"]),
        (row(1, 600, None, [1, 2]), ["output_length is null"]),
        (row(1, 600, True, [1, 2]), ["output_length is True"]),
        (row(1, 600, 1, [1, 2, 3]), ["number of hash_ids is 3", "2 = ceil(600 tokens / 512 per block)"]),
        (row(1, 600, 1, [1, "x"]), ["hash_ids", "whole numbers"]),
        ({"timestamp": 1, "input_length": 600, "output_length": 1}, ["hash_ids is missing"]),
        (row("soon", 600, 1, [1, 2]), ["timestamp is 'soon'", "finite number"]),
        (row(None, 600, 1, [1, 2]), ["timestamp is missing"]),
        (row(-1, 600, 1, [1, 2]), ["timestamp is -1"]),
        (row(1e18, 600, 1, [1, 2]), ["timestamp is 1e+15 s, allowed: at most 3.2e+07 s from the 0 s of another row"]),
        (row("9" * 99, 600, 1, [1, 2]), ["timestamp is '999", "999..., allowed"]),
        ('{"timestamp": 1, "input_length": 600' + " " * 90 + '"', ["truncated JSON (unexpected", "), allowed: one"]),
        (row(1, 600, 1, [1, 2], session_id="a"), ["session_id is 'a'", "all rows or in none"]),
    ],
)
def test_bad_rows_are_named_or_skipped_and_counted(read, bad, words):
    with pytest.raises(SmetricError) as error:
        read([GOOD, GOOD, bad, GOOD])
    for word in ["t.jsonl line 3: ", "allowed: ", 'workload.on_bad=skip (on_bad="skip" in Python)', *words]:
        assert word in str(error.value)
    trace = read([GOOD, GOOD, bad, GOOD], on_bad="skip")
    assert len(trace) == 3 and trace.report["bad rows skipped"] == 1


def test_limits(read):
    rows = [row(t, 512 * n, 1, list(range(n))) for t, n in enumerate((2, 4, 3, 6, 5))] + [
        row(9, 512, 1, [99])
    ]
    trace = read(rows, max_context=5 * 512)
    assert trace.requests["prompt"].tolist() == [1024, 2048, 1536, 512]
    assert trace.report["requests dropped, at or after a prompt over 2560 tokens"] == 2
    trace = read(rows, limit_requests=4)
    assert len(trace) == 4 and trace.report["requests after the first limit_requests, left out"] == 2
    with pytest.raises(SmetricError, match="leave no request"):
        read(rows, max_context=5)


@pytest.mark.parametrize(
    "options",
    [
        {"on_bad": "ignore"},
        {"format": "csv"},
        {"block_tokens": 0},
        {"block_tokens": 1.5},
        {"limit_requests": -1},
        {"max_context": 0},
        {"max_gap_s": -1.0},
        {"max_gap_s": float("nan")},
        {"session_rate_per_s": 0.0},
        {"session_rate_per_s": 1.0},
        {"seed": -1},
    ],
)
def test_bad_options(read, options):
    with pytest.raises(SmetricError, match="allowed"):
        read([GOOD], **options)
