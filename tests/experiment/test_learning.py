"""Cells, training, tuning and the held-out comparison on tiny clusters, from the command line to the files."""

import csv
import json

import numpy as np
import pytest
from experiment.test_compare import record

from smetric_gym.agents.features import FEATURES
from smetric_gym.agents.learned_file import read_learned
from smetric_gym.cli import main
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.cells import cells_of, expand, label, scenarios
from smetric_gym.experiment.gains import by_cell, gain, guard
from smetric_gym.experiment.heldout_summary import Heldout
from smetric_gym.experiment.settings import compose
from smetric_gym.experiment.store import Store

TINY = (
    "cells.settings={instances: 2, warm_up_s: 10.0, window_s: 60.0}",
    "cells.seeds=[1000,1001]",
    "cells.validation_seeds=[2000]",
    "cells.cells=[{cluster: colocated, global_tier: [0.0, 1.6], load: 1.2}]",
    "jobs=1",
)


def rows_of(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def test_cells_are_every_combination_with_every_seed():
    assert expand({"a": [1, 2], "b": 3, "c": [4, 5]}) == [
        {"a": 1, "b": 3, "c": 4}, {"a": 1, "b": 3, "c": 5}, {"a": 2, "b": 3, "c": 4}, {"a": 2, "b": 3, "c": 5},
    ]  # fmt: skip
    where = scenarios({"settings": {"instances": 3}, "cells": [{"cluster": "disaggregated", "load": [1, 2]}]}, [7, 8])
    found = [(s["load"], s["seed"], s["cluster"]["instances"]) for s in where]
    assert found == [(1, 7, 3), (1, 8, 3), (2, 7, 3), (2, 8, 3)]
    assert label(where[0]) == "disaggregated, tier 3.2"
    with pytest.raises(SmetricError, match="did you mean settings"):
        scenarios({"setings": {}, "cells": []}, [0])


def test_nothing_held_out_was_trained_on():
    train, held = cells_of("train"), cells_of("heldout")
    assert not set(train["seeds"] + train["validation_seeds"]) & set(held["seeds"])
    assert not set(train["seeds"]) & set(train["validation_seeds"])
    tiers = [{tier for cell in cells["cells"] for tier in cell["global_tier"]} for cells in (train, held)]
    assert tiers[1] - tiers[0] == {0.8, 3.2} and train["settings"]["instances"] != held["settings"]["instances"]


def test_gains_are_clipped_logarithms_and_their_mean_is_a_percentage():
    values = gain(np.array([99.0, 0.0, 1e9]), np.array([99.0, 1e6, 1.0]), clip=0.3)
    np.testing.assert_allclose(values, [0, -0.3, 0.3])
    where = [{"cluster": {"decode_instances": 0, "global_tier": tier}} for tier in (0, 0, 1.6)]
    first, second, everything = by_cell(where, {"mine": np.log([1.1, 1.1, 1.0])})
    assert first == {"cell": "colocated, tier 0", "mine": pytest.approx(10)}
    assert second["mine"] == 0 and everything["mine"] == pytest.approx(100 * (1.1 ** (2 / 3) - 1))


def test_the_guard_counts_a_longer_tail_and_never_rewards_a_shorter_one():
    reference = np.array([10.0, 10.0, 10.0, 10.0])
    values = guard(np.array([5.0, 20.0, 1e4, np.nan]), reference)
    np.testing.assert_allclose(values, [0, np.log(2), 3, 3])


def test_training_goes_on_after_an_interruption_to_the_same_weights(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short = ("train", "agent=cmaes", *TINY, "train.population=4", "train.seeds_per_generation=1",
             "train.references=[lmetric]", "train.validate_every=1", "train.features=[miss,log_batch,tier_saving]",
             "train.step=1.0", "train.burdens=true")  # fmt: skip
    assert main([*short, "train.generations=4", "hydra.run.dir=whole", "output=one"]) == 0
    from smetric_gym.experiment.train_cmaes import Training

    keep, kept = Training._keep, []

    def interrupted(self):
        keep(self)
        kept.append(1)
        if len(kept) == 3:  # the references, and two generations
            raise KeyboardInterrupt

    monkeypatch.setattr(Training, "_keep", interrupted)
    assert main([*short, "train.generations=4", "hydra.run.dir=parts", "output=two"]) == 130
    monkeypatch.setattr(Training, "_keep", keep)
    capsys.readouterr()
    assert main([*short, "train.generations=4", "hydra.run.dir=parts", "output=two"]) == 0
    said = capsys.readouterr().out
    assert "going on after generation 2" in said and "generation   3" in said and "generation   2" not in said
    whole, parts = (read_learned(tmp_path / name / "policy.safetensors") for name in ("whole", "parts"))
    np.testing.assert_array_equal(whole.weights.linear, parts.weights.linear)
    assert whole.features == ("miss", "log_batch", "tier_saving") and whole.weights.linear.any()
    assert whole.weights.linear[list(FEATURES).index("log_batch")] <= 0, "a burden is never rewarded"
    assert whole.training["cells"]["seeds"] == [1000, 1001] and whole.training["train"]["seed"] == 1
    assert [row["generation"] for row in rows_of(tmp_path / "whole" / "history.csv")] == ["1", "2", "3", "4"]
    assert {row["cell"] for row in whole.training["validation"]} == {"colocated, tier 0", "colocated, tier 1.6", "all"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "agent=cmas"], "agent is 'cmas' (did you mean cmaes?)"),
        (["train"], "agent is None, allowed: cmaes"),
        (["train", "agent=cmaes", "train.population=3"], "train.population is 3, allowed: a whole number, 4 or more"),
        (["train", "agent=cmaes", "train.features=[mis]"], "there is no feature 'mis' (did you mean miss?)"),
        (["train", "agent=cmaes", "train.start=none.safetensors"], "none.safetensors does not exist"),
        (["tune", "policy=round_robin"], "policy round_robin has no box to search"),
        (["tune", "policy=bailian", "tune.box={lam: [0, 2]}"], "policy bailian: lam is 2.0, allowed: a number, 0 to 1"),
        (["tune", "policy=bailian", "tune.box={lamb: [0, 1]}"], "policy bailian has no parameter lamb"),
        (["heldout", "heldout.tuned=nowhere"], "heldout.tuned is nowhere, which holds nothing"),
        (["heldout", "heldout.tuned=null", "heldout.learned=none"], "learned policy none does not exist"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_tuning_a_function_of_the_users_and_comparing_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from typing import NamedTuple\n\n"
        "class Params(NamedTuple):\n    alpha: float = 0.01\n\n"
        "def mine(view, request, memory, params):\n"
        "    return int((view.in_flight - params.alpha * view.local_hit_tokens).argmin())\n"
    )
    command = ["tune", "policy=./mine.py:mine", *TINY, "tune.box={alpha: [0.0, 0.0001]}", "tune.budget=5",
               "hydra.run.dir=tuned"]  # fmt: skip
    assert main(command) == 0
    found = json.loads((tmp_path / "outputs" / "tuned" / "mine.json").read_text())
    assert len(found["tried"]) == 5 and found["tried"][0]["alpha"] == 0.01 > found["tuned"]["alpha"]
    assert found["percent"] == max(row["percent"] for row in found["tried"]) > found["default_percent"]

    from smetric_gym.experiment.rollouts import Rollouts

    def no_more(*_):
        raise AssertionError("everything is known already")

    monkeypatch.setattr(Rollouts, "run", no_more)
    assert main(command) == 0
    assert json.loads((tmp_path / "tuned" / "tuned.json").read_text()) == found

    capsys.readouterr()
    held = ["heldout", *TINY, "heldout.references=[smetric,lmetric]", "hydra.run.dir=held"]
    assert main(held) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "16 runs of 4 policies: smetric, lmetric, mine, tuned, learned" in said
    assert {"heldout.png", "heldout.csv", "heldout.md", "heldout.json", "maxima.csv", "runs.csv"} <= {
        path.name for path in (tmp_path / "held").iterdir()
    }
    assert len(rows_of(tmp_path / "held" / "heldout.csv")) == 3


def held_out(values):
    """Records of policies in one cell; `values`: policy: load: [seeds]."""
    records = []
    for policy, loads in values.items():
        for load, tps in loads.items():
            for seed, one in enumerate(tps):
                made = record(policy, load, seed, one, prefill_tps_within_slo=one / 2)
                made["settings"]["cluster"] = {"decode_instances": 0, "global_tier": 0.0}
                records.append(made)
    return Heldout(records, "learned", target="tps_within_slo", resamples=2000)


def test_the_rival_is_the_best_reference_and_differences_are_paired():
    result = held_out({
        "smetric": {1.0: [100, 200], 2.0: [90, 100]},
        "lmetric, tuned": {1.0: [50, 60], 2.0: [120, 240]},
        "learned": {1.0: [132, 100], 2.0: [10, 264]},
    })  # fmt: skip
    row, overall = result.rows()
    assert row["best_reference"] == "lmetric, tuned" and row["max_tps_within_slo"] == 198
    assert row["difference_percent"] == pytest.approx(10) == row["low_percent"] == overall["high_percent"]
    assert row["to_smetric_percent"] == pytest.approx(100 * (np.sqrt(1.32 * 1.32) - 1))
    assert row["prefill_tps_within_slo_percent"] == pytest.approx(10) and row["max_at_edge"]


def test_an_interval_covers_the_spread_of_the_seeds():
    result = held_out({"smetric": {1.0: [100] * 8}, "learned": {1.0: [90, 110] * 4}})
    row = result.rows()[0]
    assert row["low_percent"] < 0 < row["high_percent"]
    assert result.interval(np.zeros((3, 8))) == (0, 0, 0)


def test_the_store_knows_the_content_of_a_learned_policy(tmp_path):
    from smetric_gym.agents.learned_file import save_learned

    path, keys = tmp_path / "policy.safetensors", set()
    for weight in (1.0, 2.0):
        save_learned(path, {"linear.weight": np.array([[weight]])}, ("miss",))
        keys.add(Store(tmp_path).key(compose(["policy=learned", f"policy.path={path}"])))
    assert len(keys) == 2


def test_an_explanation_of_smetric_in_weights_finds_no_departure(tmp_path, monkeypatch, capsys):
    from smetric_gym.agents.learned_file import save_learned
    from smetric_gym.agents.linear import REFERENCES

    monkeypatch.chdir(tmp_path)
    weights = REFERENCES["smetric"]
    save_learned("smetric.safetensors", {"linear.weight": np.array([list(weights.values())])}, tuple(weights))
    where = ["policy.path=smetric.safetensors", "instances=4", "warm_up_s=10", "window_s=200", "hydra.run.dir=why"]
    assert main(["explain", *where]) == 0
    found = json.loads((tmp_path / "why" / "explanation.json").read_text())
    stuck = next(row for row in found["departures"] if row["smetric"] == "STICK")
    assert stuck["same"] > 0.95 and stuck["share"] > 0.3  # ties are broken in another order
    assert {row["feature"]: row["weight"] for row in found["features"]} == weights
    assert all(row["decides"] > 0.1 for row in found["features"])
    capsys.readouterr()
    save_learned("lmetric.safetensors", {"linear.weight": -np.ones((1, 2))}, ("log_prefill_tokens", "log_batch"))
    assert main(["explain", "policy.path=lmetric.safetensors", *where[1:]]) == 0
    stuck = next(row for row in rows_of(tmp_path / "why" / "departures.csv") if row["smetric"] == "STICK")
    assert float(stuck["same"]) < 1 and float(stuck["log_batch_difference"]) < 0
