"""Comparisons: statistics on made-up records, and real small sweeps in one process and two."""

import csv
import json

import numpy as np
import pytest
import small

from smetric_gym import compare
from smetric_gym.errors import SmetricError
from smetric_gym.experiment import compare as module
from smetric_gym.experiment.comparison import Comparison
from smetric_gym.experiment.settings import compose
from smetric_gym.experiment.store import as_json
from smetric_gym.scoring import SCORES

SMALL = {"instances": 2, "warm_up_s": 10.0, "window_s": 40.0}


def record(policy, load, seed, tps, **scores):
    values = (
        dict.fromkeys(SCORES, 0.5) | {"tps_within_slo": tps, "seed": seed, "saturation": "stable"} | scores
    )
    curves = {"ttft_s": [0.1, 1.0], "ttft_of_limit": [0.1, 2.0], "tpot_s": [0.01, 0.1],
              "edges_s": [0, 30, 60], "in_flight_tokens": [[10, 20], [0, 40]]}  # fmt: skip
    settings = {"slo": {"tpot_s": 0.03}, "warm_up_s": 30.0}
    return {
        "policy": policy,
        "load": load,
        "scores": values,
        "curves": curves,
        "settings": settings,
        "trace": {},
    }


TPS = {  # policy: load: values of seeds 0 and 1
    "a": {1.0: (100, 110), 1.5: (150, 130), 2.0: (120, 140)},  # maxima 150 and 140
    "b": {1.0: (100, 90), 1.5: (100, 100), 2.0: (80, 70)},  # maxima 100 and 100
    "c": {1.0: (10, 10), 1.5: (20, 20), 2.0: (30, 30)},  # maxima 30 at the edge
}


@pytest.fixture
def made():
    records = [
        record(policy, load, seed, values[seed], local_hit_ratio=load / 10, slo_attainment=0.9)
        for policy, loads in TPS.items()
        for load, values in loads.items()
        for seed in (0, 1)
    ]
    return Comparison(records)


def test_the_maximum_is_taken_per_seed_then_averaged(made):
    a, b, c = made.summary()
    assert (a["policy"], b["policy"], c["policy"]) == ("a", "b", "c")
    assert a["max_tps_within_slo"] == 145 and a["spread"] == pytest.approx(np.sqrt(50))
    assert a["load_at_max"] == 1.75 and a["max_at_edge"]
    assert (
        b["load_at_max"] == 1.25 and not b["max_at_edge"]
    )  # seed 0 has its maximum at 1.0, the first of equals
    assert a["local_hit_ratio"] == pytest.approx(0.175) and a["outside_slo"] == pytest.approx(0.1)


def test_differences_are_paired_to_the_best_other_or_the_baseline(made):
    a, b, c = made.summary()
    assert (a["compared_to"], b["compared_to"], c["compared_to"]) == ("b", "a", "a")
    assert a["difference"] == pytest.approx(0.45) and a["difference_spread"] == pytest.approx(
        np.std([0.5, 0.4], ddof=1)
    )
    based = {row["policy"]: row for row in Comparison(made.records, baseline="c").summary()}
    assert based["a"]["compared_to"] == "c" and based["c"]["compared_to"] == ""
    assert based["b"]["difference"] == pytest.approx(100 / 30 - 1)
    with pytest.raises(SmetricError, match="baseline is 'd'"):
        Comparison(made.records, baseline="d")


