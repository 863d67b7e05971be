"""Every score on an outcome that is small enough to be worked out by hand."""

import math

import numpy as np
import pytest
from small import trace

from smetric_gym.cluster import DONE, OUTCOME, UNISSUED
from smetric_gym.errors import SmetricError
from smetric_gym.measures import Scored, in_flight
from smetric_gym.scoring import SCORES, Scores
from smetric_gym.slo import SLO

SLO_1 = SLO(ttft_s=1.0, ttft_s_per_token=0.0, tpot_s=0.1)
WARM_UP_S, WINDOW_S = 10.0, 100.0

# session, turn, prompt, output | arrival, admitted, first token, finish | instance, local, global, reason
ROWS = [
    (0, 0, 1000, 11, 5.0, 5.1, 5.5, 6.5, 0, 0, 0, 2),  # before the window
    (0, 1, 2000, 11, 10.0, 10.1, 10.5, 11.5, 0, 1000, 0, 1),  # TTFT 0.5 s, TPOT 0.1 s: both met
    (1, 0, 3000, 1, 20.0, 20.5, 21.0, 21.0, 1, 0, 0, 2),  # TTFT 1.0 s: met, and one token has no TPOT
    (0, 2, 4000, 21, 30.0, 30.2, 30.5, 33.0, 1, 500, 1500, 3),  # TTFT 0.5 s met, TPOT 0.125 s missed
    (1, 1, 5000, 11, 40.0, 45.0, 47.0, 47.5, 0, 0, 4000, 4),  # TTFT 7 s missed, TPOT 0.05 s
    (
        1,
        2,
        6000,
        11,
        109.0,
        109.1,
        109.2,
        150.2,
        0,
        5000,
        0,
        1,
    ),  # finishes after the window; TPOT 4.1 s missed
    (2, 0, 7000, 11, 110.0, 110.1, 110.2, 110.9, 1, 0, 0, 2),  # arrives when the window is over
    (2, 1, 8000, 11, np.nan, np.nan, np.nan, np.nan, -1, 0, 0, 0),  # never arrives
]


def made(rows=ROWS, slo=SLO_1, **changes):
    recorded = [0.0 if math.isnan(row[4]) else row[4] for row in rows]
    recorded = np.maximum.accumulate(recorded)
    last = {}
    given = []
    for k, (row, at) in enumerate(zip(rows, recorded, strict=True)):
        session, turn, prompt, output = row[:4]
        parent = last.get(session)
        shared = 0 if parent is None else min(rows[parent][2] + rows[parent][3], prompt)
        given.append((at, session, turn, prompt, output, parent, parent, shared, 0.0))
        last[session] = k
    outcome = np.zeros(len(rows), dtype=OUTCOME)
    outcome["handed_over_s"] = np.nan
    outcome["decode_instance"] = -1
    names = ("arrival_s", "admitted_s", "first_token_s", "finish_s", "instance", "local_hit_tokens",
             "global_hit_tokens", "reason")  # fmt: skip
    for k, name in enumerate(names):
        outcome[name] = [row[4 + k] for row in rows]
    outcome["state"] = np.where(np.isnan(outcome["arrival_s"]), UNISSUED, DONE)
    outcome["preemptions"][3:4] = 2
    outcome["read_tokens"] = outcome["global_hit_tokens"] * 2  # whole chunks, and again after a preemption
    options = {
        "instances": 2,
        "warm_up_s": WARM_UP_S,
        "window_s": WINDOW_S,
        "kv_bytes_per_token": 10,
        "block_tokens": 1,
    }
    return Scored(trace(*given), outcome, slo, **options | changes)


