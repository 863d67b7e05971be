"""The promises of the environments: Gymnasium's contract, the reward, and how episodes begin and end."""

import hashlib
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from small import sessions

from smetric_gym.cluster import ClusterConfig
from smetric_gym.envs import FIELDS, Teacher
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.evaluate import evaluate
from smetric_gym.registration import register_environments

register_environments()
COLOCATED, DISAGGREGATED = "SMetric/Colocated-v0", "SMetric/Disaggregated-v0"


def agents(seed):
    """Prompts of 8 to 20 thousand tokens that arrive too fast for some limits."""
    return sessions(
        count=25, turns=4, prompt=8000, new=3000, output=60, gap=0.3, every=0.4, system=4000, seed=seed
    )


def make(name=COLOCATED, **settings):
    if name == DISAGGREGATED:
        settings.setdefault("decode_instances", 2)
    settings = {
        "instances": 4,
        "workload": agents,
        "warm_up_s": 2,
        "window_s": 8,
        "global_tier": 1.0,
        **settings,
    }
    return gymnasium.make(name, **settings)


def play(env, choose=None, **reset):
    """One episode: observations, rewards, and what the last step said."""
    observation, info = env.reset(**reset)
    seen, rewards, over = [observation], [], False
    while not over:
        action = (
            int(observation[:, FIELDS.index("in_flight")].argmin())
            if choose is None
            else choose(observation, info)
        )
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append(observation)
        rewards.append(reward)
        over = terminated or truncated
    return np.stack(seen), rewards, (terminated, truncated, info)


@pytest.mark.parametrize("name", [COLOCATED, DISAGGREGATED])
def test_gymnasium_and_stable_baselines_accept_it(name, recwarn):
    check_env(make(name).unwrapped)
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(make(name))
    said = [str(w.message) for w in recwarn if w.category is UserWarning]
    assert [s for s in said if "unconventional shape" not in s] == []  # SB3 prefers flat observations


@pytest.mark.parametrize("name", [COLOCATED, DISAGGREGATED])
def test_the_same_seed_is_the_same_episode(name):
    one, other = play(make(name), seed=3), play(make(name), seed=3)
    np.testing.assert_equal(one, other)
    assert one[1] != play(make(name), seed=4)[1]


def test_it_is_the_same_episode_in_another_process():
    code = (
        "import sys; sys.path[:0] = [sys.argv[1], sys.argv[2]]\n"
        "from test_routing_env import make, play\n"
        "import hashlib; seen, rewards, _ = play(make(), seed=3)\n"
        "print(hashlib.sha256(seen.tobytes() + repr(rewards).encode()).hexdigest())"
    )
    here = Path(__file__).parent
    child = [sys.executable, "-c", code, str(here.parent), str(here)]
    out = subprocess.run(child, capture_output=True, text=True, check=True).stdout
    seen, rewards, _ = play(make(), seed=3)
    assert out.strip() == hashlib.sha256(seen.tobytes() + repr(rewards).encode()).hexdigest()


def test_seed_none_goes_on_and_does_not_repeat():
    env = make()
    seeds = [
        env.reset(seed=1)[1]["trace_seed"],
        env.reset()[1]["trace_seed"],
        env.reset(seed=1)[1]["trace_seed"],
    ]
    assert seeds[0] == seeds[2] != seeds[1]
    assert env.reset(options={"trace_seed": 7})[1]["trace_seed"] == 7


@pytest.mark.parametrize("name", [COLOCATED, DISAGGREGATED])
@pytest.mark.parametrize(
    ("reward", "score"),
    [
        ("goodput", "tps_within_slo"),
        ("output_goodput", "output_tps_within_slo"),
        ("prefill_goodput", "prefill_tps_within_slo"),
    ],
)
def test_the_return_is_the_score(name, reward, score):
    env = make(name, reward=reward, window_s=8)
    _, rewards, (_, _, info) = play(env, seed=0)
    assert sum(rewards) / 8 == info["scores"][score] > 0
    assert 0 < info["scores"]["slo_attainment"] < 1, (
        "the case should have requests on both sides of the limits"
    )
    assert rewards[-1] == info["reward_terms"][reward]


