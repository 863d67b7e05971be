"""Question 3: disaggregation end to end, beside colocated clusters of as many GPUs that serve the same requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.reproduce.cases import Case, cases_of, run_cases
from smetric_gym.reproduce.grid import Runs, changed
from smetric_gym.reproduce.questions.words import percent
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import colour_of, line_of, name_of, new_figure

PREFILL, WHOLE = "prefill_tps_within_slo", "tps_within_slo"
TARGETS = {PREFILL: "prefill only", WHOLE: "whole responses"}
LATENCIES = ("ttft_p50_s", "ttft_p90_s", "tpot_p50_s", "tpot_p90_s", "response_p50_s", "response_p99_s")


class Split:
    """One way to use the GPUs, with its runs.

    Attributes:
        case: its GPUs (axis) and its name.
        runs: policies x loads x seeds.
        gpus: instances of both kinds.
        colocated: True when there is no decode pool.
    """

    def __init__(self, case: Case, runs: Runs, settings: dict[str, Any]) -> None:
        cluster = changed(settings, case.changes)["cluster"]
        self.case, self.runs = case, runs
        self.gpus = cluster["instances"] + cluster["decode_instances"]
        self.colocated = cluster["decode_instances"] == 0

    def mean(self, score: str, policy: str, load: float) -> float:
        """Mean of a score over the seeds at one load."""
        return float(np.nanmean(self.runs.values(score, policy, load)))

    def gain(self, target: str) -> tuple[str, np.ndarray]:
        """The strongest policy beside SMetric by a target, and SMetric's paired gain over it, [seeds]."""
        others = [policy for policy in self.runs.policies if policy != "smetric"]
        strongest = max(others, key=lambda policy: self.runs.maximum(policy, target=target).mean())
        return strongest, self.runs.maximum("smetric", target=target) / self.runs.maximum(strongest, target=target) - 1

    def best(self, target: str) -> tuple[str, np.ndarray]:
        """The policy with the highest mean maximum of a target, and that maximum per GPU, [seeds]."""
        policy = max(self.runs.policies, key=lambda p: self.runs.maximum(p, target=target).mean())
        return policy, self.runs.maximum(policy, target=target) / self.gpus


def question_3(work: Work) -> Outcome:
    """Gains by prefill and by whole responses, latencies, and throughput per GPU, for several splits of the GPUs."""
    cases = cases_of(work.settings)
    splits = [
        Split(case, runs, dict(work.settings))
        for case, runs in zip(cases, run_cases(work, cases, tuple(TARGETS)), strict=True)
    ]
    table = [row for split in splits for row in _rows(split, _common_load(split, splits))]
    return Outcome(table, _picture(splits), _words(splits))


def _common_load(split: Split, splits: Sequence[Split]) -> float:
    """The load that is nearest to the lowest peak of all ways to use these GPUs, and that all of them ran."""
    alike = [other.runs for other in splits if other.case.axis == split.case.axis]
    lowest = min(runs.peak_load() for runs in alike)
    return min(set.intersection(*(set(runs.loads) for runs in alike)), key=lambda load: abs(load - lowest))


def _rows(split: Split, load: float) -> list[dict[str, Any]]:
    rows = []
    for policy in split.runs.policies:
        row: dict[str, Any] = {"gpus": split.case.axis, "split": split.case.name, "policy": policy}
        for target in TARGETS:
            found = interval(split.runs.maximum(policy, target=target) / split.gpus)
            row |= {f"max_{target}_per_gpu": found.mean, f"{target}_low": found.low, f"{target}_high": found.high}
        row["load"] = load
        row |= {score: split.mean(score, policy, load) for score in LATENCIES}
        rows.append(row | {"seeds": len(split.runs.seeds)})
    return rows


