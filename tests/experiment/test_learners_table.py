"""Trained routers side by side: the table is made from the files and the runs alone."""

import csv

import numpy as np
import pytest

from smetric_gym.agents.features import FEATURES
from smetric_gym.agents.learned_file import save_learned
from smetric_gym.cli import main
from smetric_gym.experiment.validation import Validation

TINY = (
    "cells.settings={instances: 2, warm_up_s: 10.0, window_s: 60.0}", "cells.seeds=[0]",
    "cells.cells=[{cluster: colocated, global_tier: [0.0, 1.6], load: 1.2}]", "learners.references=[lmetric]", "jobs=1",
)  # fmt: skip


def test_a_table_of_what_was_trained(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    weights = np.zeros((1, len(FEATURES)))
    weights[0, list(FEATURES).index("batch_of_mean")] = -1
    save_learned("mine/policy.safetensors", {"linear.weight": weights}, training={
        "command": "smetric-gym train agent=mine", "validation_percent": 3.25, "cpu_s": 90.0})  # fmt: skip
    command = ["learners", "learners.policies=[mine/policy.safetensors]", *TINY, "hydra.run.dir=here"]
    assert main(command) == 0
    with open(tmp_path / "here" / "learners.csv") as file:
        rows = {row["router"]: row for row in csv.DictReader(file)}
    assert set(rows) == {"mine", "smetric", "lmetric"}
    mine = rows["mine"]
    assert float(mine["validation_percent"]) == 3.25 and float(mine["cpu_minutes"]) == 1.5
    assert float(mine["worst_cell_percent"]) <= float(mine["held_out_percent"])
    assert max(float(rows[name]["held_out_percent"]) for name in ("smetric", "lmetric")) <= 0, "to the best of them"
    text = (tmp_path / "here" / "learners.md").read_text()
    assert "| `mine` | +3.2 % |" in text and "- `mine`: `smetric-gym train agent=mine`" in text
    assert "colocated, tier 0; colocated, tier 1.6" in text and "Made by `smetric-gym learners " in text

    def no_more(*_):
        raise AssertionError("the references are known already")

    monkeypatch.setattr("smetric_gym.experiment.validation.reference_jobs", no_more)
    assert main(command) == 0


@pytest.mark.parametrize(
    ("argument", "words"),
    [("learners.policies=[]", "learners.policies is empty"), ("learners.policies=[none]", "none does not exist")],
)
def test_bad_input_is_one_sentence(argument, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["learners", argument, *TINY]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_validation_is_a_gain_over_the_best_reference_less_the_guard(tmp_path):
    class Ran:
        def run(self, jobs):
            target = {"smetric": [100.0, 400.0], "lmetric": [200.0, 300.0]}
            worth = [target[job.policy["name"]][job.scenario["seed"]] for job in jobs]
            return {"tps_within_slo": np.array(worth), "ttft_p99_s": np.full(len(jobs), 10.0)}

    where = [{"seed": seed, "cluster": {"decode_instances": 0, "global_tier": 0}} for seed in (0, 1)]
    values = {"target": "tps_within_slo", "clip": 9.0, "guard": 0.5, "references": ["lmetric"]}
    validation = Validation(values, where, Ran(), tmp_path)
    assert validation.beside() == pytest.approx(100 * ((101 / 201) ** 0.5 - 1))
    (row, everything) = validation.rows({"tps_within_slo": [200.0, 400.0], "ttft_p99_s": [10.0, 20.0]})
    assert row["learned"] == pytest.approx(0) == everything["learned"]
    slower = validation._worth({"tps_within_slo": [200.0, 400.0], "ttft_p99_s": [10.0, 20.0]})
    assert slower == pytest.approx(100 * (2**-0.25 - 1))
