"""Which lessons there are, in the order in which they build on each other."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Lesson(NamedTuple):
    """One lesson.

    Attributes:
        file: name of its file in this folder, without ``.py``; also its address on the page.
        title: as the list says it.
        about: one sentence on what is learned.
    """

    file: str
    title: str
    about: str

    @property
    def path(self) -> Path:
        """The notebook."""
        return Path(__file__).with_name(f"{self.file}.py")


LESSONS = (
    Lesson(
        "lesson_1_agents_are_not_chat",
        "Why agents are not chat",
        "What agents send, what of it is already in some cache, and why that makes the router matter.",
    ),
    Lesson(
        "lesson_2_cache_against_balance",
        "Cache against balance",
        "The two ways to fail, live: follow the cache and drown, spread the load and compute everything again.",
    ),
    Lesson(
        "lesson_3_the_session_is_the_unit",
        "The session is the unit",
        "SMetric from its pseudocode, built up line by line until it decides as the reference does.",
    ),
    Lesson(
        "lesson_4_two_guards",
        "Two guards",
        "When a session may leave its instance: OVERLOAD, HIT_RATIO, and the plane of both.",
    ),
    Lesson(
        "lesson_5_the_global_tier",
        "What a global tier buys",
        "A second chance for every miss, and the links that it has to pass.",
    ),
    Lesson(
        "lesson_6_disaggregation",
        "Disaggregation",
        "Prefill and decode on instances of their own: what it costs, what it calms, and what load means then.",
    ),
    Lesson(
        "lesson_7_when_smetric_is_wrong",
        "When SMetric is the wrong choice",
        "Workloads and clusters that break its assumptions, and how to see it before you deploy.",
    ),
    Lesson(
        "lesson_8_train_a_router",
        "Train a router",
        "A router as a weighted sum, trained by evolution in seconds, and tested as it must be.",
    ),
)
