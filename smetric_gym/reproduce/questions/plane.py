"""Question 2: OVERLOAD x HIT_RATIO as a plane, in four corners, with the eviction policy of the caches beside it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.compare import choice
from smetric_gym.reproduce.cases import Case, at_edge, cases_of, run_cases
from smetric_gym.reproduce.grid import Runs
from smetric_gym.reproduce.questions.words import clear, columns, percent, read
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import gain_words, new_figure

DEFAULT = (2.0, 0.5)
"""OVERLOAD and HIT_RATIO that the plane is compared with: those of conf/policy/smetric.yaml."""
DARKEST = 10.0
"""% of change from which on the colour is the darkest; the number in the cell tells more."""
NEAR = 0.04
"""The paper finds 0 to 0.75 of HIT_RATIO within 4 % of its default, and OVERLOAD within 6 %."""


def question_2(work: Work) -> Outcome:
    """Maximum over the loads at every point of the plane against the default, in every corner and eviction policy."""
    plane = work.settings["plane"][work.settings["size"]]
    points = list(itertools.product(_numbers(plane, "overload"), _numbers(plane, "hit_ratio")))
    cases = cases_of(work.settings)
    corners, evictions = ([case for case in cases if case.axis == axis] for axis in ("corner", "eviction"))
    pairs = list(itertools.product(evictions, corners))
    policies = [_policy(point) for point in dict.fromkeys([DEFAULT, *points])]
    here = replace(work, settings={**work.settings, "policies": policies})
    found = run_cases(here, [corner + eviction for eviction, corner in pairs])
    rows = [
        _row(eviction, corner, point, runs)
        for (eviction, corner), runs in zip(pairs, found, strict=True)
        for point in points
    ]
    defaults = {
        (eviction.name, corner.name): runs.maximum(_label(DEFAULT))
        for (eviction, corner), runs in zip(pairs, found, strict=True)
    }
    told = [row for row in rows if row["eviction"] == evictions[0].name]
    return Outcome(rows, _picture(rows), _words(told) + _eviction_words(evictions, corners, defaults))


def _policy(point: tuple[float, float]) -> dict[str, Any]:
    return {"name": "smetric", "overload": point[0], "hit_ratio": point[1]}


def _label(point: tuple[float, float]) -> str:
    return choice(_policy(point))[0]


def _row(eviction: Case, corner: Case, point: tuple[float, float], runs: Runs) -> dict[str, Any]:
    policy, default = _label(point), _label(DEFAULT)
    return {
        "eviction": eviction.name, "corner": corner.name, "overload": point[0], "hit_ratio": point[1],
        **columns("change", interval(runs.gain(policy, default))),
        **columns("maximum", interval(runs.maximum(policy))), "score": runs.target,
        "load_at_max": float(np.mean([runs.loads[k] for k in runs.comparison().best_load(policy)])),
        "at_edge": at_edge(runs),
    }  # fmt: skip


def _words(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence on the plane of every corner under every eviction policy of the rows."""
    words = []
    for eviction, corner in dict.fromkeys((row["eviction"], row["corner"]) for row in rows):
        here = [row for row in rows if (row["eviction"], row["corner"]) == (eviction, corner)]
        best, worst = (pick(here, key=lambda row: row["change"]) for pick in (max, min))
        near = sum(abs(row["change"]) <= NEAR for row in here)
        told = [row for row in here if clear(read(row, "change"))]
        words.append(
            f"{corner}, {eviction}: the plane spans {_point(worst)} to {_point(best)} of the default's maximum; "
            f"{near} of {len(here)} points lie within {100 * NEAR:g} % of it, and "
            f"{sum(row['change'] > 0 for row in told)} are better, {sum(row['change'] < 0 for row in told)} worse by "
            "more than the interval over the seeds."
        )
    return words


def _point(row: Mapping[str, Any]) -> str:
    return f"{percent(read(row, 'change'))} at OVERLOAD {row['overload']:g}, HIT_RATIO {row['hit_ratio']:g}"


def _eviction_words(
    evictions: Sequence[Case], corners: Sequence[Case], defaults: Mapping[tuple[str, str], np.ndarray]
) -> list[str]:
    """The default point under every eviction policy but the first, against the first."""
    first, *others = evictions
    return [
        f"{other.name} instead of {first.name} at the default point: "
        + "; ".join(
            f"{corner.name} {gain_words(defaults[other.name, corner.name] / defaults[first.name, corner.name] - 1)}"
            for corner in corners
        )
        + "."
        for other in others
    ]


def _picture(rows: Sequence[Mapping[str, Any]]) -> Figure:
    evictions, corners, overloads, ratios = (
        list(dict.fromkeys(row[name] for row in rows)) for name in ("eviction", "corner", "overload", "hit_ratio")
    )
    figure, axes = new_figure(3.6 * len(corners), 0.9 + 2.6 * len(evictions), len(evictions), len(corners))
    for (i, eviction), (j, corner) in itertools.product(enumerate(evictions), enumerate(corners)):
        panel, change = axes[i, j], np.zeros((len(ratios), len(overloads)))
        for row in rows:
            if (row["eviction"], row["corner"]) == (eviction, corner):
                x, y = overloads.index(row["overload"]), ratios.index(row["hit_ratio"])
                change[y, x] = 100 * row["change"]
                star = "*" if clear(read(row, "change")) else ""
                shade = "white" if abs(change[y, x]) > 0.6 * DARKEST else "black"
                panel.text(x, y, f"{change[y, x]:+.1f}{star}", ha="center", va="center", color=shade, fontsize=9)
        image = panel.imshow(change, cmap="PuOr", vmin=-DARKEST, vmax=DARKEST, origin="lower", aspect="auto")
        panel.set_xticks(range(len(overloads)), [f"{value:g}" for value in overloads])
        panel.set_yticks(range(len(ratios)), [f"{value:g}" for value in ratios])
        panel.grid(visible=False)
        panel.set_title(f"{corner}, {eviction}", fontsize=10)
        if j == 0:
            panel.set_ylabel("HIT_RATIO")
        if i == len(evictions) - 1:
            panel.set_xlabel("OVERLOAD")
    figure.colorbar(image, ax=axes, extend="both", label="maximum against 2 / 0.5 (%)\n*: interval without 0")
    return figure


def _numbers(plane: Mapping[str, Any], name: str) -> list[float]:
    try:
        return [float(value) for value in plane[name]]
    except (TypeError, ValueError):
        raise SmetricError(f"plane.{name} is {plane[name]!r}, allowed: a list of numbers, inf for no limit") from None