EXPECTED = {
    "tps_within_slo": (2011 + 3001) / 100,
    "output_tps_within_slo": (11 + 1) / 100,
    "prefill_tps_within_slo": (2000 + 3000 + 4000 + 6000) / 100,
    "tps": (2011 + 3001 + 4021 + 5011 + 6011) / 100,
    "slo_attainment": 2 / 5,
    "ttft_p50_s": 0.5,  # of 0.2 0.5 0.5 1 7
    "ttft_p90_s": 1 + 0.6 * 6,
    "ttft_p99_s": 1 + 0.96 * 6,
    "tpot_p50_s": (0.1 + 0.125) / 2,  # of 0.05 0.1 0.125 4.1; the request of one token has none
    "tpot_p90_s": 0.125 + 0.7 * 3.975,
    "tpot_p95_s": 0.125 + 0.85 * 3.975,
    "tpot_p99_s": 0.125 + 0.97 * 3.975,
    "response_p50_s": 3.0,  # of 1 1.5 3 7.5 41.2
    "response_p99_s": 7.5 + 0.96 * 33.7,
    "local_hit_ratio": 6500 / 20000,
    "global_hit_ratio": 5500 / 20000,
    "reuse_ratio": 12000 / 20000,
    "ideal_reuse_ratio": (1011 + 2011 + 3001 + 5011) / 20000,
    "first_turn_return_ratio": 1 / 4,  # only request 1; 3, 4 and 5 are elsewhere
    "migrations": 2,  # request 3 (0 to 1) and request 4 (1 to 0)
    "overload_fallbacks": 1,
    "eviction_fallbacks": 1,
    "global_read_bytes_per_s": 11000 * 10 / 100,
    "global_read_peak_bytes_per_s": 8000 * 10 / 10,
    "preemptions": 2,
    "requests": 5,
    "unfinished": 0,
    "saturation": "backlogged",  # 1 of 5 waits longer than its limit
    "arrival_mode": "closed",
    "seed": 0,
    "largest_instance_share": 3 / 5,
    "sacrificed_share": 1 / 5,
}


@pytest.mark.parametrize("name", [name for name in SCORES if name in EXPECTED])
def test_score(name):
    value = SCORES[name].of(made())
    assert value == (
        EXPECTED[name] if isinstance(EXPECTED[name], str) else pytest.approx(EXPECTED[name], rel=1e-9)
    )


def test_every_score_of_the_issue_is_there_in_its_order():
    names = [
        "tps_within_slo",
        "output_tps_within_slo",
        "prefill_tps_within_slo",
        "tps",
        "slo_attainment",
        "ttft_p50_s",
        "ttft_p90_s",
        "ttft_p99_s",
        "tpot_p50_s",
        "tpot_p90_s",
        "tpot_p95_s",
        "tpot_p99_s",
        "response_p50_s",
        "response_p99_s",
        "local_hit_ratio",
        "global_hit_ratio",
        "reuse_ratio",
        "ideal_reuse_ratio",
        "load_imbalance",
        "first_turn_return_ratio",
        "migrations",
        "overload_fallbacks",
        "eviction_fallbacks",
        "global_read_bytes_per_s",
        "global_read_peak_bytes_per_s",
        "preemptions",
        "requests",
        "unfinished",
        "saturation",
        "arrival_mode",
        "seed",
    ]
    assert list(Scores.of(made()))[: len(names)] == names
    assert all(score.definition.endswith(".") and "\n" not in score.definition for score in SCORES.values())


def test_the_worst_session_is_one_with_four_requests_that_count():
    def rows(session, late, count=4):
        return [
            (session, t, 1000, 2, 20.0 + t, 20.0 + t, 20.5 + t + 5 * (t < late), 26.0 + t, 0, 0, 0, 0)
            for t in range(count)
        ]

    def worst(*parts):
        return SCORES["worst_session_attainment"].of(made([row for part in parts for row in part], slo=SLO(1.0, 0, 9)))

    assert worst(rows(0, 1), rows(1, 3), rows(2, 3, count=3)) == 1 / 4
    assert worst(rows(0, 0), rows(1, 0)) == 1 and worst(rows(0, 4)) == 0
    before = [(0, 0, 1000, 2, 5.0, 5.0, 9.0, 9.5, 0, 0, 0, 0)]
    assert math.isnan(worst(before, [(0, t + 1, *row[2:]) for t, row in enumerate(rows(0, 3, count=3))]))


