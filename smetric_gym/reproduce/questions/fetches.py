"""What a run reads from the global tier over time, and how long each of its fetches takes on the links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from smetric_gym.cluster.state import State
from smetric_gym.cluster.steptime import TICKS_PER_S
from smetric_gym.experiment.evaluate import run

WINDOW_S = 10.0
"""Reads are added up over windows of this length, as in the score ``global_read_peak_bytes_per_s``."""


def fetched(settings: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """What one run reads from the global tier in its scored window, and how long fetches take.

    Args:
        settings: of the run.

    Returns:
        ``tps_within_slo`` (tokens/s); ``read_bytes_per_s`` [windows of 10 s], of the whole cluster, counted when the
        request is admitted; ``servers``; ``fetches`` of the window; ``bytes_per_fetch``; ``fetch_p50_s`` and
        ``fetch_p99_s``, from admission to arrival on the GPU; ``waited_share`` of that time spent in queues of the
        links; ``busiest_nic`` and ``mean_nic``, share of the window in which the busiest and the average NIC are taken.
    """
    result = run(settings)
    setup, outcome = result.setup, result.outcome
    state = setup.cluster().state
    begin, nic_end, end, alone = fetch_times(state, outcome)
    read = outcome["read_tokens"] > 0
    at, tokens = begin[read], outcome["read_tokens"][read].astype(np.float64)
    inside = (at >= setup.warm_up_s) & (at < setup.warm_up_s + setup.window_s)
    edges = np.arange(0, setup.window_s + WINDOW_S / 2, WINDOW_S) + setup.warm_up_s
    kv_bytes = result.scored.kv_bytes_per_token
    per_window = np.histogram(at, edges, weights=tokens * kv_bytes)[0] / WINDOW_S
    took, unqueued = (end - begin)[read][inside], alone[read][inside]
    nics = state.instances["nic"][outcome["instance"][read]]
    busy = np.bincount(nics[inside], weights=nic_end[read][inside], minlength=len(state.nic_free)) / setup.window_s
    shares = np.quantile(took, [0.5, 0.99]) if len(took) else np.full(2, np.nan)
    return {
        "tps_within_slo": result["tps_within_slo"],
        "read_bytes_per_s": np.rint(per_window).tolist(),
        "servers": len(state.nic_free) // setup.config.nics_per_server,
        "fetches": len(took),
        "bytes_per_fetch": float(tokens[inside].mean() * kv_bytes) if len(took) else 0.0,
        "fetch_p50_s": float(shares[0]),
        "fetch_p99_s": float(shares[1]),
        "waited_share": max(0.0, float(1 - unqueued.sum() / took.sum())) if len(took) else 0.0,
        "busiest_nic": float(busy.max()),
        "mean_nic": float(busy.mean()),
    }


def fetch_times(state: State, outcome: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """When each load from the global tier begins and ends, by the rules of the links (RULES.md section 7).

    A load is queued when its request is admitted, on the NIC, then on PCIe; several of one step in order of arrival.
    What a preempted request reads again is counted as if it had been read at its first admission. Colocated clusters
    only: nothing else is on their links.

    Args:
        state: of a cluster of the same configuration, for its links.
        outcome: [requests] ``cluster.OUTCOME``.

    Returns:
        Four times in s, [requests] float64 each: when the load is queued, how long it has the NIC, when it has
        arrived (nan without a load, as the first), and how long it would take on free links.
    """
    cluster, instances = state.cluster[0], state.instances
    nic_latency, pcie_latency = int(cluster["nic_latency"]), int(cluster["pcie_latency"])
    nic_free, pcie_free = [0] * len(state.nic_free), [0] * len(instances)
    begin = np.where(outcome["read_tokens"] > 0, outcome["admitted_s"], np.nan)
    on_nic, end, alone = np.zeros(len(outcome)), np.full(len(outcome), np.nan), np.zeros(len(outcome))
    reads = np.flatnonzero(np.isfinite(begin))
    for r in reads[np.lexsort((outcome["arrival_s"][reads], begin[reads]))].tolist():  # of one step: first come
        place, tokens = int(outcome["instance"][r]), int(outcome["read_tokens"][r])
        nic, now = int(instances["nic"][place]), round(float(begin[r]) * TICKS_PER_S)
        nic_time = nic_latency + tokens * int(instances["nic_token"][place])
        pcie_time = pcie_latency + tokens * int(instances["pcie_token"][place])
        nic_free[nic] = max(now, nic_free[nic]) + nic_time
        pcie_free[place] = max(nic_free[nic], pcie_free[place]) + pcie_time
        on_nic[r], end[r], alone[r] = nic_time, pcie_free[place], nic_time + pcie_time
    return begin, on_nic / TICKS_PER_S, end / TICKS_PER_S, alone / TICKS_PER_S
