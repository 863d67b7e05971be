"""Numbers in sentences."""

import numpy as np

from smetric_gym.reproduce.questions.words import clear, columns, ends, percent, read, thousand
from smetric_gym.reproduce.statistics import Interval

NONE = float("nan")


def test_sentences_have_the_interval_where_there_is_one():
    assert percent(Interval(0.012, 0.004, 0.02)) == "+1.2 % (95 % interval +0.4 to +2.0 %)"
    assert percent(Interval(-0.012, NONE, NONE)) == "-1.2 %"
    assert thousand(Interval(12_300, -3_000, 27_000)) == (
        "+12 thousand tokens (95 % interval -3 to +27 thousand tokens)"
    )


def test_only_an_interval_without_0_is_clear():
    assert clear(Interval(1, 0.5, 2)) and clear(Interval(-1, -2, -0.5))
    assert not clear(Interval(1, -0.5, 2)) and not clear(Interval(1, NONE, NONE))


def test_rows_keep_intervals():
    assert read({"policy": "x", **columns("gain", Interval(1.0, 0.5, 2.0))}, "gain") == (1.0, 0.5, 2.0)
    assert ends(np.array([[1.0, 0.5, 3.0], [1.0, NONE, NONE]])).tolist() == [[0.5, 0.0], [2.0, 0.0]]