def test_files_and_figures(made, tmp_path):
    made.save(tmp_path)
    figures = made.draw(tmp_path)
    assert [path.name for path in figures] == ["load.png", "hits.png", "heat.png", "latency.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000 for path in figures)
    with open(tmp_path / "runs.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 18 and float(rows[0]["tps_within_slo"]) == 100
    assert json.loads((tmp_path / "comparison.json").read_bytes())["summary"][0]["max_tps_within_slo"] == 145
    assert len((tmp_path / "load.csv").read_text().splitlines()) == 19
    text = made.table()
    assert "145" in text and "1.5-2+" in text and "+45.0 %" in text
    assert "Maximum over the loads, taken per seed, then averaged" in text
    assert "+: some seed has it at the highest load that was run" in text


def test_a_target_has_its_own_unit_and_more_of_it_is_better(made, tmp_path):
    of_share = Comparison(made.records, target="slo_attainment")
    assert "slo attainment, mean" in of_share.table() and "90.0 %" in of_share.table()
    of_share.draw(tmp_path)
    assert "0.9" in (tmp_path / "load.csv").read_text()
    for target, words in (("tps_within_sol", "did you mean tps_within_slo"), ("ttft_p99_s", "^target is 'ttft_p99_s'")):
        with pytest.raises(SmetricError, match=words):
            Comparison(made.records, target=target)


def test_a_difference_to_nothing_is_left_out():
    none = Comparison([record("a", 1.0, 0, 5.0), record("b", 1.0, 0, 0.0)])
    assert np.isnan(none.summary()[0]["difference"]) and "inf" not in none.table() and "-100.0 %" in none.table()


def test_one_policy_alone_has_no_difference():
    only = Comparison([record("a", 1.0, 0, 5.0)])
    assert only.summary()[0]["compared_to"] == "" and "nan" not in only.table()


def test_the_plan_puts_policies_innermost_and_names_parameters():
    runs = module.plan(compose(), ["smetric", {"name": "smetric", "overload": 4}], [1, 2], [0])
    assert [(r["label"], r["load"]) for r in runs] == [
        ("smetric", 1), ("smetric(overload=4)", 1), ("smetric", 2), ("smetric(overload=4)", 2)]  # fmt: skip
    assert runs[1]["policy"]["overload"] == 4 and runs[0]["policy"]["overload"] == 2


@pytest.mark.parametrize(
    ("policies", "loads", "words"),
    [
        ([], [1], "policies is"),
        (["smetric"], [], "loads is"),
        ("smetric", [1], "policies is 'smetric'"),
        (["smetric", "smetric"], [1], "smetric more than once"),
        (["smetric", "bailan"], [1], "did you mean bailian"),
        ([{"name": "smetric", "overlod": 1}], [1], "did you mean overload"),
        ([3], [1], "policies has 3"),
        (["nowhere.py:f"], [1], "nowhere.py"),
        (["nowhere.py"], [1], "names no function, allowed: nowhere.py:FUNCTION"),
        ([{"nme": "smetric"}], [1], "a mapping of nme, without the key name"),
        (["smetric"], [1, 2, 1.0], "loads has 1.0 more than once"),
        (["smetric"], [1, -1], "load is -1"),
        (["smetric"], [1, 1e6], "about 1.4e"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_before_anything_runs(policies, loads, words):
    with pytest.raises(SmetricError, match=words):
        module.plan(compose(), policies, loads, [0])


@pytest.mark.parametrize(
    ("overrides", "how", "words"),
    [
        (["workload=file", "workload.path=trace.jsonl"], {}, "load_by=sessions only thins"),
        (["workload=file", "workload.path=trace.jsonl", "workload.frmat=weka"], {}, "did you mean format"),
        (["workload.single_share=2"], {}, "single_share is 2"),
        (["cluster.write=al"], {}, "cluster.write is 'al'"),
        ([], {"baseline": "bailan"}, "baseline is 'bailan'"),
        ([], {"target": "tps_within"}, "did you mean tps_within_slo"),
        ([], {"trace": small.sessions()}, "load_by=sessions only thins"),
    ],
)
def test_every_load_and_what_follows_the_runs_is_checked_before_them(overrides, how, words):
    with pytest.raises(SmetricError, match=words):
        module.plan(compose(overrides), ["smetric"], [1.0, 2.0], [0], **how)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"load": 2}, "allowed: loads="),
        ({"force": "yes"}, "force is 'yes'"),
        ({"workload": lambda seed: None}, "only environments take"),
    ],
)
def test_keys_that_compare_would_not_heed_are_refused(given, words):
    with pytest.raises(SmetricError, match=words):
        compare(["round_robin"], loads=[1.0], seeds=[0], **SMALL, **given)


def test_a_trace_comes_at_every_load():
    trace = small.sessions(count=40)
    how = {"seeds": [0], "instances": 2, "warm_up_s": 0.0, "window_s": 60.0, "workload": trace}
    found = compare(["round_robin"], loads=[0.5, 1.0], **how)
    half, whole = (found.record("round_robin", load, 0)["scores"]["requests"] for load in (0.5, 1.0))
    assert half == whole / 2 == len(trace) / 2


def test_policies_meet_the_same_requests_and_jobs_do_not_change_results(tmp_path):
    how = {
        "policies": ["smetric", "round_robin"],
        "loads": [1.0],
        "seeds": [0],
        **SMALL,
        "arrival_mode": "open",
    }
    one = compare(**how, jobs=1)
    two = compare(**how, jobs=2, store=tmp_path)
    assert as_json(one.records) == as_json(two.records)  # a nan of this process is a null of the store
    smetric, round_robin = (r["scores"] for r in one.records)
    assert smetric["requests"] == round_robin["requests"] > 5
    assert smetric["ideal_reuse_ratio"] == round_robin["ideal_reuse_ratio"]


def test_a_stopped_sweep_keeps_its_runs_and_goes_on(tmp_path):
    how = {
        "policies": ["smetric", "round_robin"],
        "loads": [1.0, 1.5],
        "seeds": [0],
        **SMALL,
        "jobs": 1,
        "store": tmp_path,
    }

    def stop_after_two(done, of):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(**how, progress=stop_after_two)
    assert len(list(tmp_path.glob("*.json"))) == 2
    seen = []
    compare(**how, progress=lambda done, of: seen.append(done))
    assert seen == [2, 3, 4]
    seen.clear()
    compare(**how, force=True, progress=lambda done, of: seen.append(done))
    assert seen == [0, 1, 2, 3, 4]


def test_functions_of_python_can_be_compared():
    def first(view, request, memory, params):
        return 0

    found = compare([first, "round_robin"], loads=[1.0], seeds=[0], **SMALL)
    assert found.policies == ["first", "round_robin"]
    assert found.record("first", 1.0, 0)["scores"]["largest_instance_share"] == 1.0
