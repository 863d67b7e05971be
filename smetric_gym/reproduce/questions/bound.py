"""Question 7: how far the policies are from a bound, and from the best choice at single decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.compare import choice
from smetric_gym.experiment.settings import unknown
from smetric_gym.reproduce.grid import changed, seeds_of
from smetric_gym.reproduce.questions.decisions import every_instance
from smetric_gym.reproduce.questions.pieces import make_all
from smetric_gym.reproduce.questions.pool import AS_IT_IS, FREE, POOL, ladder
from smetric_gym.reproduce.questions.replay import halves
from smetric_gym.reproduce.questions.words import columns, ends, read, thousand
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import gain_words, line_of, name_of, new_figure

KINDS = {"FIRST_TURN": "first turn", "STICK": "follow-up", "OVERLOAD": "overloaded", "EVICTED": "evicted"}
"""Kinds of decisions, by what SMetric would do."""


def question_7(work: Work) -> Outcome:
    """Two bounds: what ideal reuse and an ideal balance would add; and what the best single decision would."""
    settings, seeds = work.settings, seeds_of(work.settings)
    how = dict(settings["replay"])
    bases = how.pop("bases")
    for base in bases:
        if base not in settings["policies"]:
            raise SmetricError(unknown("replay.bases", base, settings["policies"]))
    at = [(load, seed) for load in settings["loads"] for seed in seeds]
    pieces = [changed(settings, {"load": load, "seed": seed}) for load, seed in at]
    made = make_all(work, ladder, pieces, {"policies": settings["policies"], "free": settings["free"]})
    ladders = {place: piece for place, piece in zip(at, made, strict=True)}
    rows = _ladder_rows(ladders, settings["loads"], seeds)
    places = {"load": how.pop("load"), "cluster.instances": how.pop("instances")}
    pieces = [
        changed(settings, {**places, "seed": seed, "policy": choice(base)[1]}) for base in bases for seed in seeds
    ]
    made = make_all(work, every_instance, pieces, {**how, "kinds": list(KINDS), "policies": settings["policies"]})
    found = {base: made[k * len(seeds) : (k + 1) * len(seeds)] for k, base in enumerate(bases)}
    regrets = [
        _regret(base, kind, policy, found[base])
        for base in bases
        for kind in ("all", *KINDS)
        for policy in settings["policies"]
    ]
    words = _ladder_words(ladders, settings, seeds) + _regret_words(regrets, settings, how["horizon"])
    return Outcome(rows, _picture(rows, regrets, found[bases[0]], settings), words, more={"regrets": regrets})


def _ladder_rows(ladders: Mapping[tuple, Any], loads: Sequence[float], seeds: Sequence[int]) -> list[dict[str, Any]]:
    rows = []
    for load in loads:
        here = [ladders[load, seed] for seed in seeds]
        values = {(rung, name): [p[rung][name] for p in here] for rung in (AS_IT_IS, FREE) for name in here[0][rung]}
        values |= {(POOL, ""): [p[POOL]["tps_within_slo"] for p in here]}
        values |= {("offered to the pool, possible in time", ""): [p[POOL]["offered_tps"] for p in here]}
        rows += [
            {"load": load, "cluster": rung, "policy": name and name_of(name),
             **columns("tps_within_slo", interval(np.array(found)))}
            for (rung, name), found in values.items()
        ]  # fmt: skip
    return rows


def _decisions(pieces: Sequence[Mapping[str, Any]], kind: str) -> list[tuple[int, float, Mapping[str, Any]]]:
    """(seed number, weight, decision) of one kind, or of all; a weight is the number of decisions it stands for."""
    found = []
    for seed, piece in enumerate(pieces):
        for row in piece["rows"]:
            if kind in ("all", row["kind"]):
                sampled = sum(other["kind"] == row["kind"] for other in piece["rows"])
                found.append((seed, piece["counts"][row["kind"]] / sampled, row))
    return found


def _regret(base: str, kind: str, policy: str, pieces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the best choice would have added to a policy's, on average over the decisions of a kind."""
    decisions = _decisions(pieces, kind)
    lost = np.array([_lost(row, policy) for _, _, row in decisions]).reshape(len(decisions), 4)
    seeds, weights = np.array([seed for seed, *_ in decisions]), np.array([weight for _, weight, _ in decisions])
    by_seed = np.array([
        np.average(lost[seeds == seed], axis=0, weights=weights[seeds == seed]) for seed in np.unique(seeds)
    ]).reshape(-1, 4)  # fmt: skip
    row: dict[str, Any] = {"base": name_of(base), "kind": KINDS.get(kind, kind), "policy": name_of(policy),
                           "decisions": len(decisions)}  # fmt: skip
    for name, values in zip(("hindsight_tokens", "tokens", "over_random_tokens", "ttft_s"), by_seed.T, strict=True):
        row |= columns(name, interval(values))
    return row