@pytest.mark.parametrize("policy", ["smetric", "load_balance"])
@pytest.mark.parametrize("name", [COLOCATED, DISAGGREGATED])
def test_a_policy_scores_as_in_evaluate(name, policy):
    env = make(name)
    teacher = Teacher(env, policy)
    for seed in (5, 6):
        _, _, (_, _, info) = play(env, choose=lambda *_: teacher.action(), options={"trace_seed": seed})
        settings = {"cluster.decode_instances": 2} if name == DISAGGREGATED else {}
        result = evaluate(
            policy, workload=agents(seed), instances=4, global_tier=1.0, warm_up_s=2, window_s=8, seed=seed,
            cluster="disaggregated" if name == DISAGGREGATED else "colocated", **settings,
        )  # fmt: skip
        np.testing.assert_equal(info["scores"], dict(result))


def test_the_built_in_workload_is_that_of_evaluate():
    env = make(workload="trace1", warm_up_s=0, window_s=60, load=0.5)
    env.reset(options={"trace_seed": 2})
    result = evaluate(
        "round_robin", workload="trace1", instances=4, warm_up_s=0, window_s=60, load=0.5, seed=2
    )
    assert (env.unwrapped.cluster.trace.requests == result.trace.requests).all()
    assert play(env, options={"trace_seed": 2})[2][:2] == (False, True)


def test_the_window_truncates_and_the_end_of_a_recording_terminates():
    terminated, truncated, info = play(make(window_s=6), seed=0)[2]
    assert (terminated, truncated) == (False, True)
    env = make(workload=agents(0), window_s=500)
    seen, _, (terminated, truncated, info) = play(env, seed=0)
    assert (terminated, truncated) == (True, False)
    assert info["scores"]["unfinished"] == 0 and len(seen) == 101
    with pytest.raises(SmetricError, match="reset"):
        env.unwrapped.step(0)


def test_the_last_observation_is_the_empty_cluster():
    env = make()
    last = dict(zip(FIELDS, play(env, seed=0)[0][-1].T, strict=True))
    for name in (
        "local_hit_tokens",
        "in_flight",
        "unprefilled_tokens",
        "kv_use",
        "prompt_tokens",
        "ttft_limit_s",
    ):
        assert (last[name] == 0).all(), name
    assert last["routed"].sum() == (env.unwrapped.cluster.outcome["instance"] >= 0).sum()
    assert (last["alive"] == 1).all() and last["time_s"][0] == np.float32(env.unwrapped.cluster.now_s)


def test_instances_that_are_away_are_masked():
    env = make(cluster={"schedule": [(2.0, 1, False), (4.0, 1, True)]})
    away, both = [], []

    def choose(observation, info):
        mask = info["action_mask"]
        assert mask.dtype == np.int8 and (mask == env.unwrapped.action_masks()).all()
        assert env.unwrapped.action_masks().dtype == bool
        both.append(int(mask[1]))
        if not mask[1]:
            away.append(observation[0, FIELDS.index("time_s")])
            with pytest.raises(SmetricError, match=r"action is 1, allowed: .* not 1 \(down\)"):
                env.step(1)
        return env.action_space.sample(mask)

    play(env, choose, seed=0)
    assert away and min(away) >= 2 and max(away) < 4 and set(both) == {0, 1}


def test_masks_are_copies():
    env = make(cluster={"schedule": [(0.0, 1, False)]}).unwrapped
    _, info = env.reset(seed=0)
    masks = [info["action_mask"], env.action_masks(), env.step(0)[-1]["action_mask"]]
    for mask in masks:
        mask[:] = 1
    with pytest.raises(SmetricError, match="down"):
        env.step(1)
    assert env.action_masks().tolist() == [True, False, True, True]


