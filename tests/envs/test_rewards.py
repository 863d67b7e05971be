"""Credit on requests whose times can be worked out by hand: 10 ms a step and 1 ms a token."""

import numpy as np
import pytest
from small import step_time, trace
from small_envs import BASE

from smetric_gym.cluster import Cluster, ClusterConfig
from smetric_gym.envs import ColocatedEnv, credit_to_decisions, discount
from smetric_gym.envs.rewards import ENDED, REWARDS, TERMS, check_reward
from smetric_gym.envs.tally import Tally, count, ended
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.evaluate import evaluate
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
    tally, terms = Tally.of(cluster, slo, warm_up_s, 10, np.zeros(1)), np.zeros(len(TERMS))
    steps, more = [], cluster.advance()
    count(tally, True, terms)
    while more:
        more = cluster.step(0)
        elapsed_s = count(tally, more, terms)
        rows = ended(tally).view(np.recarray)
        steps.append(dict(zip(TERMS, terms.tolist(), strict=True)) | {"elapsed_s": elapsed_s, "rows": rows})
    assert tally.total.tolist() == [sum(s[name] for s in steps) for name in TERMS]
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


def test_late_requests_are_worth_less_and_never_nothing():
    """Of 41, 45 and 65 tokens: first tokens after 50, 50 and 70 ms, then 11 ms a token."""
    for slo, share in (
        (SLO(0.1, 0, 0.02), (1, 1, 1)),
        (SLO(0.025, 0, 0.02), (0.5, 0.5, 25 / 70)),
        (SLO(0.1, 0, 0.0055), (1, 0.5, 0.5)),
        (SLO(0.025, 0, 0.0055), (0.5, 0.25, 25 / 140)),
    ):
        smooth = [s["smooth"] for s in credited(slo)[1:]]
        assert smooth == pytest.approx([tokens * part for tokens, part in zip((41, 45, 65), share, strict=True)])


def test_rows_of_what_ended():
    steps = credited(SLO(0.06, 0, 0.02))
    assert [len(s["rows"]) for s in steps] == [1, 1, 1, 1]
    first, second, third, fourth = (s["rows"][0] for s in steps)
    assert [first.scored, second.scored, first.met, fourth.met] == [False, True, True, False]
    assert [r.decision for r in (first, second, third, fourth)] == [0, 1, 2, 3] and third.session == 2
    assert (third.prompt_tokens, third.output_tokens, third.instance) == (40, 5, 0)
    times = (third.arrival_s, third.ttft_s, third.ttft_limit_s, third.tpot_s, third.tpot_limit_s)
    assert times == pytest.approx((2.0, 0.05, 0.06, 0.011, 0.02))
    assert np.isnan(second.tpot_s) and third.finish_s == pytest.approx(2.094)
    assert [s["elapsed_s"] for s in steps] == pytest.approx([1, 1, 1, 0.114])


def episode(choose=lambda step: step % 4, **settings):
    env = ColocatedEnv(**BASE | settings)
    env.reset(options={"trace_seed": 0})
    steps, over = [], False
    while not over:
        _, reward, terminated, truncated, info = env.step(choose(len(steps)))
        steps.append((reward, info))
        over = terminated or truncated
    return [reward for reward, _ in steps], [info for _, info in steps]


def test_credit_goes_back_to_the_decisions():
    rewards, infos = episode(reward="decision_goodput")
    assert rewards == episode()[0]
    owed = credit_to_decisions([info["credit"] for info in infos], len(rewards))
    assert owed.sum() == sum(rewards) > 0
    requests = ColocatedEnv(**BASE)._contract.scenario.episode(0).setup.trace.requests
    sizes = set((requests["prompt"].astype(float) + requests["output"]).tolist())
    assert set(owed.tolist()) <= sizes | {0.0} and 0 < (owed > 0).sum() < len(owed)
    assert (credit_to_decisions([info["credit"] for info in infos], 10) == owed[:10]).all()


def test_relative_goodput_is_the_difference_to_the_reference():
    settings = {name: BASE[name] for name in ("instances", "warm_up_s", "window_s", "global_tier")}
    result = evaluate("load_balance", workload=BASE["workload"](0), seed=0, **settings)
    rewards, infos = episode(reward="relative_goodput", reference="load_balance")
    mine = sum(episode()[0])
    assert sum(rewards) == mine - result["tps_within_slo"] * BASE["window_s"] != 0
    terms = [info["reward_terms"] for info in infos]
    assert rewards == [t["goodput"] - t["reference_goodput"] for t in terms]
    assert sum(t["reference_goodput"] > 0 for t in terms[:-1]) > 5, "it should come as time goes by"
    itself, _ = episode(choose=lambda step: step % 4, reward="relative_goodput", reference="round_robin")
    assert itself == [0.0] * len(itself)
    assert "reference_goodput" not in episode()[1][0]["reward_terms"]


def test_a_reward_of_your_own():
    asked = []

    def tokens(ended, elapsed_s):
        asked.append((len(ended), elapsed_s))
        good = ended.met & ended.scored
        return (ended.prompt_tokens[good].astype(float) + ended.output_tokens[good]).sum()

    rewards, infos = episode(reward=tokens)
    assert rewards == episode()[0] and sum(n for n, _ in asked) == len(rewards)
    assert [s for _, s in asked] == [info["elapsed_s"] for info in infos]
    with pytest.raises(SmetricError, match="the reward function returned None, allowed: a number"):
        episode(reward=lambda ended, elapsed_s: None)


def test_guards_are_in_the_scores():
    scores = episode(reward="smooth")[1][-1]["scores"]
    for guard in ("sacrificed_share", "worst_session_attainment", "largest_instance_share"):
        assert 0 <= scores[guard] <= 1


def test_discount_by_time():
    assert discount(2.0, 0.5) == 0.25 and discount([0, 1], 0.9).tolist() == [1, 0.9]
    with pytest.raises(SmetricError, match="per_s is 0"):
        discount(1.0, 0)


def test_names():
    assert all(reward.meaning and check_reward(name) == name for name, reward in REWARDS.items())
    with pytest.raises(SmetricError, match="did you mean output_goodput"):
        check_reward("output_goodputt")
    assert ENDED.names[:2] == ("request", "decision") and SLO_PRESETS["paper"].ttft_s == 1.0