def _lost(row: Mapping[str, Any], policy: str) -> tuple[float, float, float, float]:
    """What one decision lost, and what it won.

    Returns:
        Tokens that the best instance would have added: as it looks in hindsight (too much, the luck of the best of many
        is in it), and picked in one half of the futures and measured in the other (rather too little, a half picks
        badly); tokens of this choice over a random instance; s of own TTFT over the shortest.
    """
    tokens, chosen = np.array(row["tokens"], dtype=np.float64), row["choices"][policy]
    mean, ttft_s = tokens.mean(axis=1), np.mean(row["ttft_s"], axis=1)
    even, odd = halves(tokens)
    crossed = (odd[even.argmax()] - odd[chosen] + even[odd.argmax()] - even[chosen]) / 2
    return mean.max() - mean[chosen], crossed, mean[chosen] - mean.mean(), ttft_s[chosen] - ttft_s.min()


def _ladder_words(ladders: Mapping[tuple, Any], settings: Mapping[str, Any], seeds: Sequence[int]) -> list[str]:
    loads, policies = settings["loads"], settings["policies"]

    def at(rung: str, name: str, load: float) -> np.ndarray:
        return np.array([ladders[load, seed][rung][name] for seed in seeds])

    def maximum(rung: str, name: str) -> np.ndarray:
        return np.max([at(rung, name, load) for load in loads], axis=0)

    best, free = (max(policies, key=lambda name: maximum(rung, name).mean()) for rung in (AS_IT_IS, FREE))
    as_it_is, pooled = maximum(AS_IT_IS, best), maximum(POOL, "tps_within_slo")
    peak = max(loads, key=lambda load: at(AS_IT_IS, best, load).mean())
    share = at(AS_IT_IS, best, peak) / at(POOL, "tps_within_slo", peak)
    free_smetric = gain_words(maximum(FREE, "smetric") / maximum(AS_IT_IS, "smetric") - 1)
    impossible = 100 * (1 - at(POOL, "possible_share", peak).mean())
    return [
        f"Maximum over the loads: {name_of(best)} {as_it_is.mean() / 1000:.0f} thousand tokens/s within SLO, SMetric "
        f"{maximum(AS_IT_IS, 'smetric').mean() / 1000:.0f}. With free reuse everywhere, SMetric gains {free_smetric}, "
        f"and the best, {name_of(free)}, lies {gain_words(maximum(FREE, free) / as_it_is - 1)} above {name_of(best)} "
        "as it is.",
        f"The pool, all instances melted into one that forgets nothing and fetches nothing, lies "
        f"{gain_words(pooled / as_it_is - 1)} above {name_of(best)}, and "
        f"{gain_words(pooled / maximum(FREE, free) - 1)} above free reuse: that is what balance could add at most, and "
        "it is optimistic (a request runs on all instances at once, and a decode hardly waits for a prefill).",
        f"At load {peak:g}, where {name_of(best)} is highest, it serves {100 * share.mean():.0f} % of what the pool "
        f"serves in time; {impossible:.0f} % of the tokens that arrive there belong to requests whose cold part misses "
        "its TTFT limit even alone on an idle instance.",
    ]


