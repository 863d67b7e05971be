"""Question 1: what each of SMetric's two guards is worth, how often it fires, how often it was right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.reproduce.grid import Runs, changed, seeds_of
from smetric_gym.reproduce.questions.decisions import both_branches
from smetric_gym.reproduce.questions.pieces import make_all
from smetric_gym.reproduce.questions.replay import halves
from smetric_gym.reproduce.questions.words import clear, columns, ends, percent, read, thousand
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import COLOURS, MARKERS, name_of, new_figure

TIER = "cluster.global_tier"
BOTH = "smetric"
FIRED = {"STICK": "no guard fired", "OVERLOAD": "OVERLOAD fired", "EVICTED": "HIT_RATIO fired"}
"""Kinds of follow-ups by what SMetric did with them."""


def question_1(work: Work) -> Outcome:
    """SMetric with both guards, with one and with none; and replays of its decisions with the opposite choice."""
    runs, how = work.grid(), dict(work.settings["replay"])
    at = [{TIER: tier, "load": load} for tier in how["global_tiers"] for load in how["loads"]]
    seeds = seeds_of(work.settings)
    pieces = [changed(work.settings, {**here, "seed": seed}) for here in at for seed in seeds]
    made = make_all(work, both_branches, pieces, {"kinds": list(FIRED), "each": how["each"], "horizon": how["horizon"]})
    each = [made[k : k + len(seeds)] for k in range(0, len(made), len(seeds))]
    replays = [
        {"global_tier": here[TIER], "load": here["load"], **_judge(kind, found)}
        for here, found in zip(at, each, strict=True)
        for kind in FIRED
    ]
    together = [[row for found in each for row in found[k]] for k in range(len(seeds))]  # all places of a seed
    ablation, fires = _ablation(runs), _fires(runs)
    words = _words(ablation, fires, replays, [_judge(kind, together) for kind in FIRED], how["horizon"])
    return Outcome(ablation, _picture(ablation, fires, replays), words, more={"fires": fires, "replays": replays})


def _ablation(runs: Runs) -> list[dict[str, Any]]:
    """Maximum of every set of guards at every tier, and its paired difference to both guards."""
    rows = []
    for tier in runs.axis(TIER):
        here = {TIER: tier}
        for policy in runs.policies:
            rows.append({
                "global_tier": tier, "guards": name_of(policy),
                **columns(f"max_{runs.target}", interval(runs.maximum(policy, here))),
                **columns("to_both", interval(runs.gain(policy, BOTH, here))),
                "load_at_max": float(np.mean([runs.loads[k] for k in runs.comparison(**here).best_load(policy)])),
            })  # fmt: skip
    return rows


def _fires(runs: Runs) -> list[dict[str, Any]]:
    """At every load: how often each guard fired, and what each set of guards scores."""
    rows = []
    for tier in runs.axis(TIER):
        for load in runs.loads:
            here = {TIER: tier}
            scores = ("requests", "overload_fallbacks", "eviction_fallbacks")
            requests, overload, evicted = (runs.values(score, BOTH, load, here) for score in scores)
            rows.append({
                "global_tier": tier, "load": load,
                "overload_fired_share": float((overload / requests).mean()),
                "eviction_fired_share": float((evicted / requests).mean()),
                **{f"{policy}_{runs.target}": float(runs.values(runs.target, policy, load, here).mean())
                   for policy in runs.policies},
            })  # fmt: skip
    return rows


def _judge(kind: str, pieces: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """What the replays of one kind of decision say, SMetric's own choice against the opposite one.

    Args:
        kind: of `FIRED`.
        pieces: decisions of every seed, from `both_branches`.
    """
    made, other = ("stick", "leave") if kind == "STICK" else ("leave", "stick")
    rows = [(seed, row) for seed, piece in enumerate(pieces) for row in piece if row["kind"] == kind]
    unlike = [(seed, row) for seed, row in rows if not row["same"]]
    seeds = np.array([seed for seed, _ in unlike])

    def gained(what: str) -> np.ndarray:
        """[decisions, futures]."""
        found = [np.subtract(row[f"{made}_{what}"], row[f"{other}_{what}"]) for _, row in unlike]
        return np.array(found or np.zeros((0, 2)))

    tokens, ttft_s = gained("tokens"), gained("ttft_s")
    first, second = halves(tokens)
    lost = -np.concatenate([second[first < 0], first[second < 0]])
    longer = ttft_s.mean(axis=1)
    return {
        "kind": FIRED[kind], "decisions": len(rows),
        "same_instance": 1 - len(unlike) / len(rows) if rows else float("nan"),
        **columns("tokens", interval(_by_seed(tokens, seeds))),
        "right": _mean((first > 0) & (second > 0)), "wrong": _mean((first < 0) & (second < 0)),
        "tokens_lost_if_wrong": _mean(lost),
        **columns("ttft_s", interval(_by_seed(ttft_s, seeds))),
        "ttft_longer": _mean(longer > 0), "s_lost_if_longer": _mean(longer[longer > 0]),
    }  # fmt: skip


def _by_seed(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Means over the decisions of each seed that has any."""
    return np.array([values[seeds == seed].mean() for seed in np.unique(seeds)])


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _words(
    ablation: Sequence[Mapping[str, Any]], fires: Sequence[Mapping[str, Any]], replays: Sequence[Mapping[str, Any]],
    together: Sequence[Mapping[str, Any]], horizon: Mapping[str, Any],
) -> list[str]:
    others = [row for row in ablation if row["guards"] != name_of(BOTH)]
    words = [
        f"Tier {tier:g}, maximum over the loads against both guards: "
        + ", ".join(f"{row['guards']} {percent(read(row, 'to_both'))}" for row in others if row["global_tier"] == tier)
        + "."
        for tier in dict.fromkeys(row["global_tier"] for row in others)
    ]
    shares = []
    for name, what in (("overload", "OVERLOAD"), ("eviction", "HIT_RATIO")):
        least, most = (pick(fires, key=lambda row: row[f"{name}_fired_share"]) for pick in (min, max))
        shares.append(f"{what} for {_share(least, name)} to {_share(most, name)}")
    words.append(f"Of the scored requests, {' and '.join(shares)} fell back to the least load.")
    for row in together:
        places = [place for place in replays if place["kind"] == row["kind"]]
        told = [f"tier {p['global_tier']:g}, load {p['load']:g}: {p['tokens'] / 1000:+.0f}" for p in places
                if clear(read(p, "tokens"))]  # fmt: skip
        listed = f" (thousand tokens, {'; '.join(told)})" if told else ""
        words.append(
            f"Where {row['kind']} ({row['decisions']} replayed decisions, {100 * row['same_instance']:.0f} % with "
            f"the same instance either way), SMetric's choice against the opposite one was worth "
            f"{thousand(read(row, 'tokens'))} within SLO of the next {horizon['stretch_s']:g} s, and its own TTFT was "
            f"{row['ttft_s']:+.1f} s different; right {100 * row['right']:.0f} %, wrong {100 * row['wrong']:.0f} % "
            "(the same sign in both halves of the futures; 25 % each by accident); different from 0 in "
            f"{len(told)} of {len(places)} places{listed}."
        )
    fired = [row for row in together if row["kind"] != FIRED["STICK"] and row["decisions"]]
    costs = [
        f"{row['tokens_lost_if_wrong'] / 1000:+.0f} thousand tokens where {row['kind']} (its own TTFT got longer in "
        f"{100 * row['ttft_longer']:.0f} % of the cases, then by {row['s_lost_if_longer']:.1f} s)"
        for row in fired
    ]
    words.append(
        f"A migration that one half of the futures calls wrong costs in the other half {' and '.join(costs)}."
    )
    return words


