"""The table of assumptions: its experiment is whole, and the study on a tiny cluster."""

import pytest

from smetric_gym.experiment.prepare import check, check_workload
from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.assumptions import TOGETHER, assumptions
from smetric_gym.reproduce.cases import cases_of
from smetric_gym.reproduce.grid import changed
from smetric_gym.reproduce.study import Work


def test_every_assumption_has_the_value_that_is_used_and_others_that_can_be_run():
    settings = compose(["experiment=assumptions"])
    cases = cases_of(settings)
    for case in cases:
        inside = changed(settings, case.changes)
        check(inside)
        check_workload(inside, inside["cluster"]["instances"])
    for axis in {case.axis for case in cases if not case.axis.startswith(TOGETHER)}:
        here = [case for case in cases if case.axis == axis]
        assert sum(not case.changes for case in here) == 1 and len(here) > 1, axis


def test_the_study(tmp_path, monkeypatch):
    monkeypatch.setattr("smetric_gym.reproduce.cases.ROUNDS", 0)
    tuned = ["load_balance", "lmetric", {"name": "bailian", "lam": 0.9}, "smetric"]
    cases = {
        "Tier: size": {"none": {"cluster.global_tier": 0.0}, "x 3.2": {}},
        "SLO: tokens that count": {"output": {"target": "output_tps_within_slo"}, "all": {}},
        "Policies: lambda of Bailian": {"0.7": {}, "0.9": {"policies": tuned}},
        "Together: both": {"so": {"policies": tuned, "cluster.global_tier": 0.0}},
    }
    tiny = {"instances": 2, "warm_up_s": 60.0, "window_s": 120.0, "seeds": [0, 1, 2], "loads": [0.5, 1.0],
            "policies": ["load_balance", "lmetric", "bailian", "smetric"]}  # fmt: skip
    outcome = assumptions(Work(compose([], tiny) | {"cases": cases}, jobs=1, store=tmp_path))
    rows = {(row["assumption"], row["value"]): row for row in outcome.table}
    used = rows["size", "x 3.2"]
    assert used["used"] and used["over_strongest"] == rows["tokens that count", "all"]["over_strongest"]
    lowest = min(used[f"over_{baseline}"] for baseline in ("bailian", "lmetric", "load_balance"))
    assert used["over_strongest"] == pytest.approx(lowest, abs=0.02)
    assert used["paper_strongest"] in ("bailian", "load_balance")  # not the queue-aware LMetric
    assert rows["size", "none"]["over_load_balance"] > used["over_load_balance"]  # a tier is what load balance needs
    assert rows["tokens that count", "output"]["max_smetric"] < used["max_smetric"]
    tuned_row = rows["lambda of Bailian", "0.9"]
    assert tuned_row["over_bailian"] != used["over_bailian"] and tuned_row["over_lmetric"] == used["over_lmetric"]
    assert used["over_strongest_low"] <= used["over_strongest"] <= used["over_strongest_high"]
    assert outcome.picture is not None and "3 other values of 3 assumptions" in outcome.words[1]
    assert any("1 combinations" in sentence for sentence in outcome.words)
