"""A recording over time: the load of every lane, the strips above them, and the worst moments in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smetric_gym.measures import in_flight
from smetric_gym.replay.recording import SLICES, Recording

WINDOWS = 120
"""Windows of the strips: each is ``SLICES / WINDOWS`` slices long."""
QUIET = 0.5
"""Windows with less than this share of the mean load do not count as the worst imbalance."""


@dataclass(frozen=True)
class Strips:
    """Numbers of the whole cluster per window, each [WINDOWS]; a request counts where it arrived.

    Attributes:
        edges_s: [WINDOWS + 1] s.
        tps_within_slo: prompt + output tokens of requests that met both limits, per s.
        arrived: requests that arrived.
        late: of these, the requests that missed their TTFT limit.
        imbalance: max / mean over instances of the prompt tokens in flight; nan without load.
        mean_tokens: that mean.
    """

    edges_s: np.ndarray
    tps_within_slo: np.ndarray
    arrived: np.ndarray
    late: np.ndarray
    imbalance: np.ndarray
    mean_tokens: np.ndarray


@dataclass(frozen=True)
class Moment:
    """A moment to look at: what it is the worst of, when (s), on which lane (-1: all), and why in one sentence."""

    label: str
    time_s: float
    lane: int
    words: str


def lane_names(recording: Recording) -> list[str]:
    """Names of the lanes: instances that take requests first, then those that decode."""
    config = recording.setup.config
    if not config.disaggregated:
        return [f"{i}" for i in range(config.instances)]
    return [f"P{i}" for i in range(config.instances)] + [f"D{i}" for i in range(config.decode_instances)]


def lane_tokens(recording: Recording) -> np.ndarray:
    """Prompt tokens in flight, averaged over each slice, [slices, lanes] float64."""
    run, config, edges = recording.scored.all, recording.setup.config, recording.edges_s
    tokens = recording.scored.in_flight_tokens(edges)
    if not config.disaggregated:
        return tokens
    prompt = recording.setup.trace.requests["prompt"].astype(np.float64)
    end_s = np.where(np.isfinite(run["finish_s"]), run["finish_s"], np.inf)
    place = np.where(run["decode_instance"] >= 0, run["decode_instance"] - config.instances, -1)
    decode = in_flight(run["handed_over_s"], end_s, prompt, place, config.decode_instances, edges)
    return np.hstack([tokens, decode])


def lane_samples(recording: Recording, name: str) -> np.ndarray:
    """A field of the view over time, [slices, lanes] float32; nan for decode instances, which no router sees."""
    seen = recording.samples[name]
    unseen = np.full((SLICES, recording.setup.config.decode_instances), np.nan, np.float32)
    return np.hstack([seen, unseen])


def strips(recording: Recording, tokens: np.ndarray) -> Strips:
    """The strips of a recording.

    Args:
        recording: of a run.
        tokens: [slices, lanes] of `lane_tokens`.
    """
    edges, every = np.linspace(recording.start_s, recording.end_s, WINDOWS + 1), recording.everything
    arrival = every.outcome["arrival_s"]

    def per_window(weights: np.ndarray) -> np.ndarray:
        # A request at the very end of the shown time is outside, as it is outside the scored window.
        inside = (arrival >= edges[0]) & (arrival < edges[-1])
        return np.histogram(arrival[inside], edges, weights=weights[inside])[0]

    load = tokens[:, : recording.setup.config.instances]
    load = load.reshape(WINDOWS, SLICES // WINDOWS, -1).mean(axis=1)
    mean = load.mean(axis=1)
    return Strips(
        edges_s=edges,
        tps_within_slo=per_window(np.where(every.met, every.prompt + every.output, 0.0)) / np.diff(edges),
        arrived=per_window(np.ones(len(arrival))),
        late=per_window(np.where(every.met_ttft, 0.0, 1.0)),
        imbalance=np.divide(load.max(axis=1), mean, out=np.full(WINDOWS, np.nan), where=mean > 0),
        mean_tokens=mean,
    )


def worst_moments(recording: Recording, tokens: np.ndarray, over: Strips) -> list[Moment]:
    """The largest imbalance, the most late requests and the longest queue; those that there are.

    Only the scored window is looked at, if some of it is shown: a cold start is always bad.
    """
    names, middles = lane_names(recording), (over.edges_s[:-1] + over.edges_s[1:]) / 2
    found = []
    counted = _scored(recording, middles)
    busy = counted & (over.mean_tokens > 0) & (over.mean_tokens >= QUIET * over.mean_tokens[counted].mean())
    if busy.any() and len(names) > 1:
        w = int(np.argmax(np.where(busy, over.imbalance, -1)))
        found.append(_imbalance(recording, tokens, over, w, middles[w]))
    if over.late[counted].any():
        w = int(np.argmax(np.where(counted, over.late, 0)))
        width = over.edges_s[1] - over.edges_s[0]
        words = (
            f"Of {over.arrived[w]:,.0f} requests that arrived in the {width:.3g} s around {middles[w]:,.0f} s, "
            f"{over.late[w]:,.0f} missed their TTFT limit."
        )
        found.append(Moment("late requests", float(middles[w]), -1, words))
    counted = _scored(recording, recording.edges_s[:-1])
    waiting = np.where(counted[:, None], recording.samples["waiting"], 0)
    if waiting.max() > 0:
        at, i = (int(k) for k in np.unravel_index(np.argmax(waiting), waiting.shape))
        time_s = float(recording.edges_s[at : at + 2].mean())
        queued_s = float(recording.samples["unprefilled_s"][at, i])
        words = (
            f"At {time_s:,.0f} s {waiting[at, i]:.0f} requests wait on instance {names[i]}, "
            f"where {queued_s:.1f} s of prefill work is queued."
        )
        found.append(Moment("queue", time_s, i, words))
    return found


def _scored(recording: Recording, times_s: np.ndarray) -> np.ndarray:
    """True where a time is in the scored window; everywhere if none is."""
    inside = (times_s >= recording.scored.warm_up_s) & (times_s < recording.scored.end_s)
    return inside if inside.any() else ~inside


def _imbalance(recording: Recording, tokens: np.ndarray, over: Strips, w: int, middle_s: float) -> Moment:
    """The worst imbalance, with the sessions that make it."""
    each, config = SLICES // WINDOWS, recording.setup.config
    load = tokens[w * each : (w + 1) * each, : config.instances].mean(axis=0)
    i = int(np.argmax(load))
    run, requests = recording.scored.all, recording.setup.trace.requests
    there = np.flatnonzero((run["instance"] == i) & (run["arrival_s"] < middle_s))
    there = there[recording.scored.leaves_s[there] > middle_s]
    held = np.bincount(requests["session"][there], weights=requests["prompt"][there])
    largest = np.sort(held[held > 0])[::-1]
    most = int(np.searchsorted(np.cumsum(largest), 0.5 * largest.sum())) + 1 if len(largest) else 0
    which = f"; half of that belongs to {most} of its {len(largest)} sessions" if len(largest) > 1 else ""
    words = (
        f"Around {middle_s:,.0f} s instance {lane_names(recording)[i]} holds {100 * load[i] / load.sum():.0f} % of all "
        f"prompt tokens in flight, {over.imbalance[w]:.1f} times the mean{which}."
    )
    return Moment("imbalance", float(middle_s), i, words)
