"""The paper's figures, remade tiny, and the rows of the fidelity table that they answer for."""

import numpy as np
import pytest

from smetric_gym.experiment.compare import choice
from smetric_gym.experiment.evaluate import evaluate
from smetric_gym.experiment.settings import choices, compose
from smetric_gym.reproduce.fidelity import targets
from smetric_gym.reproduce.grid import Runs, cells, seeds_of
from smetric_gym.reproduce.guards import SWEEPS
from smetric_gym.reproduce.later import GUARD, GUARDED, V2
from smetric_gym.reproduce.loads import max_over_mean
from smetric_gym.reproduce.study import OF_PAPER, Work, save, study
from smetric_gym.reproduce.task import experiment

TINY = {"instances": 2, "cluster.decode_instances": 0, "warm_up_s": 60.0, "window_s": 120.0, "jobs": 1}


def tiny(name, **changes):
    return compose([experiment(name)], TINY | changes) | {"sizes": {"quick": [0, 1]}}


def invented(template):
    """A grid's runs without running them: one real record with its numbers scaled at random."""
    random = np.random.default_rng(0)

    def scaled(value):
        return value * random.uniform(0.5, 1) if isinstance(value, float) else value

    def run_grid(settings, **_):
        records = [
            template | {"policy": choice(policy)[0], "load": load, "cell": cell}
            | {"scores": {n: scaled(v) for n, v in template["scores"].items()} | {"seed": seed}}
            for cell, inside in cells(settings)
            for policy in inside["policies"]
            for load in inside["loads"]
            for seed in seeds_of(inside)
        ]  # fmt: skip
        return Runs(records, settings["target"])

    return run_grid


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """The outcome of every study of the paper, of invented runs."""
    template = evaluate("smetric", **{key: value for key, value in TINY.items() if key != "jobs"}).record()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("smetric_gym.reproduce.study.run_grid", invented(template))
        return {name: study(name)(Work(tiny(name), 1, tmp_path_factory.mktemp("store"))) for name in OF_PAPER}


def test_every_row_is_answered_by_exactly_one_study(outcomes):
    answered = [row for outcome in outcomes.values() for row in outcome.rows]
    assert sorted(answered) == sorted(target["id"] for target in targets())


@pytest.mark.parametrize("name", OF_PAPER)
def test_every_study_has_a_table_a_picture_and_words(outcomes, name, tmp_path):
    found = outcomes[name]
    assert found.table and found.words and found.picture is not None
    assert all(list(row) == list(found.table[0]) for row in found.table)
    assert all(len(rows) for rows in found.more.values())
    for path in save(found, tmp_path, {}, "the command"):
        assert path.stat().st_size > 0
    for row in found.rows.values():
        assert np.isfinite(row.values).all()


@pytest.mark.parametrize("name", OF_PAPER)
def test_every_experiment_says_which_study_it_is_and_has_both_sizes(name):
    settings = compose([experiment(name)])
    assert str(settings["figure"]) == name
    assert len(settings["sizes"]["quick"]) >= 3 and len(settings["sizes"]["full"]) >= 5  # intervals; claims
    assert {choice(policy)[1]["name"] for policy in settings["policies"]} <= set(choices("policy"))


def test_a_figure_is_remade_from_runs(tmp_path):
    work = Work(tiny("15", loads=[1.0, 1.5, 1.75, 2.0]), 1, tmp_path)
    found = study("15")(work)
    assert set(found.rows) == {"C18", "C19", "C20", "C21", "C22", "C23", "C24", "C25"}
    tps = {p: work.grid().values("tps_within_slo", p, 1.0) for p in ("load_balance", "lmetric", "bailian", "smetric")}
    strongest = max((values for p, values in tps.items() if p != "smetric"), key=np.mean)
    assert found.rows["C22"].values.tolist() == (tps["smetric"] / strongest - 1).tolist()
    assert found.rows["C18"].values.min() >= 1 and found.rows["C18"].values.max() <= 2  # two instances
    heat = found.more["heat"]
    assert len(heat) == 4 * 2 and len(heat[0]) == 2 + 4  # policies x instances; four windows of 30 s


def test_sent_tokens_are_all_tokens_of_the_minute():
    result = evaluate("round_robin", instances=2, warm_up_s=60.0, window_s=120.0)
    sent = np.array(result.record()["curves"]["sent_tokens"])
    assert sent.shape == (3, 2)
    requests, minute = result.trace.requests, result.outcome["arrival_s"] // 60
    for m in range(3):
        assert sent[m].sum() == (requests["prompt"].astype(int) + requests["output"])[minute == m].sum()


def test_max_over_mean_leaves_out_windows_without_load():
    assert max_over_mean(np.array([[1.0, 3.0], [0, 0], [2, 2]])).tolist() == [1.5, 1.0]


def test_the_sweeps_of_the_guards_are_those_of_the_experiment():
    settings = compose([experiment("25")])
    labels = {choice(policy)[0] for policy in settings["policies"]}
    assert labels == {label for sweep in SWEEPS.values() for label in sweep.values()}


def test_the_later_policies_are_those_of_the_experiment():
    settings = compose([experiment("later")])
    guarded = {"name": f"{GUARD}:smetric_v2_overload", "global_hits": 1}
    assert V2 in {choice(policy)[0] for policy in settings["policies"]} and choice(guarded)[0] == GUARDED


def test_the_guard_of_the_ablation_stays_on_a_slow_instance_that_the_later_policy_leaves():
    same = {"instances": 4, "warm_up_s": 60.0, "window_s": 240.0, "load": 2.5}
    later = evaluate({"name": "smetric_v2", "slack": 0.5}, **same)
    guarded = evaluate(f"{GUARD}:smetric_v2_overload", **{"policy.overload": float("inf")}, **same)
    assert later["overload_fallbacks"] > 0 and guarded["overload_fallbacks"] == 0
