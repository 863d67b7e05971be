"""Grids of runs: their cells, what is picked from them, and their errors."""

import numpy as np
import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.grid import Runs, cells, run_grid, seeds_of

SMALL = {"instances": 2, "warm_up_s": 10.0, "window_s": 40.0, "policies": ["smetric", "load_balance"],
         "loads": [1.0, 2.0], "seeds": [0, 1]}  # fmt: skip


def small(**changes):
    return compose([], {**SMALL, **changes})


def test_every_combination_is_a_cell():
    settings = small() | {"vary": {"cluster.global_tier": [0.0, 3.2], "workload.turns_median": [4, 8]}}
    found = list(cells(settings))
    assert [tuple(cell.values()) for cell, _ in found] == [(0.0, 4), (0.0, 8), (3.2, 4), (3.2, 8)]
    assert found[1][1]["cluster"]["global_tier"] == 0 and found[1][1]["workload"]["turns_median"] == 8
    assert "turns_median" not in settings["workload"]  # the settings themselves stay


def test_the_grid_runs_all_and_finds_it_again(tmp_path):
    settings, told = small() | {"vary": {"cluster.global_tier": [0.0, 3.2]}}, []
    runs = run_grid(settings, jobs=1, store=tmp_path, progress=lambda done, of: told.append((done, of)))
    assert len(runs) == 16 and told[-1] == (16, 16) and told[0][0] == 0
    assert runs.axis("cluster.global_tier") == [0.0, 3.2] and runs.seeds == [0, 1] and runs.loads == [1, 2]
    none, full = ({"cluster.global_tier": tier} for tier in (0.0, 3.2))
    assert runs.values("global_hit_ratio", "smetric", 1.0, none).max() == 0
    assert runs.values("global_hit_ratio", "load_balance", 1.0, full).min() > 0
    again = run_grid(settings, jobs=1, store=tmp_path, progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (16, 16) and told[-2] != (15, 16)  # nothing was run
    assert [r["scores"] for r in again.records] == [r["scores"] for r in runs.records]


def record(policy, load, seed, tps):
    scores = {"tps_within_slo": tps, "seed": seed, "local_hit_ratio": load / 10}
    return {"policy": policy, "load": load, "scores": scores, "cell": {}, "curves": {"ttft_s": [seed, 2.0]}}


@pytest.fixture
def runs():
    tps = {"smetric": {1.0: (10, 20), 2.0: (30, 10)}, "bailian": {1.0: (20, 20), 2.0: (10, 10)}}
    made = [record(p, load, s, v[s]) for p, loads in tps.items() for load, v in loads.items() for s in (0, 1)]
    return Runs(made, "tps_within_slo")


def test_maxima_are_taken_per_seed(runs):
    assert runs.maximum("smetric").tolist() == [30, 20]
    assert runs.gain("smetric", "bailian").tolist() == [0.5, 0.0]
    assert runs.strongest("smetric") == "bailian"


def test_the_peak_is_the_load_of_the_highest_mean(runs):
    lower = Runs([r for r in runs.records if r["policy"] == "smetric"], "tps_within_slo")
    assert lower.peak_load() == 2.0 and lower.at_peak("local_hit_ratio", "smetric").tolist() == [0.2, 0.2]


def test_curves_are_averaged_over_the_seeds(runs):
    assert runs.curve("ttft_s", "smetric", 1.0).tolist() == [0.5, 2.0]


def test_sizes_choose_the_seeds():
    settings = small() | {"sizes": {"quick": [7], "full": [7, 8]}}
    assert seeds_of(settings) == [7]
    assert seeds_of(settings | {"size": "full"}) == [7, 8]
    assert seeds_of(settings | {"sizes": {}}) == [0, 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vary": {"cluster.globaltier": [1]}}, "of vary is 'cluster.globaltier' (did you mean cluster.global_tier?)"),
        ({"vary": {"nothing.tier": [1]}}, "'nothing' is no group"),
        ({"vary": {"cluster.global_tier": 3}}, "vary.cluster.global_tier is 3, allowed: a list"),
        ({"size": "large"}, "size is 'large', allowed: quick, full"),
    ],
)
def test_bad_grids_are_refused_with_the_key(changes, words):
    with pytest.raises(SmetricError) as error:
        run_grid(small() | changes, jobs=1, store=None)
    assert words in str(error.value)


def test_what_no_run_has_is_refused(runs):
    with pytest.raises(SmetricError, match="no run has"):
        runs.values("tps_within_slo", "smetric", 9.0)


def test_seeds_are_in_order(runs):
    assert np.array_equal(runs.seeds, [0, 1])
