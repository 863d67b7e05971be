"""Question 6: SMetric's two versions against every baseline, each at its best setting, and past saturation."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.compare import choice
from smetric_gym.reproduce.grid import Runs, changed, run_grid, seeds_of
from smetric_gym.reproduce.questions.words import columns, percent, read
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import COLOURS, DASHES, MARKERS, new_figure, target_name
from smetric_gym.scoring import SCORES

TIER = "cluster.global_tier"
FIRST = "SMetric"
"""The contestant that the others are compared with."""


def question_6(work: Work) -> Outcome:
    """Every contestant is tuned on seeds of its own, then meets the others at its default and at its best setting."""
    settings = work.settings
    contestants = {name: _candidates(name, values) for name, values in settings["contestants"].items()}
    if set(settings["tuning"]["seeds"]) & set(seeds_of(settings)):
        raise SmetricError("tuning.seeds has seeds of the evaluation, allowed: others")
    tuning = {**settings, "sizes": {}, "vary": {TIER: settings["global_tiers"]}, **settings["tuning"]}
    tuned_on = _run(work, tuning, [policy for candidates in contestants.values() for policy in candidates])
    rows, tried, results = [], [], {}
    for tier in settings["global_tiers"]:
        trials = tuned_on.where({TIER: tier})
        best = {name: max(candidates, key=lambda p: trials.maximum(label(p)).mean())
                for name, candidates in contestants.items()}  # fmt: skip
        tried += [
            {"global_tier": tier, "policy": name, "setting": _setting(policy, candidates[0]),
             "chosen": policy is best[name], f"max_{trials.target}": float(trials.maximum(label(policy)).mean())}
            for name, candidates in contestants.items() for policy in candidates
        ]  # fmt: skip
        field = [policy for name, candidates in contestants.items() for policy in (candidates[0], best[name])]
        runs = _run(work, {**changed(settings, {TIER: tier}), "vary": {}}, field)
        results[tier] = runs, {name: label(policy) for name, policy in best.items()}
        rows += _rows(tier, runs, contestants, best)
    rows.sort(key=lambda row: (row["global_tier"], -row["tuned"]))
    return Outcome(rows, _picture(results), _words(results, rows), more={"tried": tried, "loads": _over_loads(results)})


def label(policy: Mapping[str, Any]) -> str:
    """The name that the runs of a policy have."""
    return choice(policy)[0]


def _candidates(name: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A contestant as it is by default, then with every combination of the values in its ``grid``."""
    grid = values.get("grid", {})
    default = {key: value for key, value in values.items() if key != "grid"}
    for key, found in grid.items():
        if not isinstance(found, list) or not found:
            raise SmetricError(f"contestants.{name}.grid.{key} is {found!r}, allowed: a list with at least one value")
    changes = [dict(zip(grid, combination, strict=True)) for combination in itertools.product(*grid.values())]
    return [default, *({**default, **change} for change in changes if change)]


def _run(work: Work, settings: Mapping[str, Any], policies: Sequence[Mapping[str, Any]]) -> Runs:
    unlike = list({label(policy): policy for policy in policies}.values())
    here = {**settings, "policies": unlike}
    return run_grid(here, jobs=work.jobs, store=work.store, progress=work.progress)


def _setting(policy: Mapping[str, Any], default: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in policy.items() if key not in default) or "default"


def _rows(
    tier: float, runs: Runs, contestants: Mapping[str, Sequence], best: Mapping[str, Any]
) -> list[dict[str, Any]]:
    rows = []
    for name, candidates in contestants.items():
        default, tuned = label(candidates[0]), label(best[name])
        rows.append({
            "global_tier": tier, "policy": name, "setting": _setting(best[name], candidates[0]),
            **columns("tuned", interval(runs.maximum(tuned))),
            **columns("over_smetric", interval(runs.gain(tuned, label(best[FIRST])))),
            "default": float(runs.maximum(default).mean()), **columns("tuning", interval(runs.gain(tuned, default))),
            "load_at_max": float(np.mean([runs.loads[k] for k in runs.comparison().best_load(tuned)])),
        })  # fmt: skip
    return rows


def _over_loads(results: Mapping[float, tuple[Runs, Mapping[str, str]]]) -> list[dict[str, Any]]:
    """What is drawn: every contestant at its best setting at every load."""
    return [
        {"global_tier": tier, "policy": name, "load": load,
         **columns(runs.target, interval(runs.values(runs.target, policy, load)))}
        for tier, (runs, tuned) in results.items() for name, policy in tuned.items() for load in runs.loads
    ]  # fmt: skip


def _words(results: Mapping[float, tuple[Runs, Mapping[str, str]]], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    words = []
    for tier, (runs, tuned) in results.items():
        here = [row for row in rows if row["global_tier"] == tier]
        by_name = {row["policy"]: row for row in here}
        best, place = here[0], list(by_name).index(FIRST) + 1
        baseline = next(row for row in here if not row["policy"].startswith(FIRST))
        versions = [row for row in here if row["policy"].startswith(FIRST) and row["policy"] != FIRST]
        most = max(here, key=lambda row: row["tuning"])
        words += [
            f"Tier {tier:g}, everybody at the best setting found on other seeds: {_named(best)} is highest, "
            f"{percent(read(best, 'over_smetric'))} against {_named(by_name[FIRST])}, which is place {place} of "
            f"{len(here)}; the strongest baseline is {_named(baseline)}, {percent(read(baseline, 'over_smetric'))}.",
            f"Tier {tier:g}, the later version against the first: "
            + "; ".join(f"{_named(row)} {percent(read(row, 'over_smetric'))}" for row in versions)
            + f". Tuning is worth most to {_named(most)}, {percent(read(most, 'tuning'))}, and "
            f"{percent(read(by_name[FIRST], 'tuning'))} to {FIRST}.",
        ]
        last = runs.loads[-1]
        level = {name: runs.values(runs.target, policy, last).mean() for name, policy in tuned.items()}
        top = max(level, key=lambda name: level[name])
        words.append(
            f"Tier {tier:g}, past saturation (load {last:g}): {top} keeps most, {level[top] / 1000:.1f} thousand "
            f"{SCORES[runs.target].unit}, {100 * level[top] / best['tuned']:.0f} % of the highest maximum; {FIRST} "
            f"keeps {level[FIRST] / 1000:.1f} thousand, {best['policy']} {level[best['policy']] / 1000:.1f} thousand."
        )
    return words


def _named(row: Mapping[str, Any]) -> str:
    return f"{row['policy']} ({row['setting']})"


def _picture(results: Mapping[float, tuple[Runs, Mapping[str, str]]]) -> Figure:
    figure, axes = new_figure(max(11, 6.5 * len(results)), 5.4, 1, len(results), sharey=True)
    for panel, (tier, (runs, tuned)) in zip(axes[0], results.items(), strict=True):
        for k, (name, policy) in enumerate(tuned.items()):
            mean = [runs.values(runs.target, policy, load).mean() / 1000 for load in runs.loads]
            ours = name.startswith(FIRST)
            line = {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)],
                    "linestyle": "-" if ours else DASHES[1 + k // len(COLOURS)]}  # fmt: skip
            panel.plot(runs.loads, mean, label=name, linewidth=2 if ours else 1.2, **line)
        panel.set(xlabel="offered load (multiple of the base rate)")
        panel.set_title(f"global tier {tier:g}x, best setting of each")
    axes[0][0].set(ylabel=f"{target_name(runs.target)} (thousand {SCORES[runs.target].unit})")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
