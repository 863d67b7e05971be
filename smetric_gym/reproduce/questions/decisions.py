"""Sampled decisions of a run, replayed with other choices: what questions 1 and 7 are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from smetric_gym.agents.memory import Reason
from smetric_gym.agents.policy import Policy, load_policy
from smetric_gym.experiment.prepare import policy as policy_of
from smetric_gym.experiment.prepare import prepare
from smetric_gym.reproduce.questions.replay import Horizon, Rerun


def both_branches(settings: Mapping[str, Any], how: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One run, and what staying with the hits or leaving for the least load would have come to at its follow-ups.

    Args:
        settings: of the run.
        how: ``each`` (decisions of each kind), ``kinds`` (names of `Reason`, by what SMetric would do) and ``horizon``
            (see `Horizon`).

    Returns:
        One row per decision: its ``kind``, whether both choices are the ``same`` instance, and where they are not,
        tokens within SLO and own TTFT of each, one per future: ``stick_tokens``, ``leave_ttft_s``, and so on.
    """
    rows, asked = [], [_named(name, settings) for name in ("smetric_basic", "load_balance")]
    for rerun, kind in _sampled(settings, how, {}):
        stick, leave = (rerun.choice(policy)[0] for policy in asked)
        row: dict[str, Any] = {"kind": kind, "same": stick == leave}
        if stick != leave:
            tokens, ttft_s = rerun.after([stick, leave])
            for k, name in enumerate(("stick", "leave")):
                row |= {f"{name}_tokens": tokens[k].tolist(), f"{name}_ttft_s": ttft_s[k].tolist()}
        rows.append(row)
    return rows


def every_instance(settings: Mapping[str, Any], how: Mapping[str, Any]) -> dict[str, Any]:
    """Every instance tried at a sample of the decisions of one run.

    Args:
        settings: of the run, with the policy that routes before a decision and after it.
        how: ``policies`` (names) that are asked, and what `both_branches` takes.

    Returns:
        ``counts``: decisions by kind that the sample stands for; ``rows``: one per decision with its ``kind``, the
        ``choices`` of the policies, ``tokens`` and ``ttft_s`` [instances][futures].
    """
    rows, counts = [], dict.fromkeys(how["kinds"], 0)
    asked = {name: _named(name, settings) for name in how["policies"]}
    for rerun, kind in _sampled(settings, how, counts):
        choices = {name: rerun.choice(policy)[0] for name, policy in asked.items()}
        tokens, ttft_s = rerun.after(range(rerun.setup.config.instances))
        rows.append({"kind": kind, "choices": choices, "tokens": tokens.tolist(), "ttft_s": ttft_s.tolist()})
    return {"counts": counts, "rows": rows}


def _named(name: str, settings: Mapping[str, Any]) -> Policy:
    return load_policy(name, disaggregated=settings["cluster"]["decode_instances"] > 0)


def _sampled(
    settings: Mapping[str, Any], how: Mapping[str, Any], counts: dict[str, int]
) -> Iterator[tuple[Rerun, str]]:
    """A run, stopped at every sampled decision, and the decision's kind; ``counts`` is filled before the first."""
    setup, horizon, policy = prepare(settings), Horizon(**how["horizon"]), policy_of(settings)
    first = Rerun(setup, policy, horizon)
    kinds, arrival_s = first.reasons(_named("smetric", settings)), first.arrival_s
    kinds[~np.isin(kinds, [Reason[kind] for kind in how["kinds"]])] = 0
    # Whatever arrives in the stretch after a decision shall lie in the window too.
    allowed = (arrival_s >= setup.warm_up_s) & (arrival_s < setup.warm_up_s + setup.window_s - horizon.stretch_s)
    counts.update({kind: int((kinds[allowed] == Reason[kind]).sum()) for kind in how["kinds"]})
    rerun, requests = Rerun(setup, policy, horizon), sample(kinds, allowed, how["each"], setup.seed)
    for request in requests[np.argsort(arrival_s[requests], kind="stable")]:
        rerun.until(request)
        yield rerun, Reason(int(kinds[request])).name


def sample(kinds: np.ndarray, allowed: np.ndarray, each: int, seed: int) -> np.ndarray:
    """Requests drawn from every kind alike, in the order of the trace.

    Args:
        kinds: [requests] int, what is drawn from alike; 0 is drawn from never.
        allowed: [requests] bool, which may be drawn.
        each: so many of each kind, or all where there are fewer.
        seed: of the draw.
    """
    random, drawn = np.random.default_rng(seed), [np.zeros(0, dtype=np.int64)]
    for kind in np.unique(kinds[allowed & (kinds > 0)]):
        those = np.flatnonzero(allowed & (kinds == kind))
        drawn.append(random.choice(those, min(each, len(those)), replace=False))
    return np.sort(np.concatenate(drawn))