def _words(splits: Sequence[Split]) -> list[str]:
    words = []
    for split in splits:
        if split.colocated:
            continue
        (prefill, by_prefill), (whole, by_whole) = split.gain(PREFILL), split.gain(WHOLE)
        words.append(
            f"{split.case.name}: by prefill alone SMetric is {percent(interval(by_prefill))} against the strongest "
            f"other ({name_of(prefill)}), by whole responses {percent(interval(by_whole))} ({name_of(whole)})."
        )
    for axis in dict.fromkeys(split.case.axis for split in splits):
        here = [split for split in splits if split.case.axis == axis]
        beside = next(split for split in here if split.colocated)
        policy, base = beside.best(WHOLE)
        best = {split.case.name: split.best(WHOLE) for split in here if not split.colocated}
        words.append(
            f"{axis}: against the best colocated policy ({name_of(policy)}) the best one of "
            + ", ".join(
                f"{name} ({name_of(other)}) has {percent(interval(values / base - 1))}"
                for name, (other, values) in best.items()
            )
            + " of TPS within SLO."
        )
    last = [split for split in splits if split.case.axis == splits[-1].case.axis]
    load = _common_load(last[0], last)
    words.append(
        f"{last[0].case.axis}, SMetric at load {load:g}: "
        + "; ".join(
            f"{split.case.name} responds in {split.mean('response_p50_s', 'smetric', load):.1f} s (median) and "
            f"{split.mean('response_p99_s', 'smetric', load):.0f} s (99th percentile), TPOT p90 "
            f"{1000 * split.mean('tpot_p90_s', 'smetric', load):.0f} ms"
            for split in last
        )
        + "."
    )
    return words


def _picture(splits: Sequence[Split]) -> Figure:
    figure, axes = new_figure(12, 7.5, 2, 2)
    gains, output, response, tpot = axes.flat
    names = [split.case.name.replace(" ", "\n", 1) for split in splits]
    at = np.arange(len(splits))
    borders = [k - 0.5 for k in at[1:] if splits[k].case.axis != splits[k - 1].case.axis]  # between numbers of GPUs
    for k, (target, words) in enumerate(TARGETS.items()):
        found = [interval(100 * split.gain(target)[1]) for split in splits]
        mean, ends = _with_ends(found)
        gains.bar(at + 0.4 * k - 0.2, mean, 0.38, yerr=ends, capsize=2, label=words,
                  color=colour_of("smetric"), alpha=0.4 + 0.6 * k)  # fmt: skip
    gains.axhline(0, color="black", linewidth=0.8)
    gains.set(ylabel="%", title="(a) SMetric's gain over the strongest other policy")
    gains.legend()
    policies = splits[0].runs.policies
    for k, policy in enumerate(policies):
        shift, line = (k - (len(policies) - 1) / 2) * 0.14, line_of(policy, k)
        point = {"color": line["color"], "marker": line["marker"], "linestyle": "none", "markersize": 5}
        maxima = [split.runs.maximum(policy, target=WHOLE) / split.gpus / 1000 for split in splits]
        mean, ends = _with_ends([interval(values) for values in maxima])
        output.errorbar(at + shift, mean, yerr=ends, capsize=2, label=name_of(policy), **point)
        for axis, score, scale, fill in (
            (response, "response_p50_s", 1, line["color"]), (response, "response_p99_s", 1, "white"),
            (tpot, "tpot_p50_s", 1000, line["color"]), (tpot, "tpot_p90_s", 1000, "white"),
        ):  # fmt: skip
            values = [scale * split.mean(score, policy, _common_load(split, splits)) for split in splits]
            axis.plot(at + shift, values, **point, markerfacecolor=fill)
    output.set(ylabel="thousand tokens/s per GPU", title="(b) maximum of TPS within SLO, whole responses")
    response.set(ylabel="s", yscale="log", title="(c) response time at one load: median, 99th percentile (open)")
    tpot.set(ylabel="ms", yscale="log", title="(d) TPOT at that load: median, 90th percentile (open)")
    tpot.axhline(30, color="0.5", linestyle=":")
    for axis in axes.flat:
        axis.set_xticks(at, names, fontsize=8)
        axis.grid(axis="x", visible=False)
        for border in borders:
            axis.axvline(border, color="0.6", linewidth=0.8)
    figure.legend(*output.get_legend_handles_labels(), loc="outside lower center", ncols=len(policies))
    return figure


def _with_ends(found: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Means, and lengths of their error bars [2, points], 0 where there is no interval."""
    mean, low, high = np.array(found).T
    return mean, np.nan_to_num([mean - low, high - mean])
