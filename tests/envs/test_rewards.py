"""Credit on requests whose times can be worked out by hand: 10 ms a step and 1 ms a token."""

import pytest
from small import step_time, trace

from smetric_gym.cluster import Cluster, ClusterConfig
from smetric_gym.envs.rewards import REWARDS, TERMS, Credit, reward_index
from smetric_gym.errors import SmetricError
from smetric_gym.slo import SLO, SLO_PRESETS

ROWS = (  # arrival, session, turn, prompt, output
    (0.0, 0, 0, 40, 3),  # in the warm-up
    (1.0, 1, 0, 40, 1),  # first token after 50 ms, and it is the last
    (2.0, 2, 0, 40, 5),  # 50 ms, then 11 ms a token
    (3.0, 3, 0, 60, 5),  # 70 ms
)


def credited(slo, warm_up_s=0.5):
    config = ClusterConfig(instances=1, global_tier=0, max_batched_tokens=64, max_seqs=8, chunk_tokens=32)
    cluster = Cluster(trace(*ROWS), config, arrival_mode="open", step_times=[step_time()])
    credit = Credit(slo, warm_up_s, 10)
    steps, more = [], cluster.advance()
    while more:
        more = cluster.step(0)
        steps.append(dict(zip(TERMS, credit.collect(cluster.state), strict=True)))
    assert credit.total.tolist() == [sum(s[name] for s in steps) for name in TERMS]
    return steps


def test_credit_comes_when_a_request_ends_and_once():
    steps = credited(SLO(0.06, 0, 0.02))
    assert [s["ended"] for s in steps] == [0, 1, 1, 1]
    assert [s["goodput"] for s in steps] == [0, 41, 45, 0]
    assert [s["output_goodput"] for s in steps] == [0, 1, 5, 0]
    assert [s["prefill_goodput"] for s in steps] == [0, 40, 40, 0]
    assert [s["within_slo"] for s in steps] == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("slo", "goodput"),
    [
        (SLO(0.06, 0, 0.010), [41, 0, 0]),  # 11 ms a token is too slow; one token has no pace
        (SLO(0.05 + 1e-9, 0, 0.011 + 1e-9), [41, 45, 0]),  # both limits are just met
        (SLO(0.0, 0.07 / 60 + 1e-9, 0.012), [0, 0, 65]),  # a limit by prompt length
        (SLO(0.049, 0, 0.02), [0, 0, 0]),
    ],
)
def test_limits(slo, goodput):
    assert [s["goodput"] for s in credited(slo)[1:]] == goodput


def test_requests_of_the_warm_up_earn_nothing():
    everything = SLO(1, 0, 1)
    assert [s["goodput"] for s in credited(everything, warm_up_s=0)] == [43, 41, 45, 65]
    assert [s["goodput"] for s in credited(everything, warm_up_s=1.0)] == [0, 41, 45, 65]
    assert [s["goodput"] for s in credited(everything, warm_up_s=1.01)] == [0, 0, 45, 65]


def test_names():
    assert [TERMS[reward_index(name)] for name in REWARDS] == list(REWARDS)
    with pytest.raises(SmetricError, match="did you mean output_goodput"):
        reward_index("output_goodputt")
    assert SLO_PRESETS["paper"].ttft_s == 1.0
