"""Speed and memory on this machine: what `smetric-gym bench` prints. Figures, not promises."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from smetric_gym.experiment.evaluate import evaluate, resolve
from smetric_gym.experiment.prepare import Setup, policy, prepare
from smetric_gym.workload.trace import REQUEST, Trace, Trigger

SESSIONS, TURNS, GAP_S, SYSTEM_TOKENS, SYSTEMS = 500, 10, 3.0, 4096, 8
TRIES = 3
MANY = 64
FIRST_RUN = (
    "import time; t = time.perf_counter(); from smetric_gym import evaluate; "
    "evaluate('smetric', instances=2, warm_up_s=0, window_s=60); print(time.perf_counter() - t)"
)
IMPORT = "import time; t = time.perf_counter(); import smetric_gym; print(time.perf_counter() - t)"


def bench(
    path: str | None = None, large: bool = False, say: Callable[[str], Any] = lambda words: None
) -> list[dict[str, Any]]:
    """Measure; one row per figure with what, value, unit, note.

    Args:
        path: a Mooncake JSONL workload for the first figure instead of the built-in one.
        large: also run 512 instances with a million requests.
        say: called with what is being measured.
    """
    rows: list[dict[str, Any]] = []

    def add(what: str, value: float, unit: str, note: str = "") -> None:
        rows.append({"what": what, "value": value, "unit": unit, "note": note})

    say("event loop on an agent workload, 8 instances")
    given: dict[str, Any] = {"instances": 8, "warm_up_s": 0.0, "window_s": 1e6}
    if path is None:
        setup = prepare(resolve("smetric", given)[0], agent_workload())
        note = f"built-in: {SESSIONS} sessions of {TURNS} turns, closed loop, shared tier, smetric"
    else:
        setup = prepare(resolve("smetric", {**given, "workload": "mooncake", "workload.path": path})[0])
        note = f"{os.path.basename(path)}, closed loop, shared tier, smetric"
    add("event loop, agent workload, 8 instances", _requests_per_s(setup), "requests/s", note)
    say("event loop at trace1, 32 instances, load 1.5")
    setup = prepare(resolve("smetric", {"load": 1.5})[0])
    note = f"{len(setup.trace):,} requests"
    add("event loop, trace1 at load 1.5, 32 instances", _requests_per_s(setup), "requests/s", note)
    say("one environment, random policy")
    steps, note = _environment_steps_per_s()
    add("one environment, random policy", steps, "steps/s", note)
    for instances in (8, 32):
        say(f"{MANY} environments of {instances} instances in one")
        steps, note = _vector_steps_per_s(instances)
        add(f"{MANY} environments in one, {instances} instances", steps, "steps/s", note)
    say("a default evaluate run")
    start = time.perf_counter()
    evaluate("smetric")
    add("default evaluate run", time.perf_counter() - start, "s", "workload, run and scores")
    add("peak memory so far", _peak_bytes() / 2**20, "MiB", "all of the above in one process")
    say("import, and start in new processes")
    add("import smetric_gym", min(_child(IMPORT) for _ in range(TRIES)), "s")
    note = "imports, and a run of one simulated minute"
    add("start, compiled", min(_child(FIRST_RUN) for _ in range(2)), "s", note)
    say("first use: compiling everything in an empty cache")
    with tempfile.TemporaryDirectory() as cache:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        wall_s = _child(FIRST_RUN, NUMBA_CACHE_DIR=cache)
        cpu_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        add("first use, compiling", wall_s, "s", f"once per installation; {cpu_s:.0f} s of one core")
    if large:
        say("512 instances, a million requests")
        setup = prepare(resolve("smetric", {"instances": 512, "load": 1.5, "window_s": 7300.0})[0])
        note = f"{len(setup.trace):,} requests"
        add("event loop, trace1 at load 1.5, 512 instances", _requests_per_s(setup, 1), "requests/s", note)
        add("peak memory of that", _peak_bytes() / 2**20, "MiB", note)
    return rows


def agent_workload(seed: int = 0) -> Trace:
    """500 closed-loop sessions of 10 turns, 9k tokens in and 130 out on average, 8 shared system prompts."""
    random = np.random.default_rng(seed)
    shape = (SESSIONS, TURNS)
    start = np.cumsum(random.exponential(0.4, SESSIONS))
    output = random.integers(50, 211, shape)
    new = random.integers(500, 1401, shape)
    prompt = SYSTEM_TOKENS + np.cumsum(new, axis=1) + np.cumsum(output, axis=1) - output
    arrival = start[:, None] + np.arange(TURNS) * (GAP_S + 2.0)
    order = np.argsort(arrival.ravel(), kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    requests = np.zeros(shape, dtype=REQUEST)
    requests["arrival"], requests["prompt"], requests["output"] = arrival, prompt, output
    requests["session"], requests["turn"] = np.arange(SESSIONS)[:, None], np.arange(TURNS)
    requests["messages"], requests["system"] = 2 * np.arange(TURNS), SYSTEM_TOKENS
    requests["trigger"] = np.where(np.arange(TURNS) == 0, Trigger.HUMAN, Trigger.TOOL)
    place = place.reshape(shape)
    for name in ("parent", "base"):
        requests[name][:, 0] = -1
        requests[name][:, 1:] = place[:, :-1]
    requests["gap"][:, 1:] = GAP_S
    history = (prompt + output)[:, :-1]
    requests["shared"][:, 1:] = requests["history"][:, 1:] = history
    for system in range(SYSTEMS):  # sessions k, k + 8, ... share a system prompt with session k
        requests["base"][system + SYSTEMS :: SYSTEMS, 0] = place[system, 0]
        requests["shared"][system + SYSTEMS :: SYSTEMS, 0] = SYSTEM_TOKENS
    return Trace.build(requests.ravel()[order].copy(), name="agents")


def _requests_per_s(setup: Setup, tries: int = TRIES) -> float:
    """Requests served per second of wall time, the best of some tries, without building the cluster."""
    router = policy(setup.settings).compile()
    best = 0.0
    for _ in range(tries):
        cluster = setup.cluster()
        start = time.perf_counter()
        cluster.run(router, seed=setup.seed)
        best = max(best, np.isfinite(cluster.outcome["finish_s"]).sum() / (time.perf_counter() - start))
    return best


def _environment_steps_per_s() -> tuple[float, str]:
    try:
        from smetric_gym.envs import ColocatedEnv

        env = ColocatedEnv()
    except Exception as error:  # the figures of the rest do not depend on it
        return _failed(error)
    env.reset(seed=0)
    steps, random = 0, np.random.default_rng(0)
    choices, start = random.integers(env.setup.config.instances, size=20_000), time.perf_counter()
    for choice in choices:
        steps += 1
        if any(env.step(choice)[2:4]):
            break
    return steps / (time.perf_counter() - start), f"{steps:,} steps of SMetric/Colocated-v0"


def _vector_steps_per_s(instances: int) -> tuple[float, str]:
    """Steps of all environments per second, with observations, rewards, and the ends and beginnings of episodes."""
    try:
        from smetric_gym.envs import VectorColocatedEnv

        envs = VectorColocatedEnv(MANY, instances=instances, pool=MANY // 4, warm_up_s=0.0, window_s=600.0)
    except Exception as error:
        return _failed(error)
    envs.reset(seed=0)
    mean_steps = sum(len(cluster.trace) for cluster in envs.clusters) // MANY
    actions = np.random.default_rng(0).integers(instances, size=(mean_steps * 5 // 4, MANY))
    ended, start = 0, time.perf_counter()
    for row in actions:
        _, _, terminated, truncated, _ = envs.step(row)
        ended += int((terminated | truncated).sum())
    steps = actions.size
    return steps / (time.perf_counter() - start), f"{steps:,} random steps, {ended} episodes ended, {MANY // 4} traces"


def _failed(error: Exception) -> tuple[float, str]:
    return float("nan"), f"not measured: {type(error).__name__}: {error}"


def _child(code: str, **environment: str) -> float:
    """What a new Python process prints for `code`."""
    command, variables = [sys.executable, "-c", code], {**os.environ, **environment}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
