"""Cases: how they are written, shared runs, and loads that are added until maxima lie inside."""

import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.cases import Case, at_edge, cases_of, run_cases
from smetric_gym.reproduce.study import Work

HERE = Case("tier", "as it is")
NONE = Case("tier", "none", {"cluster.global_tier": 0.0})


def work(**changes):
    small = {"instances": 2, "policies": ["smetric", "load_balance"], "loads": [1.0, 1.25], "seeds": [0]}
    return Work(compose([], {**small, **changes}), jobs=1, store=None)


def with_peak_at(peak, made):
    """Runs that are not made: the target is highest at one load."""

    def records(_, jobs):
        made.extend(jobs)
        scores = [{"tps_within_slo": -abs(job["load"] - peak), "tps": job["load"], "seed": job["seed"]} for job in jobs]
        return [{"load": job["load"], "scores": one} for job, one in zip(jobs, scores, strict=True)]

    return records


def test_cases_are_read_in_their_order():
    settings = {"cases": {"tier": {"as it is": {}, "none": {"cluster.global_tier": 0.0}}}}
    assert cases_of(settings) == [HERE, NONE]
    both = NONE + Case("load", "async", {"cluster.loads": "async"})
    assert both.name == "none, async" and both.changes == {"cluster.global_tier": 0.0, "cluster.loads": "async"}


WRONG = [({"tier": [0.0]}, "cases.tier is"), ({"tier": {"none": 0.0}}, "cases.tier.none is")]


@pytest.mark.parametrize("cases, words", WRONG)
def test_cases_written_in_another_way_are_refused(cases, words):
    with pytest.raises(SmetricError, match=words):
        cases_of({"cases": cases})


def test_loads_are_added_until_the_maximum_lies_inside():
    made = []
    (runs,) = run_cases(work(), [HERE], records_of=with_peak_at(1.9, made))
    assert runs.loads == [1.0, 1.25, 1.5, 1.75, 2.0, 2.5] and len(made) == 12  # 2 is the best, and needs a neighbour
    assert not at_edge(runs)
    (runs,) = run_cases(work(), [HERE], records_of=with_peak_at(0.8, []))
    assert runs.loads == [0.5, 0.75, 1.0, 1.25]


def test_another_target_asks_for_loads_of_its_own():
    (runs,) = run_cases(work(), [HERE], ["tps"], records_of=with_peak_at(1.1, []))
    assert runs.loads[-1] > 2  # tps only rises


def test_a_run_that_cases_share_is_made_once():
    made = []
    again = Case("tier", "said again", {"cluster.global_tier": 3.2})
    first, second, other = run_cases(work(), [HERE, again, NONE], records_of=with_peak_at(1.1, made))
    assert first.records == second.records and len(first) == len(other)
    assert len(made) == len(first) + len(other)


def test_a_key_that_does_not_exist_is_refused():
    with pytest.raises(SmetricError, match="cluster.global_teir"):
        run_cases(work(), [Case("tier", "none", {"cluster.global_teir": 0.0})], records_of=with_peak_at(1, []))