def _regret_words(
    regrets: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], horizon: Mapping[str, Any]
) -> list[str]:
    words, how = [], settings["replay"]
    for base in how["bases"]:
        rows = [row for row in regrets if row["base"] == name_of(base)]
        own = {row["kind"]: row for row in rows if row["policy"] == name_of(base)}
        everywhere = own.pop("all")
        words.append(
            f"Single decisions of {name_of(base)} (load {how['load']:g}, {how['instances']} instances, "
            f"{everywhere['decisions']} decisions, every instance tried): the instance that looks best in one half of "
            f"the futures adds {thousand(read(everywhere, 'tokens'))} within SLO of the next {horizon['stretch_s']:g} "
            f"s in the other half; over all futures the best looks {everywhere['hindsight_tokens'] / 1000:.0f} "
            "thousand better, the luck of the best of many included. The policy's own choice is worth "
            f"{thousand(read(everywhere, 'over_random_tokens'))} against a random instance."
        )
        kinds = [
            f"{row['kind']} {row['tokens'] / 1000:+.0f} thousand tokens, own TTFT {row['ttft_s']:.1f} s over the "
            "shortest"
            for row in own.values()
            if row["decisions"]
        ]
        words.append(f"By kind, {name_of(base)}: {'; '.join(kinds)}.")
    return words


def _picture(
    rows: Sequence[Mapping[str, Any]], regrets: Sequence[Mapping[str, Any]], pieces: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
) -> Figure:
    figure, axes = new_figure(14, 4.6, 1, 3)
    left, middle, right = axes[0]
    _draw_ladder(left, rows, settings["policies"])
    base = settings["replay"]["bases"][0]
    for k, policy in enumerate(settings["policies"]):
        here = [row for row in regrets if (row["base"], row["policy"]) == (name_of(base), name_of(policy))]
        at = np.arange(len(here)) + (k - (len(settings["policies"]) - 1) / 2) * 0.15
        found = np.array([read(row, "tokens") for row in here]) / 1000
        line = line_of(policy, k) | {"linestyle": "none"}
        middle.errorbar(at, found[:, 0], ends(found), **line, capsize=2, label=name_of(policy))
        middle.set_xticks(range(len(here)), [row["kind"].replace(" ", "\n") for row in here])
        _draw_ttft(right, policy, k, pieces)
    middle.axhline(0, color="black", linewidth=1)
    middle.set(ylabel="thousand tokens within SLO per decision")
    middle.set_title(f"(b) what the best instance adds ({name_of(base)} routes)")
    right.set(xlabel="own TTFT over that of the best instance (s)", ylabel="share of decisions (%)", ylim=(0, 101))
    right.set_xscale("symlog", linthresh=0.1)
    right.set_xticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
    right.set_xlim(-0.01, 100)
    right.set_title("(c) the same for the request itself")
    figure.legend(*middle.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure


def _draw_ladder(axes: Axes, rows: Sequence[Mapping[str, Any]], policies: Sequence[str]) -> None:
    lines = [(AS_IT_IS, policy, line_of(policy, k) | {"linestyle": "-"}) for k, policy in enumerate(policies)]
    lines += [(FREE, policy, line_of(policy, k) | {"linestyle": ":"}) for k, policy in enumerate(policies)]
    lines += [(POOL, "", {"color": "black", "linestyle": "--", "marker": "*"})]
    for rung, policy, line in lines:
        here = [row for row in rows if row["cluster"] == rung and row["policy"] == (policy and name_of(policy))]
        axes.plot([row["load"] for row in here], [row["tps_within_slo"] / 1000 for row in here], markersize=4, **line)
    axes.set(xlabel="offered load (multiple of the base rate)", ylabel="thousand tokens/s")
    axes.set_title("(a) TPS within SLO: as it is (lines), with free\nreuse (dotted), all instances as one (dashed)")


def _draw_ttft(axes: Axes, policy: str, k: int, pieces: Sequence[Mapping[str, Any]]) -> None:
    decisions = _decisions(pieces, "all")
    over, weights = np.array([_lost(row, policy)[3] for _, _, row in decisions]), np.array([w for _, w, _ in decisions])
    order = np.argsort(over)
    line = {**line_of(policy, k), "marker": ""}
    axes.plot(over[order], 100 * np.cumsum(weights[order]) / weights.sum(), drawstyle="steps-post", **line)
