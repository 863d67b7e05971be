"""Question 4: times of fetches beside the links of the event loop, and the study on a tiny cluster."""

import numpy as np
import pytest

from smetric_gym.agents.policy import load_policy
from smetric_gym.cluster.cluster import OUTCOME
from smetric_gym.cluster.steptime import TICKS_PER_S
from smetric_gym.experiment.evaluate import run
from smetric_gym.experiment.prepare import prepare
from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.questions.fetches import fetch_times, fetched
from smetric_gym.reproduce.questions.links import question_4
from smetric_gym.reproduce.study import Work

TINY = {"instances": 4, "warm_up_s": 30.0, "window_s": 120.0, "cluster.nics_per_server": 1, "load": 1.5,
        "seeds": [0]}  # fmt: skip


def test_two_fetches_at_once_share_a_nic_one_after_the_other():
    state = prepare(compose([], TINY)).cluster().state
    outcome = np.zeros(3, dtype=OUTCOME)
    outcome["admitted_s"], outcome["instance"], outcome["read_tokens"] = 10.0, [0, 1, 2], [1000, 2000, 0]
    begin, on_nic, end, alone = fetch_times(state, outcome)
    nic = 0.003 + np.array([1000, 2000]) * 98_304 / 10e9  # latency + bytes / bandwidth, conf/cluster/colocated.yaml
    pcie = 0.013 + np.array([1000, 2000]) * 98_304 / 54.4e9
    assert on_nic[:2] == pytest.approx(nic) and alone[:2] == pytest.approx(nic + pcie)
    assert end[:2] - 10 == pytest.approx([nic[0] + pcie[0], nic[0] + nic[1] + pcie[1]])
    assert np.isnan(begin[2]) and np.isnan(end[2])


@pytest.mark.parametrize("loads", ["blocking", "async"])
def test_the_links_are_free_when_the_event_loop_says_so(loads):
    settings = compose(["policy=round_robin"], TINY | {"cluster.loads": loads, "load": 0.7})
    setup = prepare(settings)
    cluster = setup.cluster()
    cluster.run(load_policy("round_robin"), seed=0)
    outcome = cluster.outcome
    assert outcome["preemptions"].sum() == 0 and (outcome["read_tokens"] > 0).sum() > 10
    end = fetch_times(setup.cluster().state, outcome)[2]
    for place in range(4):
        last = np.nanmax(end[outcome["instance"] == place])
        assert last * TICKS_PER_S == pytest.approx(cluster.state.instances["pcie_free"][place], abs=TICKS_PER_S * 1e-6)


def test_what_a_run_reads_agrees_with_its_scores():
    settings = compose(["policy=load_balance"], TINY)
    found, result = fetched(settings, {}), run(settings)
    peak = max(found["read_bytes_per_s"])
    assert peak == pytest.approx(result["global_read_peak_bytes_per_s"], rel=1e-6)
    assert found["fetches"] > 0 and 0 <= found["waited_share"] < 1 and found["fetch_p50_s"] <= found["fetch_p99_s"]
    assert 0 < found["mean_nic"] == found["busiest_nic"] < 1 and found["servers"] == 1  # one server, one NIC


def test_the_study(tmp_path):
    values = {"loads": [1.5], "policies": ["load_balance", "smetric"], "cluster.nics_per_server": 4}
    vary = {"cluster.nics_per_server": [1, 4], "cluster.loads": ["blocking", "async"]}
    outcome = question_4(Work(compose([], TINY | values) | {"vary": vary}, jobs=1, store=tmp_path))
    assert len(outcome.table) == 8 and outcome.picture is not None and len(outcome.words) == 4
    reads = {row["policy"]: row["read_gb_per_s_per_server"] for row in outcome.table if row["nics_per_server"] == 4}
    assert reads["load_balance"] > reads["smetric"] > 0
    assert {row["policy"] for row in outcome.more["over_time"]} == {"load_balance", "smetric"}
