"""Bootstrap intervals."""

import numpy as np
import pytest

from smetric_gym.reproduce.statistics import interval


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(1)
    found = [interval(generator.normal(5, 2, size=10)) for _ in range(200)]
    covered = np.mean([low <= 5 <= high for _, low, high in found])
    assert 0.82 <= covered <= 0.99  # the percentile bootstrap of 10 values is a little too narrow


def test_the_mean_is_inside_and_equal_values_have_no_width():
    mean, low, high = interval(np.array([1.0, 2.0, 6.0]))
    assert mean == 3 and low < 3 < high
    assert interval(np.full(5, 7.0)) == (7, 7, 7)


@pytest.mark.parametrize("values", [[1.0], [1.0, 3.0], [1.0, np.nan, 3.0]])
def test_fewer_than_three_values_have_no_interval(values):
    found = interval(np.array(values))
    assert found.mean == np.nanmean(values) and np.isnan(found.low) and np.isnan(found.high)


def test_the_same_values_give_the_same_interval():
    values = np.random.default_rng(0).normal(size=8)
    assert interval(values) == interval(values.copy())
