"""Question 5 on a tiny cluster: a map of 2 x 2 and a sweep."""

from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.cases import cases_of
from smetric_gym.reproduce.grid import changed
from smetric_gym.reproduce.questions.limits import CLUSTERS, SWEEP, WORKLOADS, question_5
from smetric_gym.reproduce.study import Work

TINY = {"instances": 2, "warm_up_s": 60.0, "window_s": 120.0, "seeds": [0], "loads": [0.5, 1.0],
        "policies": ["load_balance", "smetric"]}  # fmt: skip
CASES = {
    WORKLOADS: {"agents": {}, "no history": {"workload.stateless_share": 1.0}},
    CLUSTERS: {"full tier": {}, "no tier": {"cluster.global_tier": 0.0}},
    f"{SWEEP}age of the view (s)": {"0": {}, "1": {"cluster.view_lag_s": 1.0}},
}


def test_the_study(tmp_path, monkeypatch):
    monkeypatch.setattr("smetric_gym.reproduce.cases.ROUNDS", 0)
    outcome = question_5(Work(compose([], TINY) | {"cases": CASES}, jobs=1, store=tmp_path))
    places = [(row["workload"], row["cluster"]) for row in outcome.table]
    assert places == [(w, c) for w in ("agents", "no history") for c in ("full tier", "no tier")]
    gain = {place: row["gain"] for place, row in zip(places, outcome.table, strict=True)}
    assert gain["agents", "no tier"] > gain["no history", "no tier"]  # nothing to stick to without a history
    swept = outcome.more["sweeps"]
    assert [row["value"] for row in swept] == ["0", "1"] and swept[0]["gain"] == gain["agents", "full tier"]
    assert outcome.picture is not None and any("age of the view" in sentence for sentence in outcome.words)


def test_all_cases_of_the_experiment_exist():
    settings = compose(["experiment=q5"])
    cases = cases_of(settings)
    assert all(changed(settings, case.changes) for case in cases)
    for axis in {case.axis for case in cases}:
        assert sum(not case.changes for case in cases if case.axis == axis) == 1, axis  # the set-up of the figures
