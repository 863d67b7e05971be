"""Why rows miss: every row is asked, tiny, and every miss that is reported has its sentence."""

import csv
from pathlib import Path

import pytest

from smetric_gym.experiment.settings import compose
from smetric_gym.reproduce.causes import OTHER, QUESTIONS, causes, sentences
from smetric_gym.reproduce.fidelity import targets
from smetric_gym.reproduce.study import Work

RESULTS = Path(__file__).parents[2] / "results"
ASKED_OTHERWISE = {*(f"W{k}" for k in range(1, 11)), "C31", "C33", "C37", "C38", "C40", "L10"}
"""Statistics of the workload, orders, and largest changes: rows that agree, or are only reported."""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    small = {"warm_up_s": 20.0, "window_s": 60.0, "loads": [1.0, 1.5, 1.75]}
    settings = compose(["experiment=causes"], small) | {"sizes": {"quick": [0]}}
    sizes = {"cluster.instances": 2}
    set_up = {name: {**change, **sizes} for name, change in settings["cases"]["set-up"].items()}
    set_up["prefill"]["cluster.decode_instances"] = 2
    variation = {"as used": {}, "asynchronous loads": {"cluster.loads": "async"}}
    settings["cases"] = {"set-up": set_up, "variation": variation}
    return causes(Work(settings, 1, tmp_path_factory.mktemp("store"))).table


def test_every_row_is_asked_or_excused():
    assert set(QUESTIONS) | set(OTHER) | ASKED_OTHERWISE == {row["id"] for row in targets()}


def test_every_question_is_answered_in_every_variation(table):
    for row, question in QUESTIONS.items():
        loads = 3 if question.loads else 1
        assert sum(line["id"] == row for line in table) == 2 * loads, row


def test_a_sentence_names_the_closest_variation(table):
    line = {"id": "C1", "variation": "as used", "load": "1", "paper": "0.58", "agrees": False}
    said = sentences([line | {"ours": 0.9}, line | {"ours": 0.6, "load": "1.5", "agrees": True}])["C1"]
    assert "agrees with as used, load 1.5: 0.6" in said
    assert "None of 1 variations" in sentences([line | {"ours": 0.9}])["C1"]
    assert set(sentences(table)) == set(QUESTIONS) | set(OTHER)


def test_every_miss_of_the_results_has_a_cause():
    rows = list(csv.DictReader((RESULTS / "fidelity.csv").read_text().splitlines()))
    assert len(rows) == 83
    assert all(row["cause"] for row in rows if row["verdict"] == "misses")
