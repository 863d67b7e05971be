"""A recording is the run that `evaluate` makes, and a visit shows it as it was, in any order."""

import numpy as np
import pytest

from smetric_gym import evaluate
from smetric_gym.errors import SmetricError
from smetric_gym.play.clock import Clock
from smetric_gym.play.moment import SHARED, owners
from smetric_gym.play.scenario import Router, Scenario, record

SMALL = Scenario(instances=4, load=1.5, warm_up_s=60.0, window_s=120.0)
APART = Scenario(cluster="disaggregated", instances=3, load=1.5, warm_up_s=60.0, window_s=60.0, loads="async")


@pytest.mark.parametrize("name", ["smetric", "random_choice"])
def test_a_recording_has_the_scores_of_evaluate(name):
    run = record(SMALL, Router(name))
    scores = evaluate(name, instances=4, load=1.5, warm_up_s=60.0, window_s=120.0)
    assert dict(run.scores) == pytest.approx(dict(scores), nan_ok=True)


@pytest.mark.parametrize("scenario", [SMALL, APART])
def test_a_moment_counts_what_the_router_sees(scenario):
    run = record(scenario, Router("load_balance"))
    for k in range(0, len(run), 37):
        moment, n = run.visit(k), scenario.instances
        assert (moment.request, moment.chosen) == (run.requests[k], run.choices[k])
        assert moment.time_s == run.times_s[k]
        np.testing.assert_array_equal(moment.in_flight[:n], moment.view.in_flight)
        np.testing.assert_array_equal((moment.prefill + moment.decode)[:n], moment.view.running)
        np.testing.assert_array_equal(moment.tokens[:n], moment.view.in_flight_tokens)
        used = [sum(part.used for part in parts) for parts in moment.segments]
        np.testing.assert_allclose(used[:n], moment.view.kv_use, atol=1e-6)
        assert all(sum(part.used + part.idle for part in parts) <= 1 + 1e-9 for parts in moment.segments)


def test_prefill_instances_do_not_decode_and_the_pool_does():
    run = record(APART, Router("smetric"))
    moments = [run.visit(k) for k in range(0, len(run), 11)]
    assert moments[0].roles == ["prefill"] * 3 + ["decode"] * 3
    assert sum(m.decode[:3].sum() for m in moments) == 0 < sum(m.decode[3:].sum() for m in moments)


def test_visits_do_not_depend_on_their_order():
    run = record(SMALL, Router("smetric"))
    there = {k: run.visit(k) for k in (5, 90, 91, 40)}
    for k in (91, 5, 40, 90):
        again = run.visit(k)
        assert again.view.tobytes() == there[k].view.tobytes()
        assert again.segments == there[k].segments
        np.testing.assert_array_equal(again.memory, there[k].memory)


def test_a_decision_that_does_not_exist_is_refused():
    run = record(SMALL, Router("smetric"))
    with pytest.raises(SmetricError, match=f"decision {len(run)} does not exist, allowed: 0 to {len(run) - 1}"):
        run.visit(len(run))


def test_the_time_finds_its_decision():
    run = record(SMALL, Router("smetric"))
    assert run.index_at(-1) == 0
    assert run.index_at(1e9) == len(run) - 1
    assert run.times_s[run.index_at(run.times_s[17])] == run.times_s[17]


def test_the_worst_moment_is_inside_the_scored_window_and_uneven():
    run = record(SMALL, Router("always_busiest"))
    assert 60 <= run.worst_s <= 180 + 5
    tokens = run.visit(run.index_at(run.worst_s)).tokens
    assert tokens.max() > 2 * tokens.mean()


def test_met_agrees_with_the_scores_and_covers_the_warm_up():
    run = record(SMALL, Router("smetric"))
    np.testing.assert_array_equal(run.met[run.scored.mask], run.scored.met)
    assert run.met[~run.scored.mask].any()


def test_every_session_starts_where_its_first_request_went():
    run = record(SMALL, Router("smetric"))
    sessions = run.setup.trace.requests["session"][run.requests]
    for session in np.unique(sessions)[:20]:
        assert run.starts[session] == run.choices[np.flatnonzero(sessions == session)[0]]


def test_owners_are_the_first_readers_and_system_prompts_are_shared():
    trace = record(SMALL, Router("smetric")).setup.trace
    owner, rows = owners(trace), trace.requests
    leaves = owner[rows["node"]]
    assert (leaves <= rows["session"]).all()  # sessions are numbered as they appear
    assert (leaves == rows["session"]).mean() > 0.9
    assert owner[0] == SHARED and (owner == SHARED).sum() < len(owner) / 4


def test_the_clock_stays_inside_the_runs():
    pair = [record(SMALL, Router(name)) for name in ("smetric", "load_balance")]
    clock = Clock().follow(pair)
    assert clock.time_s == pytest.approx(min(pair[0].worst_s, clock.end_s))
    clock.go(1e9)
    assert clock.ended and clock.time_s == clock.end_s
    clock.forward(-1e9)
    assert clock.time_s == 0
    clock.step()
    assert clock.time_s == min(run.times_s[run.times_s > 0].min() for run in pair)
    clock.worst(1)
    assert clock.time_s == pytest.approx(min(pair[1].worst_s, clock.end_s))
    clock.go(100.0)
    assert clock.follow(pair[::-1]).time_s == 100.0  # other runs, the same time
