"""A vector of environments is each of them alone, to the last bit, also over the ends of episodes."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from small_envs import BASE, SCENARIO, agents

from smetric_gym.envs import (
    ColocatedEnv,
    DisaggregatedEnv,
    Teacher,
    VectorColocatedEnv,
    VectorDisaggregatedEnv,
    VectorTeacher,
)
from smetric_gym.errors import SmetricError

MANY = 3
def late_tokens(ended, elapsed_s):
    return float(ended.prompt_tokens[ended.ttft_s > ended.ttft_limit_s].sum()) - elapsed_s


def two_columns(view, request):
    out = np.empty((len(view), 2), dtype=np.float32)
    for i in range(len(view)):
        out[i, 0] = view[i]["local_hit_tokens"] / request["prompt_tokens"]
        out[i, 1] = view[i]["in_flight"]
    return out


class NotForNumba:
    def __call__(self, view, request):
        return np.array([[row["in_flight"]] for row in view], dtype=np.float32)


CASES = {
    "plain": BASE,
    "away": BASE | {"cluster": {"schedule": [(1.0, 1, False), (2.0, 1, True), (3.0, 0, False)]}},
    "lag": BASE | {"cluster": {"view_lag_s": 0.2}},
    "recording": BASE | {"workload": agents(0), "window_s": 500},
    "shuffled": BASE | {"shuffle": True, "max_instances": 7},
    "pool": BASE | {"pool": [3, 4]},
    "credit": BASE | {"reward": "decision_goodput"},
    "relative": BASE | {"reward": "relative_goodput", "reference": "load_balance"},
    "smooth": BASE | {"reward": "smooth"},
    "own": BASE | {"reward": late_tokens},
    "features": BASE | {"observation": two_columns, "shuffle": True},
    "slow features": BASE | {"observation": NotForNumba(), "max_instances": 5},
    "scenarios": {"scenario": SCENARIO},
}


def same(one, other, where="info"):
    """Equal values, types and shapes, also inside of dicts and arrays of objects."""
    if isinstance(one, dict):
        # A key that no environment has is missing in SyncVectorEnv; here it is there, and masked everywhere.
        nobody = {key for key in other if f"_{key}" in other and not other[f"_{key}"].any()} - set(one)
        other = {key: value for key, value in other.items() if key.removeprefix("_") not in nobody}
        assert sorted(one) == sorted(other), (where, sorted(one), sorted(other))
        for key in one:
            same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, np.ndarray) and one.dtype == object:
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            same(a, b, f"{where}[{k}]")
    else:
        assert type(one) is type(other), where
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None), where
        np.testing.assert_array_equal(one, other, err_msg=where)


@pytest.mark.parametrize("case", CASES)
def test_it_is_single_environments_in_step(case):
    settings = CASES[case]
    alone = SyncVectorEnv([lambda: ColocatedEnv(**settings)] * MANY, autoreset_mode=AutoresetMode.SAME_STEP)
    together = VectorColocatedEnv(MANY, **settings)
    for name in ("single_observation_space", "observation_space", "single_action_space", "action_space"):
        assert getattr(alone, name) == getattr(together, name)
    expected, found = alone.reset(seed=3), together.reset(seed=3)
    for one, other in zip(expected, found, strict=True):
        same(one, other)
    random, ends = np.random.default_rng(0), 0
    for _ in range(130):
        mask = found[1]["action_mask"] if len(found) == 2 else found[4]["action_mask"]
        assert (together.action_masks() == (mask > 0)).all()
        actions = np.array([random.choice(np.flatnonzero(row)) for row in mask])
        expected, found = alone.step(actions), together.step(actions)
        for one, other in zip(expected, found, strict=True):
            same(one, other)
        ends += int((found[2] | found[3]).sum())
    assert ends >= MANY, "the case should go over the end of episodes"


def test_disaggregated_too():
    settings = BASE | {"decode_instances": 2}
    alone = SyncVectorEnv([lambda: DisaggregatedEnv(**settings)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    together = VectorDisaggregatedEnv(2, **settings)
    alone.reset(seed=0), together.reset(seed=0)
    for k in range(120):
        actions = np.array([k % 4, k % 3])
        for one, other in zip(alone.step(actions), together.step(actions), strict=True):
            same(one, other)


def test_make_vec_gives_it():
    vector = gymnasium.make_vec("smetric_gym:SMetric/Colocated-v0", num_envs=3, **BASE)
    assert isinstance(vector.unwrapped, VectorColocatedEnv) and vector.num_envs == 3
    assert vector.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    observations, _ = vector.reset(seed=0)
    assert vector.observation_space.contains(observations)


def test_neighbours_can_share_their_episodes():
    vector = VectorColocatedEnv(4, share=2, scenario=SCENARIO)
    for seed in (5, None):
        observations, info = vector.reset(seed=seed)
        assert (observations[0] == observations[1]).all() and (observations[2] == observations[3]).all()
        seeds = info["scenario_seed"]
        assert seeds[0] == seeds[1] != seeds[2] == seeds[3]
    begun = [[int(s)] for s in seeds]
    random = np.random.default_rng(0)
    while min(map(len, begun)) < 3:
        actions = np.array([random.choice(np.flatnonzero(row)) for row in vector.action_masks()])
        info = vector.step(actions)[4]
        for i in np.flatnonzero(info.get("_final_info", np.zeros(4, bool))):
            begun[i].append(int(info["scenario_seed"][i]))
    assert begun[0][:3] == begun[1][:3] and begun[2][:3] == begun[3][:3]


def test_a_policy_scores_as_alone():
    vector, alone = VectorColocatedEnv(3, scenario=SCENARIO), ColocatedEnv(scenario=SCENARIO)
    teacher, single = VectorTeacher(vector, "smetric"), Teacher(alone, "smetric")
    compared = 0
    seeds = vector.reset(seed=4)[1]["scenario_seed"].tolist()
    while compared < 5:
        info = vector.step(teacher.actions())[4]
        for i in np.flatnonzero(info.get("_final_info", np.zeros(3, bool))):
            alone.reset(options={"scenario_seed": seeds[i]})
            over = False
            while not over:
                _, _, terminated, truncated, last = alone.step(single.action())
                over = terminated or truncated
            scores = {name: of[i] for name, of in info["final_info"]["scores"].items() if not name.startswith("_")}
            np.testing.assert_equal(scores, dict(last["scores"]))
            seeds[i], compared = int(info["scenario_seed"][i]), compared + 1


def test_buffers_are_kept_or_shared():
    for copy in (True, False):
        vector = VectorColocatedEnv(2, copy=copy, **BASE)
        first, _ = vector.reset(seed=0)
        kept = first.copy()
        second = vector.step(np.array([0, 1]))[0]
        assert ((first == kept).all(), first is second) == (copy, not copy)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_envs": 0}, "num_envs is 0"),
        ({"num_envs": 3, "share": 2}, "share is 2, allowed: a divisor of num_envs, 3"),
        ({"render_mode": "ansi"}, "render_mode is 'ansi'"),
        ({"pool": 0}, "pool is 0"),
        ({"max_instances": 2}, "max_instances is 2, allowed: a whole number, 4 or more"),
        ({"shuffle": 1}, "shuffle is 1"),
        ({"policy": "smetric"}, "policy is 'smetric'"),
    ],
)
def test_wrong_arguments_are_named(changes, words):
    with pytest.raises(SmetricError, match=words):
        VectorColocatedEnv(**{"num_envs": 2, **BASE, **changes})


def test_wrong_actions_are_named_and_change_nothing():
    vector = VectorColocatedEnv(2, **BASE)
    with pytest.raises(SmetricError, match="call reset"):
        vector.step(np.zeros(2, int))
    vector.reset(seed=0)
    for actions, words in (
        (np.array([0, 4]), r"environment 1: action is 4, allowed: a whole number in 0\.\.3"),
        (np.array([-1, 0]), "environment 0: action is -1"),
        (np.zeros(2), r"actions are float64 of shape \(2,\)"),
        (np.zeros(3, int), r"of shape \(3,\), allowed: whole numbers of shape \(2,\)"),
    ):
        with pytest.raises(SmetricError, match=words):
            vector.step(actions)
    assert [c.view.routed.sum() for c in vector.clusters] == [0, 0]
    assert (vector.reset(seed=[4, 5])[0] == VectorColocatedEnv(2, **BASE).reset(seed=4)[0]).all()
    with pytest.raises(SmetricError, match="seed has 1 values"):
        vector.reset(seed=[1])


def test_an_episode_that_is_over_stays_as_it_was():
    vector = VectorColocatedEnv(2, **BASE)
    vector.reset(seed=0)
    random, clusters = np.random.default_rng(0), list(vector.clusters)
    info: dict = {}
    while "final_info" not in info:
        info = vector.step(random.integers(4, size=2))[4]
    i = int(np.flatnonzero(info["_final_info"])[0])
    for _ in range(5):
        vector.step(random.integers(4, size=2))
    assert clusters[i] is not vector.clusters[i]
    outcome, requests = clusters[i].outcome, clusters[i].trace.requests
    scored = (outcome["arrival_s"] >= BASE["warm_up_s"]) & (outcome["arrival_s"] < BASE["warm_up_s"] + BASE["window_s"])
    tokens = (requests["prompt"] + requests["output"])[scored & np.isfinite(outcome["finish_s"])].sum()
    assert tokens / BASE["window_s"] == info["final_info"]["scores"]["tps"][i]
