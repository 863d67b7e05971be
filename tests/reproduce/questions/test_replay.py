"""Replays from a decision: nothing of them stays, futures differ, and a bad choice is seen to be one."""

import numpy as np
import pytest

from smetric_gym.agents.memory import Reason
from smetric_gym.agents.policy import load_policy
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import prepare
from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.questions.replay import Horizon, Rerun, delay, halves

SMALL = {"instances": 2, "warm_up_s": 60.0, "window_s": 240.0, "load": 1.5}


def rerun(**changes):
    setup = prepare(compose([], SMALL | changes))
    return Rerun(setup, load_policy("smetric"), Horizon(30.0, 30.0, 2))


def middle(run):
    """A follow-up in the middle of the window."""
    outcome = run.setup.cluster()
    outcome.run(load_policy("smetric").compile(), seed=run.setup.seed)
    found = outcome.outcome
    return int(np.flatnonzero((found["reason"] == Reason.STICK) & (found["arrival_s"] > 120))[0])


def test_a_run_goes_on_as_if_nothing_had_been_replayed():
    disturbed, calm = rerun(), rerun()
    request = middle(calm)
    disturbed.until(request)
    disturbed.after([0, 1])
    for run in (disturbed, calm):
        assert not run.until(-2)  # never comes: to the end
    assert disturbed.cluster.outcome.tobytes() == calm.cluster.outcome.tobytes()
    assert np.array_equal(disturbed.memory, calm.memory)


def test_replays_repeat_and_futures_differ():
    run = rerun()
    run.until(middle(run))
    tokens, ttft_s = run.after([0, 1, 0])
    assert np.array_equal(tokens[0], tokens[2]) and np.array_equal(ttft_s[0], ttft_s[2])
    assert tokens.shape == ttft_s.shape == (3, 2) and (tokens > 0).all()
    assert len(np.unique(tokens)) > 1


def test_what_a_policy_would_choose_changes_nothing():
    run = rerun()
    run.until(middle(run))
    memory = run.memory.copy()
    chosen, reason = run.choice(load_policy("smetric"))
    assert reason == Reason.STICK and chosen in (0, 1)
    assert run.choice(load_policy("load_balance"))[0] in (0, 1)
    assert np.array_equal(run.memory, memory)


def test_reasons_are_those_of_the_run():
    judged = rerun()
    found = judged.reasons(load_policy("smetric"))
    assert np.array_equal(found, judged.cluster.outcome["reason"])
    assert {Reason.FIRST_TURN, Reason.STICK} <= set(found.tolist())


def test_delayed_requests_arrive_later_and_in_order():
    calm, late = rerun(), rerun()
    request = middle(calm)
    for run in (calm, late):
        run.until(request)
    delay(late.cluster, np.full(len(late.setup.trace), 10**12))
    for run in (calm, late):
        run.until(-2)
    before, after = calm.cluster.outcome["arrival_s"], late.cluster.outcome["arrival_s"]
    first = calm.setup.trace.requests["parent"] < 0
    now = before[request]
    both = first & (before > now) & (before < 290)
    assert both.any() and np.allclose(after[both], before[both] + 1)
    assert np.array_equal(after[before <= now], before[before <= now])


def test_halves():
    even, odd = halves(np.array([[1.0, 10.0, 3.0, 30.0]]))
    assert even.tolist() == [2.0] and odd.tolist() == [20.0]


@pytest.mark.parametrize("how", [{"futures": 3}, {"futures": 0}, {"stretch_s": 0.0}, {"settle_s": -1.0}])
def test_horizons_that_make_no_sense(how):
    with pytest.raises(SmetricError, match="replay"):
        Horizon(**how)


def test_open_loops_have_only_one_future():
    with pytest.raises(SmetricError, match="arrival_mode is 'open'"):
        rerun(arrival_mode="open")
