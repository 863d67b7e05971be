"""Features on views made by hand, and their promises: no names of instances, no size, finite."""

import numba
import numpy as np
import pytest
from policy_views import make_request, make_view, random_case

from smetric_gym.agents import features as f
from smetric_gym.agents.features import COUNT, FEATURES, observe


def test_columns_have_the_places_of_their_names():
    assert [getattr(f, name.upper()) for name in FEATURES] == list(range(COUNT))
    assert set(f.REQUEST_FEATURES) | set(f.BURDENS) <= set(FEATURES)


def test_values_by_hand():
    # 1200 tokens, 1000 of them history, limit 1 s; 5e-5 s a token and 5e-9 s a pair; instance 1 holds 800
    view = make_view(
        3,
        local_hit_tokens=[0, 800, 0],
        in_flight=[0, 3, 6],
        running=[0, 2, 5],
        waiting=[0, 1, 1],
        in_flight_tokens=[0, 100_000, 290_000],
        unprefilled_tokens=[0, 600, 6000],
        unprefilled_s=[0, 0.5, 3.0],
    )
    row = dict(zip(FEATURES, observe(view, make_request(global_hit_tokens=1000))[1], strict=True))
    own = 5e-5 * 400 + 5e-9 * 400 * 1000
    tier = 5e-5 * 200 + 5e-9 * 200 * 1100 + 0.2 * 5e-5 * 200
    expected = {
        "log_prefill_tokens": np.log(1000), "log_batch": np.log(4), "log_prefill_s": np.log(0.5 + own + 1e-3),
        "log_prefill_tier_s": np.log(0.5 + tier + 1e-3), "miss": 1 / 3, "tier_saving": 1 / 6, "session_hit": 0.8,
        "batch_of_max": 0.5, "batch_of_mean": 1, "queued_of_mean": 600 / 2200, "context_of_mean": 10 / 13,
        "rank": 1 / 3, "kv_use": 0, "kv_overflow": 0, "waiting_share": 0.25, "ttft": 0.5 + own,
        "ttft_tier": 0.5 + tier, "late": 0, "stall": np.log(1 + 2 * tier), "home": 1, "home_overload": 1,
        "stick_requests": 1, "stick_tokens": 1, "first_batch": 0, "first_queued": 0, "first_context": 0,
        "first_miss": 0, "first": 0, "log_prompt": np.log(1.2), "log_mean_batch": np.log(4),
    }  # fmt: skip
    assert row == pytest.approx(expected, rel=1e-5, abs=1e-6)
    busy = dict(zip(FEATURES, observe(view, make_request())[2], strict=True))
    assert busy["late"] == pytest.approx(busy["ttft_tier"] - 1) and busy["late"] > 2
    assert busy["kv_overflow"] == pytest.approx((290_000 + 1200) / 280_000 - 1)
    first = dict(zip(FEATURES, observe(view, make_request(messages=0))[1], strict=True))
    assert first["first_batch"] == pytest.approx(1) and first["first_miss"] == pytest.approx(1 / 3)
    assert first["home"] == first["stick_requests"] == first["session_hit"] == 0


def test_features_know_neither_the_order_nor_the_number_of_instances():
    rng = np.random.default_rng(1)
    for _ in range(50):
        view, request = random_case(rng, 6)
        rows, order = observe(view, request), rng.permutation(6)
        np.testing.assert_array_equal(observe(view[order].view(np.recarray), request), rows[order])
        twice = np.concatenate([view, view]).view(np.recarray)
        np.testing.assert_allclose(observe(twice, request), np.concatenate([rows, rows]), rtol=1e-5, atol=1e-6)
        assert np.isfinite(rows).all() and not rows[view.alive == 0].any()


def test_compiled_and_plain_features_are_equal():
    rng, compiled = np.random.default_rng(2), numba.njit(observe)
    for _ in range(200):
        view, request = random_case(rng, 6)
        np.testing.assert_array_equal(compiled(view.view(np.ndarray), request), observe(view, request))


def test_an_idle_cluster_is_finite():
    rows = observe(make_view(4), make_request(messages=0, history_tokens=0))
    assert np.isfinite(rows).all() and (rows == rows[0]).all()
