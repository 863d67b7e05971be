"""A Chrome trace whose slices nest and whose arrows meet them."""

import json
from collections import Counter, defaultdict

import numpy as np
import pytest

from smetric_gym.replay.chrome import chrome_trace


@pytest.fixture(scope="module", params=["recording", "disaggregated"])
def traced(request):
    recording = request.getfixturevalue(request.param)
    return recording, json.loads(chrome_trace(recording))["traceEvents"]


def test_slices_of_a_thread_nest(traced):
    _, events = traced
    threads = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["ts"] >= 0
            threads[event["pid"], event["tid"]].append((event["ts"], -event["dur"]))
    for slices in threads.values():
        open_until = []
        for start, minus in sorted(slices):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or start - minus <= open_until[-1]
            open_until.append(start - minus)


def test_every_request_has_a_slice_on_its_instance(traced):
    recording, events = traced
    requests = [event for event in events if event.get("cat") == "request"]
    run = recording.scored.all[recording.shown]
    lanes = Counter(run["instance"].tolist())
    lanes.update(run["decode_instance"][run["decode_instance"] >= 0].tolist())
    assert Counter(event["pid"] for event in requests) == lanes
    by_request = {event["args"]["request"]: event for event in reversed(requests)}
    for r, outcome in zip(recording.shown.tolist(), run, strict=True):
        assert by_request[r]["ts"] == pytest.approx(1e6 * outcome["arrival_s"], abs=1)
    names = {event["name"] for event in events if event.get("cat") == "phase"}
    assert names == {"queue", "prefill", "decode"}


def test_an_arrow_per_migration(traced):
    recording, events = traced
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    run, session = recording.scored.all, recording.setup.trace.requests["session"]
    moved, last = 0, {}
    for r in recording.shown:
        moved += session[r] in last and run["instance"][last[session[r]]] != run["instance"][r]
        last[session[r]] = r
    arrows = Counter(event["name"] for event in starts.values())
    assert arrows["migration"] == moved > 0
    assert arrows["hand-over"] == np.count_nonzero(run["decode_instance"][recording.shown] >= 0)
    slices = defaultdict(list)
    for event in events:
        if event.get("cat") == "request":
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for number, start in starts.items():
        end = ends[number]
        assert start["ts"] <= end["ts"]
        for half in (start, end):
            assert any(a <= half["ts"] <= b for a, b in slices[half["pid"], half["tid"]])
