"""The observation is the view and the request, and the specification names its columns."""

import gymnasium
import numpy as np
import pytest
from small import sessions

from smetric_gym.cluster import REQUEST_VIEW, VIEW
from smetric_gym.envs import FIELDS, ColocatedEnv, observation_space
from smetric_gym.errors import SmetricError
from smetric_gym.registration import ENVIRONMENTS, register_environments


def make():
    return ColocatedEnv(workload=lambda seed: sessions(seed=seed), instances=3, warm_up_s=0, window_s=3)


def test_columns_are_the_view_and_the_request():
    env = make()
    observation, _ = env.reset(seed=0)
    for step in range(30):
        row = dict(zip(FIELDS, observation.T, strict=True))
        for name in VIEW.names:
            assert (row[name] == env.cluster.view[name]).all(), name
        for name in REQUEST_VIEW.names:
            assert (row[name] == env.cluster.request[name]).all(), name
        assert env.observation_space.contains(observation)
        observation = env.step(step % 3)[0]


def test_observations_and_masks_can_be_kept():
    env = make()
    first, info = env.reset(seed=0)
    kept, mask = first.copy(), info["action_mask"].copy()
    for step in range(10):
        env.step(step % 3)
    assert (first == kept).all() and (info["action_mask"] == mask).all()


def test_bounds_are_finite_float32():
    space = observation_space(5)
    assert space.shape == (5, len(FIELDS)) and space.dtype == np.float32
    assert np.isfinite(space.high).all() and (space.low == 0).all() and (space.high > 0).all()


def test_the_docstring_lists_every_column_in_order():
    lines = [line.strip() for line in ColocatedEnv.__doc__.splitlines()]
    rows = [
        line.split("|") for line in lines if line.startswith("|") and line.split("|")[1].strip().isdigit()
    ]
    assert [int(row[1]) for row in rows] == list(range(len(FIELDS)))
    assert tuple(row[2].strip() for row in rows) == FIELDS


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda view, request: view.in_flight, r"observation <lambda> returned a float32 of shape \(2,\) for 2"),
        (lambda view, request: np.zeros((len(view), 3)), r"returned a float64 of shape \(2, 3\)"),
        (lambda view, request: 1, "returned a int for 2 instances, allowed: float32 of"),
        (lambda view, request: view.no_such_field, "observation <lambda> failed: AttributeError"),
    ],
)
def test_observations_of_your_own_are_checked(function, words):
    with pytest.raises(SmetricError, match=words):
        ColocatedEnv(instances=2, observation=function)


def test_registration_can_be_repeated():
    register_environments()
    specs = [gymnasium.spec(name) for name in ENVIRONMENTS]
    register_environments()
    assert [gymnasium.spec(name) for name in ENVIRONMENTS] == specs
