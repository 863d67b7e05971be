"""Exercises with checked answers: a number, a choice, or a function that the student writes.

Each knows its right answer and some wrong ones, so that a test can see that the first is accepted and the
others are told. A notebook shows one in two cells, since marimo runs what reads a field anew when it changes::

    field_1 = exercise_1.field()
    exercise_1.show(field_1)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import cleandoc
from textwrap import dedent
from typing import Any, NamedTuple

import numpy as np

from smetric_gym.errors import SmetricError


class Verdict(NamedTuple):
    """What is said of an answer."""

    right: bool
    words: str


class Exercise(ABC):
    """A question, what is right, and what is said of the rest.

    Attributes:
        question: Markdown.
        why: Markdown, shown with a right answer and on demand: how one gets there.
    """

    question: str
    why: str

    @property
    @abstractmethod
    def solution(self) -> Any:
        """An answer that is accepted."""

    @property
    @abstractmethod
    def wrong(self) -> list[Any]:
        """Answers that are not."""

    @abstractmethod
    def check(self, answer: Any) -> Verdict:
        """Whether an answer is right, and what is said of it."""

    @abstractmethod
    def field(self) -> Any:
        """A marimo element to answer in; its value is None or empty until something was answered."""

    def show(self, field: Any) -> Any:
        """The question, the field, and the verdict once there is an answer."""
        import marimo as mo

        parts = [mo.md(cleandoc(self.question)), field]
        if field.value not in (None, ""):
            verdict = self.check(field.value)
            parts.append(mo.callout(mo.md(cleandoc(verdict.words)), kind="success" if verdict.right else "warn"))
        parts.append(mo.accordion({"Show an answer": mo.lazy(lambda: mo.md(self._answer()))}))
        return mo.vstack(parts)

    def _answer(self) -> str:
        return f"**{self.solution}**\n\n{cleandoc(self.why)}"

    def _right(self) -> Verdict:
        return Verdict(True, f"**Right.** {self.why}")


@dataclass(frozen=True)
class Number(Exercise):
    """A number.

    Attributes:
        question: see `Exercise`.
        answer: the right one, from a formula or a run.
        unit: of it.
        why: see `Exercise`.
        hint: what to think of, when it is wrong.
        within: relative tolerance.
        mistakes: usual wrong answers, and what each of them overlooks.
    """

    question: str
    answer: float
    unit: str
    why: str
    hint: str
    within: float = 0.03
    mistakes: Mapping[float, str] = field(default_factory=dict)

    @property
    def solution(self) -> str:
        """The answer with six digits that matter."""
        return f"{self.answer:.6g} {self.unit}"

    @property
    def wrong(self) -> list[Any]:
        """The usual mistakes, others, and what is no number."""
        return [*self.mistakes, 3 * self.answer + 1, -self.answer - 1, "many", "nan"]

    def check(self, answer: Any) -> Verdict:
        """Read "12,000", "12 000" and "12000 tokens" alike."""
        value = read_number(str(answer), self.unit)
        if value is None:
            return Verdict(False, f"{answer!r} is no number; a number in {self.unit} is asked for.")
        if self._is(value, self.answer):
            return self._right()
        for mistake, words in self.mistakes.items():
            if self._is(value, mistake):
                return Verdict(False, f"Not quite: {words}")
        return Verdict(False, f"Too {'high' if value > self.answer else 'low'}. {self.hint}")

    def field(self) -> Any:
        """A line of text."""
        import marimo as mo

        return mo.ui.text(label=f"A number ({self.unit}), then Enter:")

    def _is(self, value: float, other: float) -> bool:
        return math.isclose(value, other, rel_tol=self.within, abs_tol=1e-9)


def read_number(text: str, unit: str = "") -> float | None:
    """The number that a text says, with or without its unit, or None."""
    bare = text.strip().removesuffix(unit).replace(",", "").replace(" ", "").rstrip("%")
    try:
        value = float(bare)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Choice(Exercise):
    """One of several sentences.

    Attributes:
        question: see `Exercise`.
        options: every sentence, and what is said when it is chosen though it is wrong.
        answer: the right one of them.
        why: see `Exercise`.
    """

    question: str
    options: Mapping[str, str]
    answer: str
    why: str

    def __post_init__(self) -> None:
        if self.answer not in self.options:
            raise SmetricError(f"answer is {self.answer!r}, allowed: {', '.join(self.options)}")

    @property
    def solution(self) -> str:
        """The right sentence."""
        return self.answer

    @property
    def wrong(self) -> list[str]:
        """All others."""
        return [option for option in self.options if option != self.answer]

    def check(self, answer: Any) -> Verdict:
        """Wrong ones are told why."""
        if answer == self.answer:
            return self._right()
        return Verdict(False, f"No. {self.options.get(answer, 'That is none of the answers.')}")

    def field(self) -> Any:
        """A list of which one is chosen."""
        import marimo as mo

        return mo.ui.radio(list(self.options))


@dataclass(frozen=True)
class Code(Exercise):
    """A function to write.

    Attributes:
        question: see `Exercise`.
        name: of the function.
        start: source that the editor begins with; a wrong answer.
        answer: source of a right one.
        examine: called with the function; what is wrong with it in a sentence, or None.
        why: see `Exercise`.
    """

    question: str
    name: str
    start: str
    answer: str
    examine: Callable[[Callable], str | None]
    why: str

    @property
    def solution(self) -> str:
        """The source of a right function."""
        return self.answer

    @property
    def wrong(self) -> list[str]:
        """The start, and what is no such function."""
        return [self.start, "def", "x = 1", f"def {self.name}(*a):\n    raise RuntimeError"]

    def check(self, answer: Any) -> Verdict:
        """Run the source, and look at what the function does."""
        try:
            complaint = self.examine(function_in(answer, self.name))
        except SmetricError as error:
            complaint = str(error)
        except Exception as error:  # the student's code may raise anything
            complaint = f"your code raised {type(error).__name__}: {error}"
        return self._right() if complaint is None else Verdict(False, f"Not yet: {complaint}")

    def field(self) -> Any:
        """An editor with a button."""
        import marimo as mo

        return mo.ui.code_editor(self.start, language="python", min_height=120).form(submit_button_label="Check")

    def _answer(self) -> str:
        return f"```python\n{dedent(self.answer)}\n```\n\n{cleandoc(self.why)}"


def function_in(source: str, name: str) -> Callable:
    """The function of that name in a source, which may use ``np``.

    Raises:
        SmetricError: if the source cannot be run or has no such function.
    """
    known: dict[str, Any] = {"np": np}
    try:
        exec(compile(dedent(source), "<your answer>", "exec"), known)
    except Exception as error:
        raise SmetricError(f"your code cannot be run: {type(error).__name__}: {error}") from error
    if not callable(known.get(name)):
        raise SmetricError(f"your code has no function {name}")
    return known[name]
