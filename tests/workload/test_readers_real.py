"""Figures of public traces, where the folder with them is given: `SMETRIC_GYM_TRACES`."""

import os
from pathlib import Path

import numpy as np
import pytest

from smetric_gym.workload.readers import read_trace

FOLDER = os.environ.get("SMETRIC_GYM_TRACES")
pytestmark = pytest.mark.skipif(
    FOLDER is None, reason="SMETRIC_GYM_TRACES is unset: no folder of real traces"
)


def path_of(name):
    path = Path(FOLDER) / name
    if not path.exists():
        pytest.skip(f"{name} is not in SMETRIC_GYM_TRACES")
    return path


def reuse(trace, block):
    return trace.ideal_hit_tokens(block).sum() / trace.requests["prompt"].sum(dtype=np.int64)


def test_mooncake_conversation():
    path = path_of("mooncake_conversation.jsonl.gz")
    trace = read_trace(path, assume_append=False)
    assert len(trace) == 12_031 and trace.has_content and not trace.has_gaps
    assert reuse(trace, 512) == pytest.approx(0.374, abs=0.003)
    assert trace.sessions == pytest.approx(8_056, rel=0.01)
    turns = np.bincount(trace.requests["session"])
    assert np.mean(turns > 1) == pytest.approx(0.25, abs=0.01) and np.mean(turns) == pytest.approx(
        1.49, abs=0.02
    )
    assert (trace.requests["system"] == 512).all() and trace.report["repeated rows, kept"] == 1
    assert trace.report["times rounded to 3 s, spread evenly over it"] == 12_031
    assert trace.span_s == pytest.approx(3_537, abs=4)
    assert reuse(read_trace(path), 1) == pytest.approx(0.388, abs=0.003)


@pytest.fixture(scope="module")
def weka():
    return read_trace(path_of("weka_claude_code_sessions.tar.xz"))


def test_weka_counts_and_reuse(weka):
    r = weka.requests
    assert weka.sessions == 496 and len(weka) == 34_034 and weka.report["sub-agents"] == 50
    assert weka.report["rows with zero output, raised to 1"] == 17
    assert 0.95 < reuse(weka, 64) < 0.98
    # 45 % of the full set start with a prompt over 40 k.
    first = r["turn"] == 0
    assert np.mean(r["messages"][first] > 0) == pytest.approx(0.42, abs=0.05)
    assert r["system"].mean() == pytest.approx(14_300, rel=0.02)


def test_weka_times_and_triggers(weka):
    r = weka.requests
    follow = r["parent"] >= 0
    known = follow & (r["trigger"] != 0)
    assert weka.has_gaps and np.mean(r["trigger"][known] == 2) == pytest.approx(0.94, abs=0.02)
    assert (r["arrival"][follow] >= r["arrival"][r["parent"][follow]]).all()
    assert np.median(r["gap"][follow]) == pytest.approx(9, abs=3)
    assert np.mean(r["session"][follow] == r["session"][r["parent"][follow]]) == 1


def test_azure():
    trace = read_trace(path_of("azure_2023_code.csv.gz"))
    assert len(trace) == trace.sessions == 8_819 and not trace.has_content and trace.span_s < 3_600
    assert trace.requests["prompt"].mean() == pytest.approx(2_048, rel=0.01)
    assert trace.requests["output"].mean() == pytest.approx(28, rel=0.02)
