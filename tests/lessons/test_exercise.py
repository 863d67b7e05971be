"""The checks of exercises: right answers are accepted, wrong ones are told why."""

import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.lessons.exercise import Choice, Code, Number, function_in, read_number


def number(**changes):
    given = {"question": "?", "answer": 12.5, "unit": "GB", "why": "because", "hint": "think", "within": 0.02}
    return Number(**given | changes)


@pytest.mark.parametrize(
    ("text", "value"),
    [("12.5", 12.5), ("12,000", 12000), ("12 000 GB", 12000), (" 12 % ", 12), ("1e3GB", 1000), ("-3", -3)],
)
def test_numbers_are_read_as_people_write_them(text, value):
    assert read_number(text, "GB") == value


@pytest.mark.parametrize("text", ["", "many", "nan", "inf", "1 2 x", "GB"])
def test_what_is_no_number_is_told(text):
    assert read_number(text, "GB") is None
    assert "no number" in number().check(text).words


def test_a_number_is_right_within_its_tolerance():
    for text in ("12.5", "12.3 GB", "12.7"):
        assert number().check(text).right
    for text, word in (("12.2", "low"), ("12.8", "high"), ("-12.5", "low")):
        verdict = number().check(text)
        assert not verdict.right and f"Too {word}" in verdict.words and "think" in verdict.words


def test_a_usual_mistake_gets_its_own_words():
    verdict = number(mistakes={100.0: "bits are no bytes"}).check("100")
    assert not verdict.right and "bits are no bytes" in verdict.words


def test_a_choice_says_why_another_one_is_wrong():
    choice = Choice(question="?", options={"a": "", "b": "b is blue"}, answer="a", why="a it is")
    assert choice.check("a").right and "a it is" in choice.check("a").words
    assert not choice.check("b").right and "b is blue" in choice.check("b").words
    with pytest.raises(SmetricError, match="answer is 'c', allowed: a, b"):
        Choice(question="?", options={"a": "", "b": ""}, answer="c", why="")


def double():
    def examine(function):
        return None if function(3) == 6 else f"3 becomes {function(3)}"

    return Code(
        question="?",
        name="double",
        start="def double(x):\n    return x",
        answer="def double(x):\n    return 2 * x",
        examine=examine,
        why="twice",
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def double(x):\n    return x", "3 becomes 3"),
        ("def double(x)\n    return x", "cannot be run: SyntaxError"),
        ("import nothing_of_this_name", "cannot be run: ModuleNotFoundError"),
        ("def triple(x):\n    return x", "no function double"),
        ("double = 3", "no function double"),
        ("def double(x):\n    return 1 / 0", "raised ZeroDivisionError"),
        ("def double():\n    return 6", "raised TypeError"),
    ],
)
def test_wrong_code_is_told(source, words):
    verdict = double().check(source)
    assert not verdict.right and words in verdict.words


def test_right_code_is_accepted():
    assert double().check("def double(x):\n    return x + x").right
    assert double().check(double().solution).right


def test_code_may_use_numpy_and_be_indented():
    assert function_in("    def f():\n        return np.pi", "f")() > 3
