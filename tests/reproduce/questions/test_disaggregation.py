"""Question 3: the experiment compares equals, and the study on a tiny cluster."""

import pytest

from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.cases import cases_of
from smetric_gym.reproduce.grid import changed
from smetric_gym.reproduce.questions.disaggregation import question_3
from smetric_gym.reproduce.study import Work


def test_every_split_gets_the_same_requests_and_bytes_per_gpu():
    settings = compose(["experiment=q3"])
    for case in cases_of(settings):
        inside = changed(settings, case.changes)
        cluster, rate = inside["cluster"], inside["workload"].get("requests_per_minute", 10.0)
        gpus = cluster["instances"] + cluster["decode_instances"]
        assert case.axis == f"{gpus} GPUs"
        assert rate * cluster["instances"] == pytest.approx(10.0 * gpus)
        assert cluster["global_tier"] * cluster["instances"] == pytest.approx(3.2 * gpus)


def test_the_study(tmp_path, monkeypatch):
    monkeypatch.setattr("smetric_gym.reproduce.cases.ROUNDS", 0)
    cases = {"4 GPUs": {
        "4 colocated": {"cluster.instances": 4},
        "2P + 2D": {"cluster.instances": 2, "cluster.decode_instances": 2, "workload.requests_per_minute": 20.0},
    }}  # fmt: skip
    tiny = {"warm_up_s": 10.0, "window_s": 40.0, "seeds": [0, 1], "loads": [0.5, 1.0],
            "policies": ["load_balance", "smetric"]}  # fmt: skip
    outcome = question_3(Work(compose([], tiny) | {"cases": cases}, jobs=1, store=tmp_path))
    assert [(row["split"], row["policy"]) for row in outcome.table] == [
        (split, policy) for split in ("4 colocated", "2P + 2D") for policy in ("load_balance", "smetric")
    ]
    together, apart = outcome.table[1], outcome.table[3]
    assert apart["tpot_p50_s"] != together["tpot_p50_s"] and apart["load"] == together["load"]
    assert all(row["max_prefill_tps_within_slo_per_gpu"] > 0 for row in outcome.table)
    assert outcome.picture is not None and outcome.words[0].startswith("2P + 2D: by prefill alone")
