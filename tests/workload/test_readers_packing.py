import gzip
import io
import json
import lzma
import tarfile

import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.workload.readers import read_trace

SESSION = {
    "block_size": 64,
    "tool_tokens": 0,
    "system_tokens": 0,
    "requests": [{"t": 0, "type": "n", "in": 130, "out": 5, "hash_ids": [1, 2]}],
}
LINES = "".join(
    json.dumps({"timestamp": i, "input_length": 600, "output_length": 5, "hash_ids": [2 * i, 2 * i + 1]})
    + "\n"
    for i in range(2000)
).encode()


def packed(files, how):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return how(raw.getvalue())


def plain(text):
    return text


@pytest.mark.parametrize(
    ("name", "how"), [("t.jsonl", plain), ("t.jsonl.gz", gzip.compress), ("t", lzma.compress)]
)
def test_lines_in_any_wrapping(tmp_path, name, how):
    (tmp_path / name).write_bytes(how(LINES))
    trace = read_trace(tmp_path / name)
    assert len(trace) == 2000 and trace.name == "t"


@pytest.mark.parametrize("how", [plain, gzip.compress, lzma.compress])
def test_sessions_in_an_archive_or_a_folder(tmp_path, how):
    text = json.dumps(SESSION).encode()
    files = {
        "x/trace_1.json": text,
        "x/README.md": b"no trace",
        "x/.hidden.json": b"{",
        "x/trace_2.json": text,
    }
    (tmp_path / "all.bin").write_bytes(packed(files, how))
    assert read_trace(tmp_path / "all.bin").sessions == 2
    folder = tmp_path / "folder"
    (folder / "x").mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    assert read_trace(folder).sessions == 2
    assert read_trace(folder / "x" / "trace_1.json").sessions == 1


def test_the_indented_json_of_one_session(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(SESSION, indent=2))
    assert read_trace(tmp_path / "s.json").requests["prompt"].tolist() == [130]


def test_shards_in_a_folder_are_one_trace(tmp_path):
    half = LINES.index(b"\n", len(LINES) // 2) + 1
    (tmp_path / "a.jsonl").write_bytes(LINES[:half])
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(LINES[half:]))
    assert len(read_trace(tmp_path)) == 2000


@pytest.mark.parametrize("how", [gzip.compress, lzma.compress])
def test_a_truncated_archive_is_named_and_what_is_left_of_it_can_be_read(tmp_path, how):
    path = tmp_path / "t.jsonl.pack"
    path.write_bytes(how(LINES)[:-2000])
    with pytest.raises(SmetricError, match=r"t\.jsonl\.pack.*cannot be unpacked.*allowed: a whole archive"):
        read_trace(path)
    path.write_bytes(packed({"a.json": json.dumps(SESSION).encode(), "b.json": LINES}, how)[:-1500])
    with pytest.raises(SmetricError, match="cannot be unpacked|malformed"):
        read_trace(path)
    assert read_trace(path, on_bad="skip").sessions == 1


def test_a_truncated_last_line_is_named(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(LINES[:-20])
    with pytest.raises(SmetricError, match=r"t\.jsonl line 2000: the line is malformed or truncated JSON"):
        read_trace(path)
    assert len(read_trace(path, on_bad="skip")) == 1999


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", r"[^:]*t\.jsonl is empty"),
        (b"hello\n", "cannot tell the format.*'hello'.*workload\\.format="),
        (b'{"a": 1}\n', "cannot tell the format"),
    ],
)
def test_what_is_no_trace_is_said(tmp_path, text, words):
    (tmp_path / "t.jsonl").write_bytes(text)
    with pytest.raises(SmetricError, match=words):
        read_trace(tmp_path / "t.jsonl")


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.tar.gz"])
def test_a_byte_order_mark_is_no_part_of_a_trace(tmp_path, name):
    text = b"\xef\xbb\xbf" + LINES
    by_name = {"t.jsonl": text, "t.jsonl.gz": gzip.compress(text), "t.tar.gz": packed({"t.jsonl": text}, gzip.compress)}
    (tmp_path / name).write_bytes(by_name[name])
    assert len(read_trace(tmp_path / name)) == 2000


def test_nothing_to_read_is_said(tmp_path):
    with pytest.raises(SmetricError, match="no such file"):
        read_trace(tmp_path / "none.jsonl")
    with pytest.raises(SmetricError, match="found no trace file"):
        read_trace(tmp_path)
    (tmp_path / "t.jsonl").write_bytes(b'{"timestamp": 0}\n')
    with pytest.raises(SmetricError, match="no request could be read"):
        read_trace(tmp_path, format="mooncake", on_bad="skip")
