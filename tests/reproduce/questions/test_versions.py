"""Question 6: tuning on other seeds, and the table."""

import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.questions.versions import _candidates, _setting, question_6
from smetric_gym.reproduce.study import Work


def settings_of(**contestants):
    changes = {"instances": 2, "warm_up_s": 60.0, "window_s": 120.0, "loads": [1.0, 2.0]}
    settings = compose(["experiment=q6"], changes) | {"sizes": {"quick": [0]}, "global_tiers": [3.2]}
    return settings | {"tuning": {"seeds": [100], "loads": [1.0]}, "contestants": contestants}


def test_candidates_are_the_default_and_every_combination():
    found = _candidates("x", {"name": "smetric", "grid": {"overload": [1, 2], "hit_ratio": [0.1, 0.2]}})
    assert len(found) == 5 and found[0] == {"name": "smetric"}
    assert found[4] == {"name": "smetric", "overload": 2, "hit_ratio": 0.2}
    assert [_setting(policy, found[0]) for policy in (found[0], found[4])] == ["default", "overload=2, hit_ratio=0.2"]
    assert _candidates("x", {"name": "lmetric"}) == [{"name": "lmetric"}]
    with pytest.raises(SmetricError, match="contestants.x.grid.lam is 0.5, allowed: a list"):
        _candidates("x", {"name": "bailian", "grid": {"lam": 0.5}})


def test_the_study_of_a_small_cluster(tmp_path):
    bailian = {"name": "bailian", "grid": {"lam": [0.0, 0.7]}}
    settings = settings_of(SMetric={"name": "smetric"}, Bailian=bailian)
    outcome = question_6(Work(settings, 1, tmp_path))
    rows = {row["policy"]: row for row in outcome.table}
    assert rows["SMetric"]["over_smetric"] == 0 and rows["SMetric"]["setting"] == "default"
    tried = [row for row in outcome.more["tried"] if row["policy"] == "Bailian"]
    chosen = [row for row in tried if row["chosen"]]
    name = "max_tps_within_slo"
    assert len(tried) == 3 and len(chosen) == 1 and chosen[0][name] == max(row[name] for row in tried)
    assert rows["Bailian"]["setting"] == chosen[0]["setting"]
    assert len(outcome.more["loads"]) == 4 and outcome.picture is not None and outcome.words


def test_nobody_is_tuned_on_the_seeds_of_the_evaluation(tmp_path):
    settings = settings_of(SMetric={"name": "smetric"}) | {"tuning": {"seeds": [0], "loads": [1.0]}}
    with pytest.raises(SmetricError, match="tuning.seeds"):
        question_6(Work(settings, 1, tmp_path))
