"""The event loop against the reference simulator: every decision's view, and everything that becomes of a request."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import smetric_gym
from smetric_gym.cluster.cluster import Cluster
from smetric_gym.cluster.fuzz import random_case, random_choice
from smetric_gym.cluster.state import UNISSUED
from smetric_gym.errors import SmetricError

TIMES = ("arrived", "admitted", "first_token", "handed_over", "finish")
COUNTS = ("target", "decode_instance", "local_hit", "global_hit", "read_tokens", "preemptions", "retries")
NAMES = {"arrived": "arrival", "target": "instance"}


def reference_cluster() -> type:
    """The class ``ReferenceCluster`` of the repository's tests folder.

    Raises:
        SmetricError: where the package is installed without its repository.
    """
    tests = Path(smetric_gym.__file__).parents[1] / "tests"
    if not (tests / "reference" / "simulator.py").exists():
        raise SmetricError(
            f"{tests / 'reference'} does not exist: the reference simulator comes with the repository, so "
            "clone it and install it with `pip install -e .`"
        )
    if str(tests) not in sys.path:
        sys.path.insert(0, str(tests))
    return importlib.import_module("reference.simulator").ReferenceCluster


def differences(seed: int, *, debug: bool = False) -> list[str]:
    """Run the random case ``seed`` through both simulators and say where they part; empty when they agree.

    Args:
        seed: of ``fuzz.random_case``.
        debug: check the invariants of the event loop after every event as well.
    """
    trace, config, step_times, mode, window_s, policy_seed = random_case(seed)
    reference = reference_cluster()(trace, config, step_times, arrival_mode=mode, window_s=window_s)
    reference.run(
        lambda view, request: random_choice(
            policy_seed,
            request["id"],
            request["retries"],
            [i["alive"] for i in view],
            [i["local_hit"] for i in view],
        )
    )

    cluster = Cluster(trace, config, arrival_mode=mode, window_s=window_s, step_times=step_times, debug=debug)
    found: list[str] = []
    count, more = 0, cluster.advance()
    while more:
        r = cluster.pending
        view = cluster.view
        choice = random_choice(
            policy_seed,
            r,
            int(cluster.state.requests["retries"][r]),
            list(view.alive > 0),
            view.local_hit_tokens.astype(int).tolist(),
        )
        if count < len(reference.decisions):
            found += _decision(count, cluster, choice, reference.decisions[count])
        if len(found) > 20:
            return found
        count += 1
        more = cluster.step(choice)
    if count != len(reference.decisions):
        found.append(f"{count} decisions, reference {len(reference.decisions)}")
    return found + _outcomes(cluster, reference.outcome)


def _decision(count: int, cluster: Cluster, choice: int, expected: tuple) -> list[str]:
    view, request, chosen = expected
    state, r = cluster.state, cluster.pending
    mine: list[tuple[str, Any, Any]] = [
        ("request", r, request["id"]),
        ("choice", choice, chosen),
        ("prompt", int(cluster.request.prompt_tokens), request["prompt"]),
        ("global_hit", int(cluster.request.global_hit_tokens), request["global_hit"]),
    ]
    for i, theirs in enumerate(view):
        inst, seen = state.instances[i], cluster.view[i]
        mine += [
            (f"instance {i} {name}", int(value), int(theirs[name]))
            for name, value in (
                ("local_hit", seen.local_hit_tokens),
                ("in_flight", seen.in_flight),
                ("running", seen.running),
                ("waiting", seen.waiting),
                ("in_flight_tokens", seen.in_flight_tokens),
                ("unprefilled", seen.unprefilled_tokens),
                ("unprefilled_pairs", inst["todo_pairs"]),
                ("blocks_used", inst["capacity"] - inst["empty"] - inst["idle"]),
                ("alive", seen.alive),
            )
        ]
    return [
        f"decision {count} at {int(state.cluster['now'][0])}: {what} is {a}, reference {b}"
        for what, a, b in mine
        if a != b
    ]


def _outcomes(cluster: Cluster, expected: list[dict]) -> list[str]:
    found = []
    states = cluster.outcome["state"]
    for r, theirs in enumerate(expected):
        row = cluster.state.requests[r]
        if (states[r] == UNISSUED) != (theirs["state"] == "unissued"):
            found.append(f"request {r}: state is {states[r]}, reference {theirs['state']}")
        for field in TIMES + COUNTS:
            name = NAMES.get(field, field)
            value = None if field in TIMES and row[field] < 0 else int(row[field])
            if value != theirs[name]:
                found.append(f"request {r}: {name} is {value}, reference {theirs[name]}")
    return found
