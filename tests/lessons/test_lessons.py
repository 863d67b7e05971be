"""Every lesson runs from top to bottom, says where its claims come from, and its exercises tell right from wrong."""

import importlib.util
import re
from functools import cache

import pytest

from smetric_gym.lessons import lab
from smetric_gym.lessons.catalogue import LESSONS
from smetric_gym.lessons.exercise import Exercise
from smetric_gym.lessons.serve import CONTENTS

pytest.importorskip("marimo")
pytest.importorskip("plotly")
pytest.importorskip("cma")

NAMES = [lesson.file for lesson in LESSONS]


def app_of(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.app


@cache
def ran(name):
    """What a lesson shows (as text) and defines; an exception in any cell fails here."""
    outputs, definitions = app_of(next(lesson.path for lesson in LESSONS if lesson.file == name)).run()
    return "\n".join(getattr(output, "text", "") for output in outputs if output is not None), definitions


def test_there_are_eight_lessons_and_no_others():
    files = sorted(path.stem for path in CONTENTS.parent.glob("lesson_*.py"))
    assert files == NAMES and len(NAMES) == 8


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_runs_and_says_who_says_so(name):
    shown, _ = ran(name)
    assert "Measured here" in shown
    assert "The paper says" in shown or "Nothing in this lesson is the paper's" in shown
    assert re.search(r"<em>\d\d minutes\.", shown), "how long it takes"


@pytest.mark.parametrize("name", NAMES)
def test_the_exercises_tell_right_from_wrong(name):
    _, definitions = ran(name)
    exercises = [definitions[f"exercise_{k}"] for k in (1, 2, 3)]
    for k, exercise in enumerate(exercises, 1):
        assert isinstance(exercise, Exercise)
        assert exercise.question.startswith(f"**Exercise {k}.**")
        assert definitions[f"field_{k}"].value in (None, "")  # nothing is answered beforehand
        verdict = exercise.check(exercise.solution)
        assert verdict.right, (exercise.question, verdict.words)
        for answer in exercise.wrong:
            verdict = exercise.check(answer)
            assert not verdict.right, (exercise.question, answer)
            assert len(verdict.words) > 12  # it is told, not only refused


def test_the_policy_built_in_lesson_3_is_smetric():
    _, definitions = ran(NAMES[2])
    assert definitions["agreement"] == 1


def test_all_splits_of_lesson_6_serve_the_same_requests():
    assert "All four serve the same requests" in ran(NAMES[5])[0]


def test_lesson_7_turns_smetric_into_load_balance():
    assert ran(NAMES[6])[1]["same"] == 1


def test_lesson_8_trains():
    _, definitions = ran(NAMES[7])
    told = definitions["told"]
    assert told.shape == (definitions["generations"].value, definitions["POPULATION"])
    assert told[-1].mean() > told[0].mean()
    assert definitions["alike"]["lmetric"] == 1


def test_the_list_names_every_lesson():
    outputs, _ = app_of(CONTENTS).run()
    shown = "\n".join(output.text for output in outputs if output is not None)
    for lesson in LESSONS:
        assert lesson.title in shown and f"./{lesson.file}/" in shown


def test_agreement_is_one_with_itself_and_less_with_another():
    setup = {"warm_up_s": 100.0, "window_s": 100.0}
    assert lab.agreement(lab.load_policy("smetric"), "smetric", 50, **setup) == 1
    assert lab.agreement(lab.load_policy("always_busiest"), "load_balance", 50, **setup) < 0.5
