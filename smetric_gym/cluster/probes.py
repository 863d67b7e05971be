"""Serving experiments on one or two instances, through the event loop: what engine benchmarks measure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from smetric_gym.cluster.cluster import Cluster
from smetric_gym.cluster.config import ClusterConfig
from smetric_gym.cluster.hardware import Hardware
from smetric_gym.cluster.steptime import step_time
from smetric_gym.workload.trace import REQUEST, Trace


def serve(
    hardware: Hardware, rows: Sequence[dict[str, Any]], targets: Sequence[int] = (), **config: Any
) -> np.ndarray:
    """Serve requests in closed loop and return their outcomes.

    Args:
        hardware: of every instance.
        rows: per request the fields of ``workload.trace.REQUEST`` that matter (``prompt``, ``output``, ...);
            the others are 0, ``parent`` and ``base`` are -1, each request is a session.
        targets: instance of each request; all go to instance 0 by default.
        config: fields of ``ClusterConfig``; one instance without a global tier by default.

    Returns:
        [requests] dtype ``cluster.OUTCOME``.
    """
    requests = np.zeros(len(rows), dtype=REQUEST)
    for r, row in enumerate(rows):
        for name, value in {"session": r, "parent": -1, "base": -1, **row}.items():
            requests[r][name] = value
    settings = ClusterConfig(**{"instances": 1, "global_tier": 0, **config})
    times = [step_time(hardware, settings.max_batched_tokens, settings.max_seqs)] * settings.instances
    cluster = Cluster(Trace.build(requests), settings, step_times=times)
    while cluster.advance():
        cluster.assign(targets[cluster.pending] if len(targets) else 0)
    return cluster.outcome


def ttft_s(outcome: np.ndarray) -> np.ndarray:
    """[requests] s from arrival at the router to the first token."""
    return outcome["first_token_s"] - outcome["arrival_s"]


def tpot_s(outcome: np.ndarray, output: int) -> np.ndarray:
    """[requests] s per output token after the first one, of requests with `output` tokens."""
    return (outcome["finish_s"] - outcome["first_token_s"]) / (output - 1)


def cold_ttft_s(hardware: Hardware, prompt: int, streams: int = 0, phases: int = 8) -> float:
    """TTFT in s of a prompt that hits nothing, on an instance that is idle or decodes `streams` requests."""
    return (
        prefill_beside(hardware, prompt, streams, phases)[0]
        if streams
        else float(ttft_s(serve(hardware, [{"prompt": prompt, "output": 1}]))[0])
    )


STREAM_PROMPT, STREAM_OUTPUT = 512, 300


def prefill_beside(
    hardware: Hardware, prompt: int, streams: int, phases: int = 8
) -> tuple[float, float, float]:
    """What a prefill and the decoding requests (streams) beside it do to each other.

    The window runs from the moment when the prompt is sent to its first token, so it includes ``api`` time,
    in which the streams decode at full speed. Tokens of a stream in the window = (window - how much later it
    completes than without the prefill) / its TPOT without the prefill. All is averaged over `phases` arrivals
    within a step of the streams.

    Returns:
        TTFT of the prompt in s; TPOT of a stream in the window in s (window / tokens); mean duration in s of
        the steps that compute the prompt.
    """
    rows = [{"prompt": STREAM_PROMPT, "output": STREAM_OUTPUT}] * streams
    alone = serve(hardware, rows)
    alone_s = float(tpot_s(alone, STREAM_OUTPUT).mean())
    window = tokens = computing = 0.0
    for phase in range(phases):
        arrival = 50 * alone_s + alone["first_token_s"].max() + alone_s * phase / phases
        both = serve(hardware, [*rows, {"prompt": prompt, "output": 1, "arrival": arrival}])
        delay = float((both["finish_s"][:streams] - alone["finish_s"]).mean())
        window += float(ttft_s(both)[-1])
        tokens += (float(ttft_s(both)[-1]) - delay) / alone_s
        computing += float(both["first_token_s"][-1] - both["admitted_s"][-1])
    steps = math.ceil(prompt / (ClusterConfig.max_batched_tokens - streams))
    return window / phases, window / tokens, computing / phases / steps


def hit_ttft_s(hardware: Hardware, prompt: int, tier: str) -> float:
    """TTFT in s of a prompt whose KV is all there.

    Args:
        hardware: of the instances.
        prompt: tokens.
        tier: "gpu" (the instance has it), "cpu" (loaded over PCIe alone) or "rdma" (over NIC, then PCIe).
    """
    rows = [
        {"prompt": prompt, "output": 1},
        {"prompt": prompt, "output": 1, "arrival": 1000, "base": 0, "shared": prompt},
    ]
    if tier == "gpu":
        return float(ttft_s(serve(hardware, rows))[1])
    links = {"nic_bytes_per_s": math.inf, "nic_latency_s": 0.0} if tier == "cpu" else {}
    return float(ttft_s(serve(hardware, rows, [0, 1], instances=2, global_tier=1, **links))[1])


def closed_loop(
    hardware: Hardware, concurrency: int, prompt: int, output: int, turns: int = 4
) -> tuple[float, float]:
    """Mean TTFT and TPOT in s with always `concurrency` requests in flight, first and last turn not counted.

    The first requests have outputs of output / concurrency, twice that, ...: the others start evenly spaced.
    """
    rows = [
        {
            "prompt": prompt,
            "session": i,
            "parent": (turn - 1) * concurrency + i if turn else -1,
            "output": output if turn else max(1, output * (i + 1) // concurrency),
        }
        for turn in range(turns)
        for i in range(concurrency)
    ]
    inner = serve(hardware, rows)[concurrency:-concurrency]
    return float(ttft_s(inner).mean()), float(tpot_s(inner, output).mean())


def makespan_s(hardware: Hardware, count: int, concurrency: int, prompt: int, output: int) -> float:
    """Time in s to serve `count` requests that hit nothing, `concurrency` at a time, which start at once."""
    rows = [
        {"prompt": prompt, "output": output, "parent": r - concurrency if r >= concurrency else -1}
        for r in range(count)
    ]
    return float(serve(hardware, rows)["finish_s"].max())


def output_tokens_per_s(hardware: Hardware, count: int, rate: float, prompt: int, output: int) -> float:
    """Output tokens per s until the last of `count` requests is complete, sent at `rate` per s."""
    rows = [{"prompt": prompt, "output": output, "arrival": r / rate} for r in range(count)]
    return count * output / float(serve(hardware, rows)["finish_s"].max())
