"""Question 8: whether the order of the policies on ``trace1`` holds on recorded sessions."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.experiment.compare import Job
from smetric_gym.reproduce.cases import Case, cases_of, run_cases
from smetric_gym.reproduce.grid import Record, Runs
from smetric_gym.reproduce.questions.pieces import make_all
from smetric_gym.reproduce.questions.sampled import scores
from smetric_gym.reproduce.questions.words import percent
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import ORDER, line_of, name_of, new_figure

FOLDER = "SMETRIC_GYM_TRACES"
"""Environment variable with the folder of the recorded traces; results do not repeat it."""
RIVALS = ("lmetric", "lmetric_v1", "bailian", "load_balance")
SHARE = 0.75
"""Of the sessions of a recorded trace, kept for a seed."""


def question_8(work: Work) -> Outcome:
    """Maximum of every policy, its rank, and how well the ranks agree with those of the first workload."""
    cases: list[Case] = []
    missing: list[Case] = []
    for case in cases_of(work.settings):
        path = _path(case)
        (cases if path is None or path.is_file() else missing).append(case)
    words = [
        f"{case.name} is left out: {case.changes['workload']['path']} is not in the folder that the environment "
        f"variable {FOLDER} names."
        for case in missing
    ]
    if len(cases) < 2:
        return Outcome([], words=words)
    found = dict(zip([case.name for case in cases], run_cases(work, cases, records_of=records), strict=True))
    return Outcome(_table(found), _picture(found), [*_words(found), *words])


def records(work: Work, jobs: Sequence[Job]) -> list[Record]:
    """Records of jobs, each on its own sample of the recorded sessions."""
    jobs = [job if (path := _resolved(job["workload"])) is None else {**job, "workload": path} for job in jobs]
    found = make_all(work, scores, jobs, {"share": SHARE})
    return [{"load": job["load"], "scores": one} for job, one in zip(jobs, found, strict=True)]


def _path(case: Case) -> Path | None:
    """Where the file of a case is; None for a generated workload."""
    values = case.changes.get("workload")
    return None if values is None else Path(os.environ.get(FOLDER, "")) / values["path"]


def _resolved(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The settings of a recorded workload with the whole path; None for a generated one."""
    if "path" not in values:
        return None
    return {**values, "path": str(Path(os.environ.get(FOLDER, "")) / values["path"])}


def kendall_tau(first: np.ndarray, second: np.ndarray) -> float:
    """How alike two orders are: pairs that both order alike less those they do not, as a share of all pairs.

    Args:
        first: [n] values of the same things in the one order.
        second: [n] in the other.
    """
    pairs = itertools.combinations(range(len(first)), 2)
    return float(np.mean([np.sign(first[a] - first[b]) * np.sign(second[a] - second[b]) for a, b in pairs]))


def _maxima(runs: Runs) -> np.ndarray:
    """Maxima of all policies, [policies, seeds]."""
    return np.array([runs.maximum(policy) for policy in runs.policies])


def _table(found: Mapping[str, Runs]) -> list[dict[str, Any]]:
    rows = []
    for workload, runs in found.items():
        maxima = _maxima(runs)
        order = np.argsort(-maxima.mean(axis=1), kind="stable")
        best, peak = maxima[order[0]], runs.peak_load()
        for rank, k in enumerate(order, start=1):
            policy = runs.policies[k]
            mean, low, high = interval(maxima[k])
            to_best = interval(maxima[k] / best - 1)
            rows.append({
                "workload": workload, "rank": rank, "policy": policy,
                f"max_{runs.target}": mean, "low": low, "high": high,
                "to_the_best": to_best.mean, "to_the_best_low": to_best.low, "to_the_best_high": to_best.high,
                "peak_load": peak, "local_hit_ratio": float(runs.values("local_hit_ratio", policy, peak).mean()),
                "global_hit_ratio": float(runs.values("global_hit_ratio", policy, peak).mean()),
                "seeds": len(runs.seeds),
            })  # fmt: skip
    return rows


def _words(found: Mapping[str, Runs]) -> list[str]:
    words = []
    reference = next(iter(found))
    base = _maxima(found[reference])
    for workload, runs in found.items():
        maxima = _maxima(runs)
        order = [runs.policies[k] for k in np.argsort(-maxima.mean(axis=1), kind="stable")]
        strongest = runs.strongest("smetric")
        sentence = (
            f"{workload}: {', '.join(map(name_of, order))} (best first); SMetric is "
            f"{percent(interval(runs.gain('smetric', strongest)))} against the strongest other, {name_of(strongest)}, "
            f"and {percent(interval(runs.gain('smetric', 'load_balance')))} against load balance"
        )
        if workload != reference:
            means = kendall_tau(base.mean(axis=1), maxima.mean(axis=1))
            taus = interval(np.array([kendall_tau(base.mean(axis=1), one) for one in maxima.T]))
            sentence += f"; Kendall's tau to the order on {reference} is {means:+.2f}"
            if not np.isnan(taus.low):
                sentence += f", {taus.mean:+.2f} ({taus.low:+.2f} to {taus.high:+.2f}) for single seeds"
        words.append(sentence + ".")
    words.append(
        f"A seed keeps {SHARE:.0%} of a recording's sessions, so the intervals say how much depends on which sessions "
        "came, not how other users would behave."
    )
    return words


def _picture(found: Mapping[str, Runs]) -> Figure:
    figure, axes = new_figure(12, 4.6, 1, 2, width_ratios=(3, 2))
    ranks, gains = axes[0]
    policies = next(iter(found.values())).policies
    at = np.arange(len(found))
    relative = np.array([_maxima(runs).mean(axis=1) / _maxima(runs).mean(axis=1).max() for runs in found.values()]).T
    lines = {policy: _line(policy, policies) for policy in policies}
    for policy, values in zip(policies, relative, strict=True):
        ranks.plot(at, 100 * values, label=name_of(policy), **lines[policy])
    ranks.set(ylabel="% of the best policy", title="(a) maximum of TPS within SLO")
    rivals = [policy for policy in RIVALS if policy in policies]
    for k, policy in enumerate(rivals):
        mean, low, high = np.array([interval(100 * runs.gain("smetric", policy)) for runs in found.values()]).T
        shift, ends = 0.15 * (k - (len(rivals) - 1) / 2), np.nan_to_num([mean - low, high - mean])
        gains.errorbar(at + shift, mean, yerr=ends, **lines[policy] | {"linestyle": "none", "capsize": 3})
    gains.axhline(0, color="black", linewidth=0.8)
    gains.set(ylabel="%", title="(b) SMetric's gain over four of them", xlim=(-0.5, len(found) - 0.5))
    for axis in (ranks, gains):
        axis.set_xticks(at, list(found))
    figure.legend(*ranks.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def _line(policy: str, policies: Sequence[str]) -> dict[str, Any]:
    """How a policy is drawn; those without a colour in all pictures are grey, each with a marker of its own."""
    if policy in ORDER:
        return line_of(policy) | {"linewidth": 2.5 if policy == "smetric" else 1.2}
    number = [other for other in policies if other not in ORDER].index(policy)
    return {"color": "0.55", "marker": "<>hp"[number % 4], "linestyle": ":", "linewidth": 1.2}