@pytest.mark.parametrize("action", [-1, 4, 1.0, "1", None, np.array([1, 2])])
def test_wrong_actions_are_named(action):
    env = make().unwrapped
    env.reset(seed=0)
    with pytest.raises(SmetricError, match=r"action is .*allowed: a whole number in 0\.\.3"):
        env.step(action)
    env.step(np.int64(3))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"reward": "goodputs"}, "did you mean goodput"),
        ({"render_mode": "human"}, "allowed: ansi, rgb_array"),
        ({"arival_mode": "open"}, "arrival_mode"),
        ({"cluster": {"loads": "sometimes"}}, "allowed: blocking or async"),
        ({"cluster": "disaggregated"}, "SMetric/Disaggregated-v0"),
        ({"slo": "papr"}, "paper"),
        ({"window_s": 0}, "window_s"),
        ({"workload": 5}, "workload is 5, allowed: a name, a path"),
        ({"cluster": 5}, "cluster is 5, allowed: a name, a mapping or a ClusterConfig"),
        ({"slo": 5}, "slo is 5, allowed: a name, a mapping or an SLO"),
        ({"policy": "smetric"}, "policy is 'smetric', allowed: nothing, as the agent is the policy"),
        ({"policy.overload": 2}, "policy.overload is 2, allowed: nothing"),
        ({"seed": 3}, r"seed is 3, allowed: nothing here: reset\(seed"),
        ({"debug": True}, "debug is True, allowed: nothing"),
    ],
)
def test_wrong_arguments_are_named(settings, words):
    from smetric_gym.envs import ColocatedEnv

    with pytest.raises(SmetricError, match=words):
        ColocatedEnv(**{"workload": agents, **settings})


def test_wrong_options_and_workloads_are_named():
    env = make().unwrapped
    for options, words in (
        ({"seed": 1}, "allowed: trace, trace_seed"),
        ({"trace": 1}, "a Trace"),
        ({"trace_seed": -1}, "0 or"),
    ):
        with pytest.raises(SmetricError, match=words):
            env.reset(options=options)
    with pytest.raises(SmetricError, match="returned a int, allowed: a Trace"):
        make(workload=lambda seed: 1).unwrapped.reset(seed=0)
    with pytest.raises(SmetricError, match="call reset"):
        make().unwrapped.step(0)


def test_a_cluster_config_can_be_given():
    config = ClusterConfig(instances=3, kv_blocks=4000, schedule=((1.0, 2, False),))
    env = gymnasium.make(COLOCATED, cluster=config, workload=agents)
    assert env.unwrapped.setup.config == config and env.action_space.n == 3


def test_a_vector_of_environments_is_each_of_them_alone():
    vector = gymnasium.vector.SyncVectorEnv([make, make])
    observation, _ = vector.reset(seed=10)
    alone = [make(), make()]
    expected = [env.reset(seed=10 + k)[0] for k, env in enumerate(alone)]
    for step in range(20):
        assert (observation == np.stack(expected)).all()
        observation, rewards, _, _, infos = vector.step(np.array([step % 4, (step + 1) % 4]))
        results = [env.step((step + k) % 4) for k, env in enumerate(alone)]
        expected = [r[0] for r in results]
        assert rewards.tolist() == [r[1] for r in results] and infos["action_mask"].shape == (2, 4)


def test_masks_reach_sb3_contrib_through_wrappers():
    utils = pytest.importorskip("sb3_contrib.common.maskable.utils")
    env = gymnasium.wrappers.NormalizeReward(make(cluster={"schedule": [(0.5, 2, False)]}))
    env.reset(seed=0)
    while env.unwrapped.cluster.now_s < 0.5:
        env.step(0)
    assert utils.get_action_masks(env).tolist() == [True, True, False, True]
