"""A recording is the run of `evaluate`, with what the router saw."""

import numpy as np
import pytest
from small import sessions

from smetric_gym import evaluate
from smetric_gym.agents.memory import Reason
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.evaluate import resolve
from smetric_gym.experiment.settings import compose
from smetric_gym.experiment.store import as_json
from smetric_gym.replay.recording import SLICES, record

TINY = {"instances": 2, "warm_up_s": 10, "window_s": 40}


@pytest.mark.parametrize("policy", ["smetric", "load_balance"])
def test_the_run_is_that_of_evaluate_to_the_last_bit(policy):
    again = record(compose([f"policy={policy}"], TINY))
    result = evaluate(policy, **TINY)
    assert as_json(again.scores) == as_json(result) and again.policy.name == result.policy
    assert again.scored.all.tobytes() == result.outcome.tobytes()


def test_a_function_and_a_trace_of_ones_own_are_served_as_evaluate_serves_them():
    def busiest(view, request, memory, params):
        return int(view.in_flight.argmax())

    given = TINY | {"workload": sessions(40), "load": 0.5, "warm_up_s": 0, "window_s": 5}
    settings, trace, function = resolve(busiest, given)
    again, result = record(settings, trace=trace, function=function), evaluate(busiest, **given)
    assert again.scored.all.tobytes() == result.outcome.tobytes() and again.policy.name == result.policy


def test_decisions_hold_what_the_router_saw(recording):
    run, seen = recording.scored.all, recording.decisions
    stick, first = run["reason"] == Reason.STICK, run["reason"] == Reason.FIRST_TURN
    overload = run["reason"] == Reason.OVERLOAD
    assert stick.sum() > 20 and first.sum() > 5 and overload.sum() > 2
    assert (seen["best"][stick] == run["instance"][stick]).all()
    assert (seen["best_requests"][stick] <= 1.2 * seen["mean_requests"][stick] + 1e-4).all()
    assert (seen["best_requests"][overload] > 1.2 * seen["mean_requests"][overload]).all()
    assert (seen["chosen_requests"][overload] <= seen["mean_requests"][overload]).all()
    assert (seen["best_hit_tokens"] < recording.setup.trace.requests["prompt"]).all()
    assert ((seen["best"] == -1) <= (seen["best_hit_tokens"] == 0)).all()


def test_samples_follow_the_view_and_a_slice_without_a_decision_repeats_the_last_one():
    config = {"cluster.schedule": [[20, 1, False], [30, 1, True]]}
    recording = record(compose(changes=TINY | config))
    times = recording.edges_s[:-1]
    alive = recording.samples["alive"][:, 1] > 0
    assert alive.shape == (SLICES,) and alive[times < 19].all()
    arrivals = recording.scored.all["arrival_s"]
    down = arrivals[(arrivals >= 20) & (arrivals < 30)]
    up = arrivals[arrivals >= 30].min()
    inside = (times > down.min()) & (times < up - recording.edges_s[1])
    assert inside.any() and not alive[inside].any() and alive[times > up].all()


def test_the_shown_time_cuts_what_is_shown_and_nothing_of_the_run(recording):
    part = record(recording.setup.settings, start_s=80, end_s=100)
    assert as_json(part.scores) == as_json(recording.scores)
    run = part.scored.all[part.shown]
    assert 0 < len(run) < len(recording.shown)
    assert (run["arrival_s"] < 100).all() and not (run["finish_s"] < 80).any() and (run["arrival_s"] < 80).any()
    assert (np.diff(run["arrival_s"]) >= 0).all()


def test_nothing_to_show_is_said():
    with pytest.raises(SmetricError, match="nothing is in the cluster from 9e\\+06"):
        record(compose(changes=TINY), start_s=9e6, end_s=9.1e6)