def _share(row: Mapping[str, Any], name: str) -> str:
    return f"{100 * row[f'{name}_fired_share']:.1f} % (tier {row['global_tier']:g}, load {row['load']:g})"


def _picture(
    ablation: Sequence[Mapping[str, Any]], fires: Sequence[Mapping[str, Any]], replays: Sequence[Mapping[str, Any]]
) -> Figure:
    figure, axes = new_figure(14, 4.6, 1, 3)
    left, middle, right = axes[0]
    tiers = list(dict.fromkeys(row["global_tier"] for row in ablation))
    for k, guards in enumerate(row["guards"] for row in ablation[1 : len(ablation) // len(tiers)]):
        found = 100 * np.array([read(row, "to_both") for row in ablation if row["guards"] == guards])
        at = np.arange(len(tiers)) + 0.15 * (k - 1)
        left.errorbar(at, found[:, 0], ends(found), fmt=MARKERS[k], color=COLOURS[k], capsize=2, label=guards)
    left.set_xticks(range(len(tiers)), [f"{tier:g}x" for tier in tiers])
    left.set(xlabel="global tier / local tiers", ylabel="maximum of TPS within SLO (%)")
    left.set_title("(a) against both guards")
    for k, tier in enumerate(tiers):
        here = [row for row in fires if row["global_tier"] == tier]
        for name, what, dashes in (("overload", "OVERLOAD", "-"), ("eviction", "HIT_RATIO", "--")):
            shares = [100 * row[f"{name}_fired_share"] for row in here]
            line = {"color": COLOURS[k], "marker": MARKERS[k], "linestyle": dashes}
            middle.plot([row["load"] for row in here], shares, label=f"{what}, {tier:g}x", **line)
    middle.set(xlabel="offered load (multiple of the base rate)", ylabel="share of scored requests (%)")
    middle.set_title("(b) how often a guard fired")
    places = list(dict.fromkeys((row["global_tier"], row["load"]) for row in replays))
    for k, kind in enumerate(FIRED.values()):
        found = np.array([read(row, "tokens") for row in replays if row["kind"] == kind]) / 1000
        at = np.arange(len(places)) + 0.2 * (k - 1)
        right.errorbar(at, found[:, 0], ends(found), fmt=MARKERS[k], color=COLOURS[k], capsize=2, label=kind)
    right.set_xticks(range(len(places)), [f"{tier:g}x\nload {load:g}" for tier, load in places])
    right.set(xlabel="global tier / local tiers", ylabel="thousand tokens within SLO per decision")
    right.set_title("(c) SMetric's choice against the opposite")
    for panel in (left, right):
        panel.axhline(0, color="black", linewidth=1)
    for panel in axes[0]:
        panel.legend(fontsize=8)
    return figure
