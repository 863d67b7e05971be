"""Draws repeat, stay in their ranges and out of what is held out; environments serve what was drawn."""

import copy

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from small_envs import SCENARIO

from smetric_gym.envs import FIELDS, ColocatedEnv, DisaggregatedEnv, ScenarioDistribution, Teacher
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.evaluate import evaluate
from smetric_gym.experiment.settings import choices

TINY = {"max_instances": 4, "trace_seeds": [0, 9], "draw": {"instances": 2, "warm_up_s": 0.0, "window_s": 20.0}}


def test_draws_repeat_and_differ():
    one, other = ScenarioDistribution("train"), ScenarioDistribution("train")
    draws = [one.draw(seed) for seed in range(40)]
    assert draws == [other.draw(seed) for seed in range(40)] and len({str(d) for d in draws}) == 40


def test_training_and_held_out_regions_never_meet():
    train, heldout = ScenarioDistribution("train"), ScenarioDistribution("heldout")
    seen, kept = [train.draw(s) for s in range(500)], [heldout.draw(s) for s in range(200)]
    assert not any(train.is_held_out(d) for d in seen) and all(train.is_held_out(d) for d in kept)
    assert max(d["trace_seed"] for d in seen) < min(d["trace_seed"] for d in kept)
    assert not any(20 <= d["instances"] <= 28 for d in seen) and any(20 <= d["instances"] <= 28 for d in kept)
    sizes = [d["instances"] for d in seen]
    assert min(sizes) == 4 and max(sizes) > 48 and {d["global_tier"] for d in seen} == {0, 0.4, 0.8, 1.6, 3.2}
    assert min(d["load"] for d in seen) < 0.4 and max(d["load"] for d in seen) > 4
    assert {d["workload"] for d in seen} == {"trace1", "trace2"} and {d["outages"] for d in seen} == {0, 1, 2}


def test_kinds_of_draws():
    spec = copy.deepcopy(TINY)
    spec["draw"] |= {
        "load": {"log_uniform": [0.5, 2.0]},
        "global_tier": [0.0, {"uniform": [1.0, 2.0]}],
        "hardware": [{"hardware": ["h20_30b", "h200_30b"], "slo": "relaxed"}],
        "instances": {"log_integers": [2, 4]},
        "cluster.nics_per_server": {"integers": [1, 2]},
    }
    draws = [ScenarioDistribution(spec).draw(s) for s in range(100)]
    assert all(0.5 <= d["load"] <= 2 and (d["global_tier"] == 0 or 1 <= d["global_tier"] <= 2) for d in draws)
    assert {d["instances"] for d in draws} == {2, 3, 4} and {d["cluster.nics_per_server"] for d in draws} == {1, 2}
    env = ColocatedEnv(scenario=spec)
    env.reset(seed=0)
    count = env.setup.config.instances
    assert env.setup.config.hardware == ("h20_30b", "h200_30b", "h20_30b", "h200_30b")[:count]
    assert env.setup.slo.tpot_s == 0.05


@pytest.mark.parametrize("name", choices("scenario"))
def test_the_scenarios_of_the_package_can_be_played(name):
    env = ColocatedEnv(scenario=name)
    for seed in range(3):
        observation, info = env.reset(options={"scenario_seed": seed})
        drawn = ScenarioDistribution(name).draw(seed)
        assert info["scenario_seed"] == seed and info["trace_seed"] == drawn["trace_seed"]
        assert info["instances"] == env.setup.config.instances == drawn["instances"]
        assert observation.shape == (ScenarioDistribution(name).max_instances, len(FIELDS))
        assert info["action_mask"].sum() == info["instances"] == (observation[:, FIELDS.index("alive")] > 0).sum()
        assert not observation[info["instances"] :].any()
        schedule = env.setup.config.schedule
        assert len(schedule) == 2 * min(drawn.get("outages", 0), drawn["instances"] - 1)


