"""What is drawn holds what was computed."""

import re

import numpy as np
import pytest

from smetric_gym.play import pictures
from smetric_gym.play.journey import journey
from smetric_gym.play.scenario import Router, Scenario, record
from smetric_gym.play.why import explain

pytest.importorskip("plotly")
from smetric_gym.play import charts  # noqa: E402  (needs plotly)

SMALL = Scenario(instances=4, load=1.5, warm_up_s=60.0, window_s=120.0)


@pytest.fixture
def pair():
    return [record(SMALL, Router(name)) for name in ("smetric", "load_balance")]


def test_a_tile_for_every_instance_with_a_mark_for_every_request(pair):
    run = pair[0]
    moment = max((run.visit(k) for k in range(0, len(run), 25)), key=lambda m: m.in_flight.sum())
    html = pictures.tiles(moment, session=3, hot=1)
    assert html.count('role="img"') == 4
    for style, numbers in (("wait", moment.waiting), ("fill", moment.prefill), ("decode", moment.decode)):
        assert html.count(f"p-unit p-{style}") == numbers.sum()
    assert html.count("p-chosen") == 1 and html.count("p-hot") == 1
    widths = [float(w) for w in re.findall(r'class="p-(?:a|b|s|mine)[^"]*" style="width:([\d.]+)%"', html)]
    assert sum(widths) <= 400.5


def test_text_is_escaped(pair):
    assert "<script>" not in pictures.say("<script>") + pictures.table(["<script>"], [["<script>"]])


def test_the_headline_shows_scores_with_their_definitions(pair):
    html = pictures.headline(pair[0])
    assert f"{pair[0].scores['tps_within_slo']:,.0f}" in html and "Prompt + output tokens" in html


def test_checks_have_a_mark_that_is_not_only_a_colour(pair):
    html = pictures.why(explain(pair[0].policy, pair[0].visit(100)))
    assert "✓" in html or "✗" in html


def test_the_charts_hold_the_numbers(pair):
    heat = charts.heat(pair[0], 1e5, 70.0).data[0]
    np.testing.assert_allclose(heat.z, np.rint(pair[0].in_flight_tokens.T / 1000))
    good = charts.over_time(pair).data[0]
    assert np.mean(good.y) == pytest.approx(pair[0].scores["tps_within_slo"])
    shares = charts.sources(pair).data
    assert [sum(bar.x[k] for bar in shares) for k in (0, 1)] == pytest.approx([100, 100])
    assert len(charts.requests(pair[1], 1).data[0].x) == pair[1].scores["requests"]
    assert charts.latency(pair).data[0].y[-1] == pytest.approx(100)
    stops = [journey(run, int(run.requests[80])) for run in pair]
    assert charts.path(pair, stops, 70.0).data


def test_two_equal_labels_are_told_apart(pair):
    names = {bar for trace in charts.sources([pair[0], pair[0]]).data for bar in trace.y}
    assert names == {"smetric (left)", "smetric (right)"}


def test_many_requests_are_thinned_and_keep_their_numbers(pair, monkeypatch):
    monkeypatch.setattr(charts, "MOST_DOTS", 20)
    figure = charts.requests(pair[0], 0)
    about = figure.data[0].customdata
    assert 10 < len(about) <= 20
    np.testing.assert_array_equal(about[:, 0], charts.shown(pair[0]))
    assert "one dot for" in figure.layout.xaxis.title.text
