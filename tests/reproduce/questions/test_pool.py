"""The pooled cluster: as fast as all instances together, and beaten by nobody."""

import numpy as np
import pytest

from smetric_gym.agents.policy import load_policy
from smetric_gym.cluster.cluster import instance_step_times
from smetric_gym.cluster.config import ClusterConfig
from smetric_gym.cluster.steptime import step_seconds
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import prepare
from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.questions.pool import alone_ttft_s, ladder, pool

SMALL = {"instances": 2, "warm_up_s": 60.0, "window_s": 240.0, "load": 1.0}


def test_alone_is_the_sum_of_the_steps():
    time = instance_step_times(ClusterConfig(instances=1))[0]
    steps = step_seconds(time, [(8192, 4096)]) + step_seconds(time, [(1000, 4096 + 8192)])
    prompt = 4096 + 8192 + 1000
    expected = steps + (time.api_ticks + prompt * time.api_token_ticks) / 1e12
    assert alone_ttft_s(time, np.array([prompt]), np.array([4096]), 8192)[0] == pytest.approx(expected, rel=1e-9)


def test_the_pool_serves_everything_from_its_cache():
    setup = prepare(compose([], SMALL))
    cluster = pool(setup)
    cluster.run(load_policy("round_robin").compile())
    outcome = cluster.outcome
    done = np.isfinite(outcome["finish_s"])
    ideal = setup.trace.ideal_hit_tokens(16)
    assert done.any() and outcome["local_hit_tokens"][done].sum() / ideal[done].sum() == pytest.approx(1, abs=0.01)


def test_more_help_serves_more():
    free = {"cluster.global_tier": float("inf"), "cluster.write": "all", "cluster.nic_bytes_per_s": float("inf"),
            "cluster.nic_latency_s": 0.0, "cluster.pcie_bytes_per_s": float("inf"),
            "cluster.pcie_latency_s": 0.0}  # fmt: skip
    found = ladder(compose([], SMALL), {"policies": ["lmetric"], "free": free})
    assert 0 < found["as it is"]["lmetric"] < found["pool"]["tps_within_slo"] <= found["pool"]["offered_tps"]
    assert 0 < found["pool"]["possible_share"] < 1


def test_pools_of_unlike_instances_are_refused():
    with pytest.raises(SmetricError, match="alike"):
        pool(prepare(compose(["cluster=mixed"], {"window_s": 60.0})))
