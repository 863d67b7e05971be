"""Question 8: the agreement of orders, samples of a recorded trace, and what is said where there is none."""

import json

import numpy as np
import pytest

from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.questions.recorded import FOLDER, kendall_tau, question_8
from smetric_gym.reproduce.questions.sampled import scores
from smetric_gym.reproduce.study import Work


def test_kendall_tau():
    order = np.array([4.0, 3.0, 2.0, 1.0])
    assert kendall_tau(order, 10 * order) == 1 and kendall_tau(order, -order) == -1
    assert kendall_tau(order, np.array([3.0, 4.0, 2.0, 1.0])) == pytest.approx(2 / 3)  # one of six pairs


def write_trace(path, sessions=40):
    """Sessions of three requests each, every second, in Mooncake's format."""
    rows, ids = [], iter(range(10**6))
    for session in range(sessions):
        blocks = [next(ids) for _ in range(4)]
        for turn in range(3):
            blocks = [*blocks, next(ids)]
            rows.append({"timestamp": 1000 * (session + 15 * turn), "input_length": 512 * len(blocks),
                         "output_length": 20, "hash_ids": list(blocks)})  # fmt: skip
    rows.sort(key=lambda row: row["timestamp"])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


SMALL = {"cluster.instances": 2, "warm_up_s": 5.0, "window_s": 60.0, "arrival_mode": "causal", "load_by": "time"}


def test_load_is_a_multiple_of_the_recorded_rate_and_seeds_keep_other_sessions(tmp_path):
    write_trace(tmp_path / "trace.jsonl")
    settings = compose([], SMALL | {"warm_up_s": 0.0})
    settings["workload"] = {"path": str(tmp_path / "trace.jsonl"), "format": "mooncake"}
    whole, half, other = (
        scores(settings | {"seed": seed}, {"share": share}) for seed, share in ((0, 1.0), (0, 0.5), (1, 0.5))
    )
    assert half["requests"] == 60 and whole["requests"] > 100  # half of the sessions, squeezed into half of the time
    assert half["load_imbalance"] != other["load_imbalance"] and half["reuse_ratio"] > 0.3


def test_the_study_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr("smetric_gym.reproduce.cases.ROUNDS", 0)
    write_trace(tmp_path / "there.jsonl")
    there, gone = ({"workload": {"path": f"{name}.jsonl", "format": "mooncake"}} for name in ("there", "gone"))
    cases = {"workload": {"made up": {}, "recorded": there, "lost": gone}}
    more = {"seeds": [0], "loads": [1.0, 1.5], "policies": ["round_robin", "load_balance", "smetric"]}
    outcome = question_8(Work(compose([], SMALL | more) | {"cases": cases}, jobs=1, store=tmp_path / "store"))
    assert {row["workload"] for row in outcome.table} == {"made up", "recorded"}
    assert [row["rank"] for row in outcome.table] == [1, 2, 3, 1, 2, 3] and outcome.picture is not None
    assert "lost is left out" in outcome.words[-1] and FOLDER in outcome.words[-1]
    assert str(tmp_path) not in " ".join(outcome.words)


def test_nothing_to_compare_with(tmp_path, monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)
    outcome = question_8(Work(compose(["experiment=q8"]), jobs=1, store=tmp_path))
    assert outcome.table == [] and len(outcome.words) == 2
