"""The page holds everything, and everything is what the run says."""

import base64
import re

import numpy as np

from smetric_gym.experiment.settings import compose
from smetric_gym.replay.pack import UNKNOWN, pack, quantised, unpack
from smetric_gym.replay.page import IN_TIME, LATE, SLOW, UNFINISHED, page
from smetric_gym.replay.recording import record


def read(html: bytes):
    return unpack(base64.b64decode(re.search(rb'octet-stream">([^<]*)</script>', html)[1]))


def test_what_is_packed_comes_back():
    arrays = {
        "a": np.arange(3, dtype=np.uint8),
        "b": np.array([0.5, np.nan]),
        "c": np.array([-1, 7], dtype=np.int16),
        "d": np.zeros(0, np.float32),
        "e": np.array([[1, 2], [3, 4]], dtype=">u4"),
    }
    packed = pack({"title": "é"}, arrays)
    assert packed == pack({"title": "é"}, arrays), "the same input gives the same bytes"
    header, back = unpack(packed)
    assert header == {"title": "é"} and list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype.itemsize == array.dtype.itemsize
        np.testing.assert_array_equal(back[name], array.ravel())


def test_quantised_values_are_close_and_the_unknown_stays_unknown():
    values = np.array([0.0, 1e-3, 0.5, 7.25, np.nan])
    steps, step = quantised(values)
    assert steps[-1] == UNKNOWN and steps[:-1].max() == UNKNOWN - 1
    np.testing.assert_allclose(steps[:-1] * step, values[:-1], atol=step)
    assert quantised(np.array([0.0, np.nan]))[0].tolist() == [0, UNKNOWN]


def test_the_page_is_one_file_without_a_network(recording):
    html = page(recording)
    assert html == page(recording)
    assert not re.search(rb"""(?:src|href)=["'](?!data:)|https?://|@import|<!--[A-Z]+-->""", html)
    assert b"<title>smetric on 4 instances" in html


def test_the_page_has_every_request_with_its_times_and_verdict(recording):
    header, columns = read(page(recording))
    run, scored = recording.scored.all[recording.shown], recording.scored
    assert len(columns["request"]) == len(run) > 100
    np.testing.assert_array_equal(columns["arrival"], run["arrival_s"])
    np.testing.assert_allclose(columns["first"], run["first_token_s"] - run["arrival_s"], rtol=1e-6)
    counts = columns["scored"] == 1
    assert counts.sum() == len(scored.outcome)
    verdict = columns["verdict"][counts]
    assert (verdict == IN_TIME).sum() == scored.met.sum() > 0
    assert (verdict == LATE).sum() == (~scored.met_ttft & scored.finished).sum() > 0
    assert (verdict == SLOW).sum() == (scored.met_ttft & scored.finished & ~scored.met).sum()
    assert not (verdict == UNFINISHED).any()
    assert [name for name, *_ in header["scores"]][:2] == ["tps within slo", "slo attainment"]
    assert header["lanes"] == ["0", "1", "2", "3"] and header["warm_up_s"] == 60


def test_names_from_outside_are_no_markup(recording, monkeypatch):
    monkeypatch.setattr(recording.setup.trace, "name", "</script><b>")
    monkeypatch.setattr(recording.policy, "name", "<img src=x>")
    html = page(recording)
    assert b"<img" not in html and b"</script><b>" not in html and b"&lt;img src=x&gt;" in html


def test_32_instances_and_10_000_requests_stay_below_10_mb():
    recording = record(compose(changes={"load": 1.0}))
    assert recording.setup.config.instances == 32 and len(recording.shown) >= 10_000
    assert len(page(recording)) < 10e6
