"""What is drawn over time adds up to the scores."""

import numpy as np
import pytest

from smetric_gym.replay.recording import SLICES
from smetric_gym.replay.series import WINDOWS, lane_names, lane_samples, lane_tokens, strips, worst_moments


def test_the_strips_add_up_to_the_scores(recording):
    tokens = lane_tokens(recording)
    over, scores = strips(recording, tokens), recording.scores
    inside = over.edges_s[:-1] >= recording.scored.warm_up_s - 1e-9
    width = np.diff(over.edges_s)
    total = (over.tps_within_slo * width)[inside].sum()
    assert total / recording.scored.window_s == pytest.approx(scores["tps_within_slo"], rel=1e-12)
    assert over.arrived[inside].sum() == scores["requests"]
    assert over.late[inside].sum() == (~recording.scored.met_ttft).sum() > 0
    assert over.arrived.sum() == len(recording.shown) > scores["requests"]
    assert np.nanmin(over.imbalance) >= 1 and np.nanmax(over.imbalance) <= recording.setup.config.instances


def test_a_lane_holds_the_tokens_of_its_requests(recording):
    tokens = lane_tokens(recording)
    assert tokens.shape == (SLICES, 4)
    run, prompt = recording.scored.all, recording.setup.trace.requests["prompt"]
    at = (recording.edges_s[700] + recording.edges_s[701]) / 2
    there = (run["arrival_s"] < at - 1) & (run["finish_s"] > at + 1)
    for i in range(4):
        assert tokens[700, i] >= prompt[there & (run["instance"] == i)].sum() - 1e-6


def test_decode_instances_have_lanes_that_no_router_sees(disaggregated):
    assert lane_names(disaggregated) == ["P0", "P1", "P2", "P3", "D0", "D1", "D2"]
    tokens, waiting = lane_tokens(disaggregated), lane_samples(disaggregated, "waiting")
    assert tokens.shape == waiting.shape == (SLICES, 7)
    assert (tokens.sum(axis=0) > 0).all()
    assert np.isnan(waiting[:, 4:]).all() and not np.isnan(waiting[:, :4]).any()


def test_the_worst_moments_are_the_worst_of_the_scored_window(recording):
    tokens = lane_tokens(recording)
    over = strips(recording, tokens)
    found = {moment.label: moment for moment in worst_moments(recording, tokens, over)}
    assert set(found) == {"imbalance", "late requests", "queue"}
    for moment in found.values():
        assert recording.scored.warm_up_s <= moment.time_s < recording.scored.end_s
    scored = over.edges_s[:-1] >= recording.scored.warm_up_s - 1e-9
    late = found["late requests"]
    w = int(np.searchsorted(over.edges_s, late.time_s)) - 1
    assert over.late[w] == over.late[scored].max() and f"{over.late[w]:.0f} missed" in late.words
    uneven = found["imbalance"]
    w = int(np.searchsorted(over.edges_s, uneven.time_s)) - 1
    load = tokens[w * SLICES // WINDOWS : (w + 1) * SLICES // WINDOWS].mean(axis=0)
    assert load.argmax() == uneven.lane and f"{load.max() / load.mean():.1f} times the mean" in uneven.words
    longest = found["queue"]
    at = int(np.searchsorted(recording.edges_s, longest.time_s)) - 1
    assert f"{recording.samples['waiting'][at, longest.lane]:.0f} requests wait" in longest.words