def test_load_imbalance_is_the_mean_over_windows_of_max_over_mean():
    rows = [
        (
            0,
            0,
            1000,
            2,
            0.0,
            0,
            0.1,
            30.0,
            0,
            0,
            0,
            0,
        ),  # instance 0: 1000 tokens for half of the first window
        (1, 0, 500, 2, 0.0, 0, 0.1, 60.0, 1, 0, 0, 0),  # instance 1: 500 tokens for all of it: equal
        (2, 0, 800, 2, 60.0, 60, 60.1, 500.0, 1, 0, 0, 0),  # second window: only instance 1
    ]
    run = made(rows, warm_up_s=0.0, window_s=120.0)
    assert SCORES["load_imbalance"].of(run) == pytest.approx((1.0 + 2.0) / 2)


def test_a_request_leaves_a_prefill_instance_when_it_is_handed_over():
    run = made([(0, 0, 1000, 2, 0.0, 0, 0.1, 60.0, 0, 0, 0, 0)], warm_up_s=0.0, window_s=60.0)
    run.all["handed_over_s"] = 15.0
    assert run.in_flight_tokens(np.array([0.0, 60.0])).tolist() == [[250.0, 0.0]]


def test_unfinished_requests_count_against_every_limit():
    rows = [
        (0, 0, 1000, 5, 20.0, 20.0, 20.5, np.nan, 0, 0, 0, 0),
        (1, 0, 1000, 5, 21.0, np.nan, np.nan, np.nan, 0, 0, 0, 0),
    ]
    scores = Scores.of(made(rows))
    assert scores["unfinished"] == 2 and scores["slo_attainment"] == 0 and scores["tps"] == 0
    assert scores["prefill_tps_within_slo"] == 10 and scores["sacrificed_share"] == 0.5
    assert math.isnan(scores["tpot_p50_s"])


def steady(end_after_s, late=0.0):
    """One request per second, each in flight for a while; a share of them starts 1.5 s after its arrival."""
    rows = []
    for t in range(100):
        start = t + (1.5 if t % 10 < 10 * late else 0.0)
        rows.append((t, 0, 10, 2, float(t), start, start, t + end_after_s(t), 0, 0, 0, 0))
    return rows


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (steady(lambda t: 2.0, late=0.1), "stable"),
        (steady(lambda t: 2.0, late=0.2), "backlogged"),
        (steady(lambda t: 2.0, late=0.6), "overloaded"),
        (steady(lambda t: 2.0 + 0.5 * t), "overloaded"),
    ],
)
def test_saturation(rows, word):
    assert SCORES["saturation"].of(made(rows, warm_up_s=0.0)) == word


def test_in_flight_ignores_what_never_started():
    load = in_flight(
        np.array([0.0, np.nan]),
        np.array([5.0, np.inf]),
        np.ones(2),
        np.array([0, -1]),
        2,
        np.array([0.0, 10.0]),
    )
    assert load.tolist() == [[0.5, 0.0]]


def test_slo_presets():
    assert SLO.named("paper").ttft_limit_s(16000) == pytest.approx(2.0)
    assert (SLO.named("paper").tpot_s, SLO.named("paper_v2").tpot_s) == (0.030, 0.020)
    assert (
        SLO.named("relaxed").ttft_limit_s(8000) == pytest.approx(5.0) and SLO.named("relaxed").tpot_s == 0.050
    )
    with pytest.raises(SmetricError, match="did you mean paper_v2"):
        SLO.named("paper_v3")


@pytest.mark.parametrize(
    ("values", "words"),
    [((-1.0, 0.0, 0.03), "slo.ttft_s is -1"), ((1.0, 0.0, 0.0), "slo.tpot_s is 0"),
     ((0.0, 0.0, 1.0), "both 0"), ((1.0, math.nan, 1.0), "ttft_s_per_token is nan")],
)  # fmt: skip
def test_an_slo_that_makes_no_sense(values, words):
    with pytest.raises(SmetricError, match=words):
        SLO(*values)


@pytest.mark.parametrize(("name", "value"), [("window_s", 0.0), ("window_s", math.inf), ("warm_up_s", -1.0),
                                             ("imbalance_window_s", 0.0)])  # fmt: skip
def test_a_window_that_makes_no_sense(name, value):
    with pytest.raises(SmetricError, match=f"^{name} is"):
        made(**{name: value})
