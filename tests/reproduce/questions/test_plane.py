"""Question 2: the plane of a small cluster, its default point, and its sentences."""

from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce import cases
from smetric_gym.reproduce.questions.plane import question_2
from smetric_gym.reproduce.study import Work


def test_the_plane_of_a_small_cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(cases, "LADDER", ())  # no further loads
    changes = {"instances": 2, "warm_up_s": 60.0, "window_s": 120.0, "loads": [1.0, 1.5, 2.0]}
    settings = compose(["experiment=q2"], changes) | {"sizes": {"quick": [0, 1, 2]}}
    settings["plane"] = {"quick": {"overload": [1, 2], "hit_ratio": [0.5]}}
    settings["cases"] = {
        "corner": {"no tier": {"cluster.global_tier": 0.0}, "full tier": {"cluster.global_tier": 3.2}},
        "eviction": {"LRU": {}, "blocks x 0.5": {"cluster.kv_blocks": 9218}},  # stands for another eviction policy
    }
    outcome = question_2(Work(settings, 1, tmp_path))
    places = {(row["eviction"], row["corner"], row["overload"], row["hit_ratio"]) for row in outcome.table}
    assert len(outcome.table) == len(places) == 8
    assert all(row["change"] == 0 for row in outcome.table if row["overload"] == 2)
    assert len({row["maximum"] for row in outcome.table}) > 4
    assert sum("the plane spans" in words for words in outcome.words) == 2  # of the first eviction policy
    assert "blocks x 0.5 instead of LRU at the default point: no tier" in outcome.words[-1]
    assert outcome.picture is not None
