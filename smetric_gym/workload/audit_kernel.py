"""The compiled loops of the audit: who used reused tokens last, and a trace under plain load balancing."""

from __future__ import annotations

import heapq

import numba
import numpy as np

BINS_PER_DECADE = 200
"""Resolution of the histogram of reuse intervals: 1.2 %; edges fall on 1, 10, 100 s."""
FIRST_DECADE, LAST_DECADE = -3, 6


def interval_edges() -> np.ndarray:
    """Edges of the histogram, s; the first bin also takes shorter intervals, the last one longer."""
    steps = (LAST_DECADE - FIRST_DECADE) * BINS_PER_DECADE
    return 10.0 ** (np.arange(steps + 1) / BINS_PER_DECADE + FIRST_DECADE)


@numba.njit(cache=True)
def session_reach(leaf, prompt, session, parent, end, order):
    """Leading prompt tokens of each request that its own session has sent or received before.

    Args:
        leaf: [requests] deepest node of each request.
        prompt: [requests] tokens.
        session: [requests] id.
        parent: [nodes] of the prefix tree.
        end: [nodes] tokens from the head.
        order: [requests] requests sorted by session, then by arrival.
    """
    reach = np.zeros(len(leaf), np.int64)
    seen = np.full(len(parent), -1, np.int64)
    for r in order:
        at = leaf[r]
        while at > 0 and seen[at] != session[r]:
            seen[at] = session[r]
            at = parent[at]
        if at > 0:
            reach[r] = min(end[at], prompt[r])
    return reach


@numba.njit(cache=True)
def reuse_intervals(arrival, leaf, hit, parent, start, end, scored, edges):
    """Histogram of the reused tokens of scored requests over the time since any request used them last.

    Args:
        arrival: [requests] s.
        leaf: [requests] deepest node of each request.
        hit: [requests] leading tokens that are reused.
        parent: [nodes] of the prefix tree.
        start: [nodes] tokens from the head.
        end: [nodes] tokens from the head.
        scored: [requests] bool, whose reuse is counted; the others only use tokens.
        edges: [bins + 1] s.

    Returns:
        [bins] tokens.
    """
    tokens = np.zeros(len(edges) - 1, np.int64)
    used = np.full(len(parent), -np.inf)
    for r in range(len(leaf)):
        at = leaf[r]
        while at > 0:
            if scored[r] and hit[r] > start[at]:
                bin_ = np.searchsorted(edges, arrival[r] - used[at], side="left") - 1
                tokens[min(max(bin_, 0), len(tokens) - 1)] += min(end[at], hit[r]) - start[at]
            used[at] = arrival[r]
            at = parent[at]
    return tokens


@numba.njit(cache=True)
def least_in_flight(arrival, tokens, duration, instances, window_s, windows):
    """Send every request to the instance with the fewest tokens in flight, with durations that do not change.

    Args:
        arrival: [requests] s.
        tokens: [requests] prompt + output.
        duration: [requests] s.
        instances: number of instances; ties go round robin.
        window_s: s, length of a window.
        windows: number of windows, from time 0.

    Returns:
        [windows, instances] tokens in flight, averaged over the time of the window; and tokens sent in it.
    """
    load = np.zeros((windows, instances))
    sent = np.zeros((windows, instances))
    flight = np.zeros(instances, np.int64)
    ends = [(np.inf, np.int64(0), np.int64(0))]
    pointer = 0
    for r in range(len(arrival)):
        while ends[0][0] <= arrival[r]:
            _, i, n = heapq.heappop(ends)
            flight[i] -= n
        best = pointer % instances
        for k in range(1, instances):
            i = (pointer + k) % instances
            if flight[i] < flight[best]:
                best = i
        pointer = best + 1
        flight[best] += tokens[r]
        if arrival[r] < windows * window_s:
            sent[int(arrival[r] // window_s), best] += tokens[r]
        until = arrival[r] + duration[r]
        heapq.heappush(ends, (until, np.int64(best), np.int64(tokens[r])))
        for w in range(int(arrival[r] // window_s), min(int(until // window_s), windows - 1) + 1):
            overlap = min(until, (w + 1) * window_s) - max(arrival[r], w * window_s)
            load[w, best] += tokens[r] * overlap / window_s
    return load, sent
