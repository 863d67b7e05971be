"""The adapter tells Stable-Baselines3 what it needs to know, and SB3 learns on it."""

import numpy as np
import pytest
from small_envs import BASE, SCENARIO

from smetric_gym.envs import FIELDS, VectorColocatedEnv
from smetric_gym.errors import SmetricError

pytest.importorskip("stable_baselines3")
from smetric_gym.envs.sb3 import SB3VecEnv  # noqa: E402


def make(count=3, scale=1.0, **changes):
    return SB3VecEnv(VectorColocatedEnv(count, **{**BASE, **changes}), scale)


def test_it_says_how_episodes_end():
    adapter, plain = make(scale=0.5), VectorColocatedEnv(3, **BASE)
    adapter.seed(7)
    assert (adapter.reset() == plain.reset(seed=7)[0]).all()
    returns, lengths, ends = np.zeros(3), np.zeros(3, int), 0
    for k in range(120):
        actions = np.arange(k, k + 3) % 4
        observations, rewards, dones, infos = adapter.step(actions)
        expected = plain.step(actions)
        assert (observations == expected[0]).all() and (rewards == 0.5 * expected[1]).all()
        assert (dones == expected[2] | expected[3]).all() and rewards.dtype == np.float32
        returns, lengths = returns + rewards, lengths + 1
        for i, info in enumerate(infos):
            assert dones[i] == ("terminal_observation" in info)
            if dones[i]:
                final = expected[4]["final_info"]
                assert (info["terminal_observation"] == expected[4]["final_obs"][i]).all()
                assert info["TimeLimit.truncated"] is bool(expected[3][i])
                assert (info["episode"]["r"], info["episode"]["l"]) == (returns[i], lengths[i])
                assert info["scores"]["tps_within_slo"] == final["scores"]["tps_within_slo"][i]
                assert info["scores"]["tps_within_slo"] * BASE["window_s"] * 0.5 == info["episode"]["r"]
                assert info["elapsed_s"] == final["elapsed_s"][i] > 0
                returns[i], lengths[i], ends = 0, 0, ends + 1
            else:
                assert info["elapsed_s"] == expected[4]["elapsed_s"][i]
    assert ends >= 3


def test_the_end_of_a_recording_is_no_truncation():
    adapter = make(1, workload=BASE["workload"](0), window_s=500)
    adapter.reset()
    infos = [adapter.step(np.array([k % 4]))[3][0] for k in range(48)]
    assert infos[-1]["TimeLimit.truncated"] is False and "terminal_observation" in infos[-1]


def test_masks_reach_sb3_contrib():
    utils = pytest.importorskip("sb3_contrib.common.maskable.utils")
    adapter = SB3VecEnv(VectorColocatedEnv(4, scenario=SCENARIO))
    adapter.seed(0)
    adapter.reset()
    assert utils.is_masking_supported(adapter)
    masks = utils.get_action_masks(adapter)
    assert masks.shape == (4, 6) and masks.dtype == bool and masks.any(axis=1).all() and not masks.all()
    assert adapter.env_method("action_masks", indices=[1])[0].tolist() == masks[1].tolist()
    with pytest.raises(SmetricError, match="allowed: action_masks"):
        adapter.env_method("render")


def test_ppo_learns_some_steps_on_it():
    from stable_baselines3 import PPO

    adapter = make(4, 1e-4)
    model = PPO("MlpPolicy", adapter, n_steps=32, batch_size=64, n_epochs=1, seed=0, device="cpu")
    before = model.policy.action_net.weight.detach().clone()
    model.learn(256)
    assert model.observation_space.shape == (4, len(FIELDS)) and (model.policy.action_net.weight != before).any()
    assert len(model.ep_info_buffer) > 0


def test_maskable_ppo_never_picks_a_row_without_an_instance():
    contrib = pytest.importorskip("sb3_contrib")
    adapter = SB3VecEnv(VectorColocatedEnv(4, scenario=SCENARIO), 1e-4)
    model = contrib.MaskablePPO("MlpPolicy", adapter, n_steps=32, batch_size=64, n_epochs=1, seed=0, device="cpu")
    model.learn(256)  # a masked row would be refused


def test_other_environments_are_refused():
    with pytest.raises(SmetricError, match="envs is a int"):
        SB3VecEnv(3)
    with pytest.raises(SmetricError, match="reward_scale is 0"):
        make(scale=0)