def test_a_drawn_episode_is_what_evaluate_serves_whatever_the_order_of_rows():
    spec = {**SCENARIO, "draw": SCENARIO["draw"] | {"cluster.view_lag_s": 0.0, "outages": 0}}
    env = ColocatedEnv(scenario=spec)
    teacher = Teacher(env, "smetric")
    orders = set()
    for seed in range(4):
        env.reset(seed=seed, options={"scenario_seed": seed})
        orders.add(tuple(env.rows))
        over = False
        while not over:
            _, _, terminated, truncated, info = env.step(teacher.action())
            over = terminated or truncated
        drawn = ScenarioDistribution(spec).draw(seed)
        names = ("instances", "load", "global_tier", "warm_up_s", "window_s")
        result = evaluate("smetric", seed=drawn["trace_seed"], **{name: drawn[name] for name in names})
        np.testing.assert_equal(info["scores"], dict(result))
    assert len(orders) == 4


def test_a_disaggregated_cluster_grows_on_both_sides():
    env = DisaggregatedEnv(scenario="one")
    env.reset(seed=0)
    assert (env.setup.config.instances, env.setup.config.decode_instances) == (8, 8)


def test_gymnasium_accepts_it():
    check_env(ColocatedEnv(scenario=TINY | {"max_instances": 2}, shuffle=True))  # its actions heed no mask


def test_rows_without_an_instance_are_refused():
    env = ColocatedEnv(scenario=TINY)
    env.reset(seed=0)
    with pytest.raises(SmetricError, match=r"in 0\.\.3, and not 2, 3 \(down or without an instance\)"):
        env.step(3)


def test_settings_beside_a_scenario():
    env = ColocatedEnv(scenario=TINY, load=2.0, slo="relaxed")
    env.reset(seed=0)
    assert env.setup.settings["load"] == 2.0 and env.setup.slo.ttft_s == 4.0
    with pytest.raises(SmetricError, match="instances is given and drawn by scenario own"):
        ColocatedEnv(scenario=TINY, instances=3)
    with pytest.raises(SmetricError, match="has the key 'trace_seed', allowed: scenario_seed"):
        env.reset(options={"trace_seed": 1})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("tain", "scenario is 'tain'.*did you mean train"),
        (5, "scenario is 5, allowed: a name, a mapping"),
        ({"max_instance": 4}, "did you mean max_instances"),
        ({"max_instances": 1}, "draws 2 instances, allowed: up to max_instances, 1"),
        ({"max_instances": None}, "max_instances is None"),
        ({"shuffle": "yes"}, "shuffle is 'yes'"),
        ({"trace_seeds": [5, 1]}, r"trace_seeds must be \[first, last\]"),
        ({"trace_seeds": 5}, r"trace_seeds must be \[first, last\]"),
        ({"draw": {"load": {"unifrom": [1, 2]}}}, "'unifrom'.*did you mean uniform"),
        ({"draw": {"load": {"uniform": [2, 1]}}}, r"load is drawn from uniform: \[2, 1\], allowed: \[low, high\]"),
        ({"draw": {"load": {"log_uniform": [0, 1]}}}, r"log_uniform: \[0, 1\], allowed: .* above 0"),
        ({"draw": {"load": []}}, "load is drawn from an empty list"),
        ({"draw": {"laod": 1.0}}, "a drawn key is 'laod'.*did you mean load"),
        ({"draw": {"cluster.instnces": 1}}, "a drawn key is 'cluster.instnces'"),
        ({"draw": {"workload": "trace3"}}, "workload is 'trace3'.*did you mean trace"),
        ({"draw": {"outages": 1}}, "outages are drawn, but not outage_s"),
        ({"held_out": [{"lod": 1}]}, "held_out names a key"),
        ({"held_out": [{"instances": 2}]}, "outside held_out"),
        ({"held_out": [{"instances": {"from": 2}}]}, "allowed: .*between"),
        ({"held_out_of": "train"}, "trace_seeds overlap those of train"),
        ({"held_out_of": "one", "trace_seeds": [1000000, 1000001]}, "'one', which holds nothing out"),
    ],
)
def test_nonsense_is_named(change, words):
    spec = change
    if isinstance(change, dict):
        spec = {**copy.deepcopy(TINY), **change}
        spec["draw"] = TINY["draw"] | change.get("draw", {})
        if "held_out_of" in change:
            del spec["draw"]
    with pytest.raises(SmetricError, match=words):
        ColocatedEnv(scenario=spec)
