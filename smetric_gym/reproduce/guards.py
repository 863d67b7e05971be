"""Figures 14 and 25: what the guards do to the imbalance, and how much their parameters matter."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.experiment.evaluate import HEAT_WINDOW_S
from smetric_gym.reproduce.fidelity import Found
from smetric_gym.reproduce.grid import Runs
from smetric_gym.reproduce.loads import max_over_mean
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import line_of, name_of, new_figure
from smetric_gym.scoring import SCORES

AT_LOAD = 1.5
"""The load of figure 25, as a multiple of our base rate."""
SWEEPS = {
    "overload": {"1": "smetric(overload=1.0)", "1.5": "smetric(overload=1.5)", "2": "smetric",
                 "3": "smetric(overload=3.0)", "4": "smetric(overload=4.0)", "inf": "smetric(overload=inf)"},
    "hit_ratio": {"0": "smetric(hit_ratio=0.0)", "0.25": "smetric(hit_ratio=0.25)", "0.5": "smetric",
                  "0.75": "smetric(hit_ratio=0.75)"},
}  # fmt: skip
"""Parameter to value to label of the run; ``smetric`` itself has 2 and 0.5."""
LEVELS = np.linspace(0, 1, 201)
PAPER_REUSE = 0.755
"""The middle of the reuse that the paper gives for all settings; the one of ours that is farthest from it is judged."""


def figure_14(work: Work) -> Outcome:
    """Colocated, 32 instances of 30B, full tier: max/mean in windows of 30 s, with and without the guards.

    The load of an instance is its prompt tokens in flight. The paper shows the distribution and does not give the
    offered load; here windows of all seeds are taken together.
    """
    runs = work.grid()
    load = runs.peak_load()
    ratios = {policy: _windows(runs, policy, load) for policy in runs.policies}
    worst = {policy: np.array([_beyond_p75(seed) for seed in found]) for policy, found in ratios.items()}
    rows = {
        "C40": Found(
            worst["smetric"] / worst["smetric_basic"],
            holds=worst["smetric"].mean() < worst["smetric_basic"].mean(),
            note="mean of the windows beyond the 75th percentile, with / without the guards; all at the load where the "
            "better of the two has its highest mean",
        )
    }
    quantiles = {policy: np.quantile(np.concatenate(found), LEVELS) for policy, found in ratios.items()}
    table = []
    for policy, found in ratios.items():
        shown = {f"p{q}": float(np.percentile(np.concatenate(found), q)) for q in (25, 50, 75, 90, 99)}
        table.append({"policy": policy, **shown, "mean_beyond_p75": worst[policy].mean()})
    words = [
        f"Mean max/mean of the worst quarter of the windows at load {load:g}: with the guards "
        f"{worst['smetric'].mean():.2f}, without {worst['smetric_basic'].mean():.2f}."
    ]
    figure, axes = new_figure(5.6, 3.8)
    for k, (policy, values) in enumerate(quantiles.items()):
        axes[0, 0].plot(values, 100 * LEVELS, label=name_of(policy), **line_of(policy, k) | {"marker": ""})
    axes[0, 0].axhline(75, color="0.6", linewidth=1)
    axes[0, 0].set(xlabel="max/mean of prompt tokens in flight, 30 s", ylabel="share of windows (%)", ylim=(0, 100))
    axes[0, 0].set_title(f"Imbalance of the windows at load {load:g}")
    axes[0, 0].legend(loc="lower right", frameon=False)
    curve = [
        {"share_of_windows": round(float(level), 4), **{policy: float(v[k]) for policy, v in quantiles.items()}}
        for k, level in enumerate(LEVELS)
    ]
    return Outcome(table, figure, words, rows, {"windows": curve})


def figure_25(work: Work) -> Outcome:
    """Colocated, 32 instances of 30B, full tier, load 1.5: TPS within SLO and hits over OVERLOAD and over HIT_RATIO."""
    runs = work.grid()
    changes = {name: _largest_change(runs, name) for name in SWEEPS}
    reuse = {
        f"{name} {value}": runs.values("reuse_ratio", label, AT_LOAD)
        for name, sweep in SWEEPS.items()
        for value, label in sweep.items()
    }
    farthest = max(reuse, key=lambda setting: abs(reuse[setting].mean() - PAPER_REUSE))
    rows = {
        row: Found(values, note=f"at {name} {value}, where the mean over the seeds differs most from the default")
        for row, (name, (value, values)) in zip(("C37", "C38"), changes.items(), strict=True)
    }
    rows["C39"] = Found(reuse[farthest], note=f"at {farthest}, the setting whose mean is farthest from {PAPER_REUSE}")
    words = [
        f"{name}: TPS within SLO changes most at {value}, by {100 * values.mean():.1f} % of the default's."
        for name, (value, values) in changes.items()
    ]
    table = []
    for name, sweep in SWEEPS.items():
        for value, label in sweep.items():
            mean, low, high = interval(runs.values(runs.target, label, AT_LOAD))
            hits = {hit: runs.values(hit, label, AT_LOAD).mean() for hit in ("local_hit_ratio", "global_hit_ratio")}
            table.append({"parameter": name, "value": value, runs.target: mean, "low": low, "high": high, **hits})
    return Outcome(table, _picture_25(runs), words, rows)


def _windows(runs: Runs, policy: str, load: float) -> list[np.ndarray]:
    """max/mean of in-flight tokens in each window of 30 s of the scored time, one array per seed."""
    start = round(runs.records[0]["settings"]["warm_up_s"] / HEAT_WINDOW_S)
    return [max_over_mean(tokens[start:]) for tokens in runs.curves("in_flight_tokens", policy, load)]


def _beyond_p75(ratios: np.ndarray) -> float:
    return float(ratios[ratios >= np.quantile(ratios, 0.75)].mean())


def _largest_change(runs: Runs, name: str) -> tuple[str, np.ndarray]:
    """The value that differs most from the default in the mean, and by how much per seed, positive in the mean."""
    changes = {v: runs.gain_at(label, "smetric", AT_LOAD) for v, label in SWEEPS[name].items() if label != "smetric"}
    value = max(changes, key=lambda v: abs(changes[v].mean()))
    return value, changes[value] * np.sign(changes[value].mean())


def _picture_25(runs: Runs) -> Figure:
    figure, axes = new_figure(10, 3.8, 1, 2, sharey=True)
    for panel, letter, (name, sweep) in zip(axes[0], "ab", SWEEPS.items(), strict=True):
        at = np.arange(len(sweep))
        local, remote = (
            np.array([100 * runs.values(f"{kind}_hit_ratio", label, AT_LOAD).mean() for label in sweep.values()])
            for kind in ("local", "global")
        )
        panel.bar(at, local, 0.6, color="#8FB8DE", label="local hits")
        panel.bar(at, remote, 0.6, bottom=local, color="#D6E6F5", hatch="//", edgecolor="white", label="global hits")
        panel.set_xticks(at, list(sweep))
        panel.set(xlabel=name.upper(), ylim=(0, 100))
        panel.grid(visible=False)
        found = np.array([interval(runs.values(runs.target, label, AT_LOAD)) for label in sweep.values()]) / 1000
        ends = np.nan_to_num([found[:, 0] - found[:, 1], found[:, 2] - found[:, 0]])
        right = panel.twinx()
        right.errorbar(at, found[:, 0], ends, color="black", marker="o", capsize=2, label="TPS within SLO")
        right.set_ylim(0, 1.15 * found[:, 0].max())
        right.set_ylabel(f"thousand {SCORES[runs.target].unit}")
        right.grid(visible=False)
        panel.set_title(f"({letter}) {name.upper()} at load {AT_LOAD:g}")
    axes[0, 0].set_ylabel("share of prompt tokens (%)")
    handles = [*panel.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    names = [str(handle.get_label()) for handle in handles]
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    return figure
