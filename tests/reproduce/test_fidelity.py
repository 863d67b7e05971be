"""The rules of the fidelity table."""

import numpy as np
import pytest

from smetric_gym.reproduce import fidelity
from smetric_gym.reproduce.fidelity import Found, agrees, targets


def found(*values, **how):
    return Found(np.array(values, dtype=float), **how)


def row(compare, value="0.5", unit="fraction"):
    return {"compare": compare, "value": value, "unit": unit}


@pytest.mark.parametrize(
    ("rule", "paper", "unit", "ours", "verdict"),
    [
        ("within 0.05", "0.6", "fraction", 0.64, True),
        ("within 0.05", "0.6", "fraction", 0.66, False),
        ("within a factor of 1.5", "12.1", "s", 8.1, True),
        ("within a factor of 1.5", "12.1", "s", 8.0, False),
        ("within a factor of 1.5", "12.1", "s", 18.2, False),
        ("at least", "0.93", "ratio", 0.93, True),
        ("at least", "0.93", "ratio", 0.92, False),
        ("at most", "0.06", "fraction", 0.07, False),
        ("absolute value at most", "0.01", "gain", -0.005, True),
        ("absolute value at most", "0.01", "gain", -0.02, False),
        ("order and size", "0.10", "gain", 0.06, True),
        ("order and size", "0.10", "gain", 0.04, False),
        ("order and size", "0.10", "gain", -0.01, False),
        ("order and size", "0.02", "gain", 0.045, True),  # the floor of 0.03
        ("order and size", "0.83", "ratio", 0.9, True),  # 17 % less against 10 % less
        ("order and size", "0.83", "ratio", 1.02, False),
        ("reported at the paper's scale", "43", "1/min", 10, None),
    ],
)
def test_rules(rule, paper, unit, ours, verdict):
    assert agrees(row(rule, paper, unit), found(ours)) is verdict


def test_orders_are_what_the_study_says():
    assert agrees(row("order", ""), found(1, holds=True)) is True
    assert agrees(row("above smetric"), found(0.9, holds=False)) is False


def test_a_row_without_a_number_misses():
    assert agrees(row("within 0.05"), found(np.nan, np.nan)) is False


def test_every_rule_of_the_paper_is_known():
    for target in targets():
        assert agrees(target, found(1.0, holds=True)) in (True, False, None), target["id"]
    assert len(targets()) == 83


def test_the_page_counts_and_explains():
    ours = {"C1": found(0.58, 0.58, 0.58), "C3": found(0.5, 0.5, 0.5), "W10": found(9.0)}
    rows = fidelity.table(ours, {"C3": "because."})
    assert fidelity.count(rows, "agrees") == 1 and fidelity.count(rows, "misses") == 1
    assert fidelity.count(rows, "reported") == 1 and fidelity.count(rows, "not measured") == 80
    page = fidelity.markdown(rows, "the command")
    assert "1 of 82 rows agree" in page and "because." in page and "the command" in page
    assert "0.500 (0.500 to 0.500)" in page
