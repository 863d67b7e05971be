"""Files whole or not at all, and finished runs found again only when nothing that matters has changed."""

import json
import math
from pathlib import Path

import pytest

from smetric_gym.experiment import store as store_module
from smetric_gym.experiment.settings import compose
from smetric_gym.experiment.store import RUN_KEYS, Store, as_json, write_whole


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "file.json"
    write_whole(path, "old")
    with pytest.raises(TypeError):
        write_whole(path, object())
    assert path.read_text() == "old" and [p.name for p in path.parent.iterdir()] == ["file.json"]
    write_whole(path, b"new")
    assert path.read_text() == "new"


def test_json_has_no_numbers_that_json_does_not_have():
    assert json.loads(as_json({"a": math.nan, "b": [math.inf, (1, 2.5)]})) == {
        "a": None,
        "b": ["inf", [1, 2.5]],
    }


def test_the_key_changes_with_what_decides_the_result_and_with_nothing_else(tmp_path):
    store = Store(tmp_path)
    key = store.key(compose())
    assert key == store.key(
        compose(["jobs=1", "force=true", "output=elsewhere", "loads=[3]", "requests_table=csv"])
    )
    changes = ["load=2", "seed=1", "policy.overload=inf", "cluster.loads=async", "slo=relaxed", "window_s=10",
               "arrival_mode=open", "workload=chat", "warm_up_s=1", "imbalance_window_s=30",
               "load_by=time"]  # fmt: skip
    assert len({key, *(store.key(compose([change])) for change in changes)}) == 1 + len(changes)
    assert {change.partition("=")[0].partition(".")[0] for change in changes} == set(RUN_KEYS)


def test_the_key_changes_with_the_content_of_files(tmp_path):
    policy, trace = tmp_path / "mine.py", tmp_path / "trace.jsonl"
    overrides = [f"policy={policy}:f", "workload=file", f"workload.path={trace}"]
    keys = set()
    for source in ("a", "b"):
        for rows in ("1", "2"):
            policy.write_text(source)
            trace.write_text(rows)
            keys.add(Store(tmp_path).key(compose(overrides)))
    assert len(keys) == 4


def test_the_key_covers_all_that_makes_a_result(monkeypatch):
    read, files = Path.read_bytes, []
    monkeypatch.setattr(Path, "read_bytes", lambda path: files.append(path.name) or read(path))
    store_module._source.__wrapped__()
    assert {"engine.py", "slo.py", "scoring.py", "measures.py", "prepare.py", "evaluate.py", "trace.py", "smetric.py",
            "h20_30b.yaml"} <= set(files)  # fmt: skip


def test_a_broken_file_counts_as_not_there(tmp_path):
    store = Store(tmp_path)
    assert store.load("x") is None
    store.save("x", {"a": 1})
    assert store.load("x") == {"a": 1}
    (tmp_path / "x.json").write_text('{"a": ')
    assert store.load("x") is None


def test_an_edited_helper_beside_a_policy_makes_another_key(tmp_path):
    from smetric_gym.experiment.store import _digest, _files

    policy, helper = tmp_path / "mine.py", tmp_path / "helper.py"
    policy.write_text("from helper import pick\n")
    helper.write_text("pick = min\n")
    files = _files({"policy": {"name": f"{policy}:mine"}, "workload": {}})
    assert {str(policy), str(helper)} == set(files)
    before = [_digest(path) for path in files]
    helper.write_text("pick = max\n")
    assert before != [_digest(path) for path in files]
