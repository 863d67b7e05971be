"""What the page says: about a moment, about a choice, about a session, about two runs."""

from dataclasses import replace

import numpy as np
import pytest

from smetric_gym.agents.policy import POLICIES
from smetric_gym.cluster.state import Stage
from smetric_gym.play import words
from smetric_gym.play.journey import journey, told
from smetric_gym.play.scenario import Router, Scenario, record
from smetric_gym.play.sentence import comparison, what_happens
from smetric_gym.play.why import SMETRIC, explain, scores_of

SMALL = Scenario(instances=4, load=1.5, warm_up_s=60.0, window_s=120.0)
COMPARE_SCORES = ("bailian", "lmetric", "lmetric_v1", "load_balance", "vllm", "dynamo", "dynamo_cost")


def test_numbers_in_words():
    assert [words.count(n, "session") for n in (0, 1, 4, 40)] == [
        "no sessions", "one session", "four sessions", "40 sessions",
    ]  # fmt: skip
    assert [words.tokens(n) for n in (12, 4100, 999_600)] == ["12", "4.1k", "1M"]
    assert words.listed(["a", "b", "c"]) == "a, b and c"


# -- the moment


@pytest.fixture
def calm():
    """A moment with everything even: instance i has one request in flight, of its own session."""
    run = record(SMALL, Router("smetric"))
    moment = run.visit(60)
    view = moment.view.copy()
    view.unprefilled_s, view.alive = 0, 1
    view.in_flight = view.running = 1
    stage, place = np.zeros_like(moment.stage), np.full_like(moment.place, -1)
    stage[:4], place[:4] = Stage.RUNNING, np.arange(4)
    one, none = np.ones(4, dtype=int), np.zeros(4, dtype=int)
    tokens = np.full(4, 1000.0)
    even = replace(
        moment, view=view, stage=stage, place=place, waiting=none, loading=none, prefill=none, decode=one,
        tokens=tokens, stalled_s=np.zeros(4),
    )  # fmt: skip
    return run, even


def test_an_even_cluster_is_called_so(calm):
    run, moment = calm
    assert what_happens(run, moment).startswith("No instance drowns: the fullest, 0, has 1.0 times the mean")


def test_an_empty_cluster_waits_for_work(calm):
    run, moment = calm
    assert "waits for work" in what_happens(run, replace(moment, tokens=np.zeros(4)))


def test_a_drowning_instance_is_named_with_its_share_and_its_cause(calm):
    run, moment = calm
    requests = run.setup.trace.requests.copy()
    requests["prompt"][:4], requests["prompt"][3] = 1000, 90_000
    run.setup.trace.requests, before = requests, run.setup.trace.requests
    starts = run.starts.copy()
    run.starts[requests["session"][3]] = 3
    view = moment.view.copy()
    view.unprefilled_s[3] = 30
    waiting, decode = np.array([0, 0, 0, 2]), np.array([1, 1, 0, 1])
    hot = replace(moment, view=view, tokens=np.array([1e3, 1e3, 1e3, 9e4]), waiting=waiting, decode=decode)
    try:
        said = what_happens(run, hot)
    finally:
        run.setup.trace.requests = before
        run.starts[:] = starts
    assert said == (
        "Instance 3 holds 97 % of all in-flight tokens (an equal share is 25 %): one session that started on it grew "
        "long (90k tokens a request there, 1k elsewhere); two requests wait, 30.0 s of prefill lie before it and "
        "one instance has nothing to do."
    )


def test_work_that_comes_too_fast_and_fetches_are_told_apart(calm):
    run, moment = calm
    view = moment.view.copy()
    view.unprefilled_s = 20
    late = what_happens(run, replace(moment, view=view, waiting=np.full(4, 3)))
    assert late == (
        "Work comes faster than it is done: twelve requests wait, and an instance has 20.0 s of prefill before it on "
        "average."
    )
    fetching = what_happens(run, replace(moment, stalled_s=np.array([0.5, 0.25, 0, 0])))
    assert fetching.startswith("Two instances of 4 stand still until KV arrives from the global tier (at most 0.5 s")


def test_an_instance_that_is_down_comes_first(calm):
    run, moment = calm
    said = what_happens(run, replace(moment, alive=np.array([True, False, True, True])))
    assert said.startswith("Instance 1 is down, and what was there is computed again. ")


# -- the choice


@pytest.mark.parametrize("name", COMPARE_SCORES)
def test_the_scores_shown_are_those_that_decided(name):
    run = record(SMALL, Router(name))
    for k in range(3, len(run), 31):
        moment = run.visit(k)
        score = scores_of(run.policy, moment)
        assert score is not None and score[moment.chosen] == score[moment.view.alive > 0].min()
        assert f"instance {moment.chosen} has the lowest score" in explain(run.policy, moment).sentence


@pytest.mark.parametrize("name", [*SMETRIC, "smetric_v2"])
def test_smetric_is_explained_by_its_branches(name):
    run = record(replace(SMALL, load=2.0), Router(name))
    reasons = run.scored.all["reason"]
    seen = set()
    for k in range(0, len(run), 3):
        moment = run.visit(k)
        why = explain(run.policy, moment)
        words = why.sentence.split(":")[0]
        seen.add(words)
        expected = {1: "The session stays", 2: "A first turn has no cache to follow"}.get(int(reasons[moment.request]))
        if expected:
            assert words == expected
        else:
            assert words in ("The session moves", "The session is placed anew and stays by chance")
            assert not why.checks[-1].holds and f"instance {moment.chosen} has the least load" in why.sentence
    assert {"The session stays", "A first turn has no cache to follow"} <= seen


def test_the_guards_show_their_numbers():
    run = record(SMALL, Router("smetric", (("overload", 1.5),)))
    follow_up = next(m for k in range(40, len(run)) if (m := run.visit(k)).asked.messages > 0)
    why = explain(run.policy, follow_up)
    assert "OVERLOAD x mean = 1.5 x " in why.checks[1].words
    assert any("(chosen)" in str(row[0]) for row in why.rows)


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "learned"])
def test_every_policy_has_an_explanation(name):
    run = record(Scenario(instances=2, warm_up_s=20.0, window_s=40.0), Router(name))
    why = explain(run.policy, run.visit(len(run) // 2))
    assert why.sentence.endswith(".") and len(why.columns) == len(why.rows[0])


# -- the session and the runs


def test_a_journey_has_every_request_of_the_session_in_order():
    run = record(SMALL, Router("session_sticky"))
    rows = run.setup.trace.requests
    session = np.bincount(rows["session"][run.requests]).argmax()
    request = int(np.flatnonzero(rows["session"] == session)[0])
    stops = journey(run, request)
    assert len(stops) == (rows["session"][run.requests] == session).sum() > 2
    assert [s.arrival_s for s in stops] == sorted(s.arrival_s for s in stops)
    assert len({s.instance for s in stops}) == 1
    assert "on one instance, no moves" in told(run, stops)


def test_the_comparison_names_the_better_one_and_how_they_differ():
    a, b = (record(SMALL, Router(name)) for name in ("smetric", "random_choice"))
    said = comparison(a, b)
    assert said == comparison(b, a)
    better = a if a.scores["tps_within_slo"] > b.scores["tps_within_slo"] else b
    assert said.startswith(f"{better.label} serves ")
    assert f"finds {100 * better.scores['local_hit_ratio']:.0f} % of the prompt tokens" in said
    assert comparison(a, a).startswith("Both routers are smetric")
