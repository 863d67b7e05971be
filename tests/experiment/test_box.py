"""Axes of a search and points on them."""

import numpy as np
import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.box import around, axes, points


def test_values_of_places():
    plain, log, choice = axes({"a": [1, 3], "b": {"log": [0.1, 10]}, "c": {"choices": ["x", "y"]}})
    assert [plain.value(p) for p in (0, 0.5, 1)] == [1, 2, 3]
    assert [log.value(p) for p in (0, 0.5, 1)] == [0.1, 1, 10]
    assert [choice.value(p) for p in (0, 0.49, 0.5, 1)] == ["x", "x", "y", "y"]


@pytest.mark.parametrize("what", [[1], [3, 1], {"log": [0, 1]}, {"choices": []}, "ab", {"lag": [1, 2]}, None])
def test_what_is_no_axis(what):
    with pytest.raises(SmetricError, match="the box has lam: .*, allowed: "):
        axes({"lam": what})


def test_points_fill_the_cube_evenly_and_follow_the_seed():
    for dimensions in (1, 2, 4):
        places = points(dimensions, 64, seed=1)
        assert places.shape == (64, dimensions) and (places >= 0).all() and (places < 1).all()
        assert (np.abs(np.sort(places, axis=0) - (np.arange(64)[:, None] + 0.5) / 64) < 0.09).all()
        assert not np.array_equal(places, points(dimensions, 64, seed=2))


def test_a_smaller_cube_stays_inside():
    near = around(np.array([0.0, 0.5, 1.0]), np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]))
    np.testing.assert_allclose(near, [[0, 0.375, 0.75], [0.25, 0.625, 1]])
