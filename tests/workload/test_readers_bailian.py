import json

import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.workload.readers import read_trace


def row(chat, parent, t, prompt, ids, output=4, **more):
    return {
        "chat_id": chat,
        "parent_chat_id": parent,
        "timestamp": t,
        "input_length": prompt,
        "output_length": output,
        "type": "coder",
        "hash_ids": ids,
        **more,
    }


@pytest.fixture
def read(tmp_path):
    def write_and_read(rows, **options):
        path = tmp_path / "qwen.jsonl"
        path.write_text("\n".join(json.dumps(x) for x in rows))
        return read_trace(path, **options)

    return write_and_read


def test_chains_of_chats_are_sessions(read):
    rows = [
        row(1, -1, 0.5, 40, [5, 6, 7], turn=1),
        row(2, -1, 1.0, 40, [9, 6, 7], turn=1),
        row(3, 1, 2.5, 60, [5, 6, 8, 9], turn=2),
        row(4, 3, 9.5, 80, [5, 6, 8, 9, 10], turn=3),
    ]
    trace = read(rows)
    r = trace.requests
    assert r["session"].tolist() == [0, 1, 0, 0] and r["turn"].tolist() == [0, 0, 1, 2]
    assert r["parent"].tolist() == [-1, -1, 0, 2] and r["messages"].tolist() == [0, 0, 2, 4]
    assert r["arrival"].tolist() == [0, 0.5, 2, 9]
    # Ids hash one block each: 6 and 7 behind 9 are other blocks than 6 and 7 behind 5.
    assert r["shared"].tolist() == [0, 0, 44, 64] and not trace.has_gaps
    assert read(rows, assume_append=False).requests["shared"].tolist() == [0, 0, 32, 60]


def test_a_padded_last_block_is_shared_only_where_the_ids_are_equal(read):
    rows = [row(1, -1, 0, 40, [5, 6, 7]), row(2, -1, 1, 60, [5, 6, 7, 8]), row(3, -1, 2, 60, [5, 6, 9, 9])]
    assert read(rows).requests["shared"].tolist() == [0, 40, 32]


def test_a_parent_outside_the_file_begins_a_truncated_session(read):
    trace = read([row(7, 3, 0, 40, [5, 6, 7], turn=4), row(8, 7, 5, 64, [5, 6, 7, 8]), row(9, 2, 6, 16, [1])])
    assert trace.requests["messages"].tolist() == [6, 8, 1] and trace.requests["turn"].tolist() == [0, 1, 0]
    assert trace.requests["parent"].tolist() == [-1, 0, -1]
    assert trace.report["first turns of truncated sessions (parent outside the file)"] == 2


def test_recorded_gaps(read):
    rows = [row(1, -1, 0, 16, [1]), row(2, 1, 5, 32, [1, 2], time_to_parent_chat=1.5)]
    trace = read(rows)
    assert trace.has_gaps and trace.requests["gap"].tolist() == [0, 1.5]
    trace = read([*rows, row(3, 2, 9, 48, [1, 2, 3])])
    assert not trace.has_gaps and trace.report["follow-ups without a recorded gap"] == 1


def test_a_skipped_chat_gives_way_to_its_parent(read):
    rows = [row(1, -1, 0, 16, [1]), row(2, 1, 5, -32, [1, 2]), row(3, 2, 9, 48, [1, 2, 3])]
    with pytest.raises(SmetricError, match=r"qwen\.jsonl line 2: input_length is -32, allowed"):
        read(rows)
    trace = read(rows, on_bad="skip")
    assert trace.requests["parent"].tolist() == [-1, 0] and trace.sessions == 1


def test_a_chat_before_its_parent_is_a_first_turn(read):
    trace = read([row(1, -1, 9, 16, [1]), row(2, 1, 5, 32, [1, 2])])
    assert trace.requests["parent"].tolist() == [-1, -1]
    assert trace.report["requests before their parent, taken for first turns"] == 1


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (row(1, -1, 1, 16, [1]), "chat_id is 1, allowed: a number that no earlier row has"),
        (row(2, None, 1, 16, [1]), "parent_chat_id is missing"),
        (row(2, -1, 1, 17, [1]), r"number of hash_ids is 1, allowed: 2 = ceil\(17"),
        (row(2, -1, "x", 16, [1]), "timestamp is 'x'"),
    ],
)
def test_bad_rows(read, bad, words):
    with pytest.raises(SmetricError, match=f"line 2: .*{words}"):
        read([row(1, -1, 0, 16, [1]), bad])
    assert read([row(1, -1, 0, 16, [1]), bad], on_bad="skip").report["bad rows skipped"] == 1
