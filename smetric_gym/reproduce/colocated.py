"""Figures 11 and 12: the policies before SMetric, and what ties a session to an instance."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.reproduce.fidelity import Found
from smetric_gym.reproduce.grid import AT_PEAK, Runs
from smetric_gym.reproduce.loads import MINUTES, early_imbalance
from smetric_gym.reproduce.panels import TIER, draw_heat, draw_hits, draw_maxima, heat_table, legend_below, short_name
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import colour_of, name_of, new_figure, new_mosaic
from smetric_gym.reproduce.tiers import maxima_table

RETURNS = "first_turn_return_ratio"


def figure_11(work: Work) -> Outcome:
    """Colocated, 32 instances of 30B: maxima over tier sizes, hits with and without a tier, tokens per minute.

    The paper says "no or a small" tier of its hits without a full one, and does not give the load of either panel.
    """
    runs = work.grid()
    none, full = ({TIER: pick(runs.axis(TIER))} for pick in (min, max))
    best = runs.strongest("load_balance", full)
    reuse = {policy: runs.at_peak("reuse_ratio", policy, full) for policy in runs.policies}
    lowest, highest = (pick(reuse, key=lambda policy: reuse[policy].mean()) for pick in (min, max))
    imbalance = {policy: _imbalance(runs, policy) for policy in runs.policies}
    of_three = f"of the three policies of the figure; {AT_PEAK}"
    rows = {
        name: Found(runs.at_peak("local_hit_ratio", policy, none), note=f"no global tier; {AT_PEAK}")
        for name, policy in {"C1": "bailian", "C2": "lmetric", "C3": "load_balance"}.items()
    }
    rows |= {
        "C4": Found(reuse[lowest], note=f"{name_of(lowest)}, lowest {of_three}"),
        "C5": Found(reuse[highest], note=f"{name_of(highest)}, highest {of_three}"),
        "C6": Found(runs.gain("load_balance", best, full) + 1, note=f"against {name_of(best)}; maxima over the loads"),
    }
    note = f"prompt + output tokens of the requests sent to an instance in each minute; {AT_PEAK}"
    for name, policy in {"C7": "load_balance", "C8": "lmetric", "C9": "bailian"}.items():
        rows[name] = Found(imbalance[policy], note=note)
    share = 100 * rows["C6"].values.mean()
    words = [f"Full tier: load balance reaches {share:.0f} % of the strongest, {name_of(best)}."]
    for policy in runs.policies:
        local, total = runs.at_peak("local_hit_ratio", policy, none), reuse[policy]
        words.append(
            f"{name_of(policy)}: {100 * local.mean():.0f} % local hits without a tier, {100 * total.mean():.0f} % "
            f"reuse with a full one, max/mean {imbalance[policy].mean():.2f} over the first {MINUTES} minutes."
        )
    heat = {policy: _sent(runs, policy)[0] for policy in runs.policies}
    heat = {policy: tokens / max(tokens.mean(), 1.0) for policy, tokens in heat.items()}
    picture = _picture_11(runs, heat, {policy: values.mean() for policy, values in imbalance.items()})
    return Outcome(maxima_table(runs), picture, words, rows, {"heat": heat_table(heat, 0, 1)})


def figure_12(work: Work) -> Outcome:
    """Colocated, 32 instances of 30B, full tier: follow-ups that return to the instance of the first turn."""
    runs = work.grid()
    rows = {
        name: Found(runs.at_peak(RETURNS, policy), note=AT_PEAK)
        for name, policy in {"C10": "load_balance", "C11": "bailian"}.items()
    }
    table = []
    for policy in runs.policies:
        for load in runs.loads:
            mean, low, high = interval(runs.values(RETURNS, policy, load))
            table.append({"policy": policy, "load": load, RETURNS: mean, "low": low, "high": high})
    means = {policy: 100 * runs.at_peak(RETURNS, policy).mean() for policy in runs.policies}
    words = [f"{name_of(policy)}: {mean:.1f} % of the follow-ups return." for policy, mean in means.items()]
    figure, axes = new_figure(4.6, 3.4)
    for k, (policy, mean) in enumerate(means.items()):
        axes[0, 0].bar(k, mean, color=colour_of(policy, k))
        axes[0, 0].text(k, mean + 1, f"{mean:.1f} %", ha="center")
    axes[0, 0].set_xticks(range(len(runs.policies)), [short_name(p) for p in runs.policies])
    axes[0, 0].set(ylabel="follow-ups (%)", ylim=(0, 105), title="On the instance of the first turn")
    axes[0, 0].grid(axis="x", visible=False)
    return Outcome(table, figure, words, rows)


def _sent(runs: Runs, policy: str) -> np.ndarray:
    """Tokens sent to each instance in the first minutes, full tier, at the peak load, [seeds, minutes, instances]."""
    full = {TIER: max(runs.axis(TIER))}
    return runs.curves("sent_tokens", policy, runs.peak_load(full), full)[:, :MINUTES]


def _imbalance(runs: Runs, policy: str) -> np.ndarray:
    """Mean over the first minutes of max/mean of the tokens sent, [seeds]."""
    return early_imbalance(_sent(runs, policy))


def _picture_11(runs: Runs, heat: dict[str, np.ndarray], imbalance: dict[str, float]) -> Figure:
    below = [policy for policy in heat for _ in range(2)]
    figure, axes = new_mosaic(13, 6.6, [["a"] * 4 + ["b"] * 2, below])
    draw_maxima(axes["a"], runs)
    draw_hits(axes["b"], runs, [min(runs.axis(TIER)), max(runs.axis(TIER))])
    titles = {policy: f"{name_of(policy)}: {ratio:.1f}x" for policy, ratio in imbalance.items()}
    titles[runs.policies[0]] = f"(c) {titles[runs.policies[0]]}"
    panels, label = [axes[policy] for policy in heat], "tokens per minute / mean"
    draw_heat(figure, panels, heat, titles, start_min=0, window_min=1, top=3.0, label=label)
    legend_below(figure, axes["a"])
    return figure
