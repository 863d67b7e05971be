"""What happened to the requests that count: times, limits met, follow-ups, and the load of the instances."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from smetric_gym.errors import SmetricError

if TYPE_CHECKING:
    from smetric_gym.slo import SLO
    from smetric_gym.workload.trace import Trace

BACKLOG_GROWTH = 0.05
SOME_LATE, MOST_LATE = 0.1, 0.5
READ_PEAK_S = 10.0


class Scored:
    """The requests of a run that count, and what happened to them; the scores are functions of this.

    A request counts when it arrived at or after ``warm_up_s`` and before ``warm_up_s + window_s``; whatever
    finishes later still counts. A limit that was never reached (an unfinished request) is not met.

    Args:
        trace: the workload.
        outcome: [requests] ``cluster.OUTCOME``.
        slo: the limits.
        instances: instances that take requests.
        warm_up_s: s before the scored window.
        window_s: length of the scored window in s.
        kv_bytes_per_token: bytes of KV of one token.
        block_tokens: block size for which ideal reuse is counted.
        imbalance_window_s: s over which load is averaged before max / mean is taken.
        arrival_mode: how requests arrived, repeated in the scores.
        seed: seed of the run, repeated in the scores.
    """

    def __init__(
        self,
        trace: Trace,
        outcome: np.ndarray,
        slo: SLO,
        *,
        instances: int,
        warm_up_s: float,
        window_s: float,
        kv_bytes_per_token: float = 0.0,
        block_tokens: int = 16,
        imbalance_window_s: float = 60.0,
        arrival_mode: str = "closed",
        seed: int = 0,
    ) -> None:
        if not window_s > 0 or not np.isfinite(window_s):
            raise SmetricError(f"window_s is {window_s}, allowed: a finite number of seconds above 0")
        if not 0 <= warm_up_s < np.inf:
            raise SmetricError(f"warm_up_s is {warm_up_s}, allowed: 0 s or more")
        if not imbalance_window_s > 0:
            raise SmetricError(f"imbalance_window_s is {imbalance_window_s}, allowed: more than 0 s")
        self.trace, self.all, self.slo = trace, outcome, slo
        self.instances, self.warm_up_s, self.window_s = instances, warm_up_s, window_s
        self.end_s = warm_up_s + window_s
        self.kv_bytes_per_token, self.block_tokens = kv_bytes_per_token, block_tokens
        self.imbalance_window_s, self.arrival_mode, self.seed = imbalance_window_s, arrival_mode, seed
        arrival = outcome["arrival_s"]
        self.mask = (arrival >= warm_up_s) & (arrival < self.end_s)  # nan (never arrived) is False
        self.outcome = outcome[self.mask]
        self.prompt = trace.requests["prompt"][self.mask].astype(np.int64)
        self.output = trace.requests["output"][self.mask].astype(np.int64)

    # -- times and limits

    @cached_property
    def ttft_s(self) -> np.ndarray:
        """Time to the first token in s, nan where there was none."""
        return self.outcome["first_token_s"] - self.outcome["arrival_s"]

    @cached_property
    def tpot_s(self) -> np.ndarray:
        """Time per output token after the first in s, nan where there is no second one."""
        steps = np.where(self.output > 1, self.output - 1, np.nan)
        return (self.outcome["finish_s"] - self.outcome["first_token_s"]) / steps

    @cached_property
    def response_s(self) -> np.ndarray:
        """Time from the arrival to the last token in s."""
        return self.outcome["finish_s"] - self.outcome["arrival_s"]

    @cached_property
    def finished(self) -> np.ndarray:
        """True where the last token came."""
        return np.isfinite(self.outcome["finish_s"])

    @cached_property
    def met_ttft(self) -> np.ndarray:
        """True where the first token came in time."""
        return self.ttft_s <= self.slo.ttft_limit_s(self.prompt)

    @cached_property
    def met(self) -> np.ndarray:
        """True where both limits are met; a request of one output token has no TPOT to miss."""
        return self.met_ttft & self.finished & ((self.tpot_s <= self.slo.tpot_s) | (self.output == 1))

    def per_s(self, tokens: np.ndarray) -> float:
        """Sum over the scored requests, per second of the window."""
        return float(tokens.sum() / self.window_s)

    # -- sessions

    @cached_property
    def follow_ups(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Instances of the scored follow-ups, of the requests before them, and of their sessions' first."""
        issued = np.flatnonzero(self.all["instance"] >= 0)
        session = self.trace.requests["session"][issued]
        order = np.argsort(session, kind="stable")
        session, request = session[order], issued[order]
        starts = np.flatnonzero(np.diff(session, prepend=-1))
        first = np.repeat(request[starts], np.diff(starts, append=len(request)))
        later = np.flatnonzero(request != first)
        later = later[self.mask[request[later]]]
        place = self.all["instance"]
        return place[request[later]], place[request[later - 1]], place[first[later]]

    # -- load

    @cached_property
    def leaves_s(self) -> np.ndarray:
        """When each request of the trace leaves its instance: finished or handed over; inf if never."""
        out = self.all["finish_s"]
        out = np.where(np.isfinite(self.all["handed_over_s"]), self.all["handed_over_s"], out)
        return np.where(np.isfinite(out), out, np.inf)

    def in_flight_tokens(self, edges_s: np.ndarray) -> np.ndarray:
        """Prompt tokens in flight, averaged over each window between two edges, [windows, instances]."""
        prompt, place = self.trace.requests["prompt"].astype(np.float64), self.all["instance"]
        return in_flight(self.all["arrival_s"], self.leaves_s, prompt, place, self.instances, edges_s)

    def in_flight_requests(self, start_s: float, end_s: float) -> float:
        """Requests of all instances that are not finished, averaged over [start, end)."""
        end = np.where(np.isfinite(self.all["finish_s"]), self.all["finish_s"], np.inf)
        everywhere, edges_s = np.zeros(len(end), dtype=np.int64), np.array([start_s, end_s])
        return float(in_flight(self.all["arrival_s"], end, np.ones(len(end)), everywhere, 1, edges_s).sum())

    def load_imbalance(self) -> float:
        """Mean over windows of max / mean over instances; windows without load are left out.

        The load is prompt tokens in flight: from arrival to finish, or to hand-over when disaggregated. A
        request whose instance went away counts on its last instance; an instance that is down counts in the
        mean, without load.
        """
        windows = max(1, round(self.window_s / self.imbalance_window_s))
        load = self.in_flight_tokens(np.linspace(self.warm_up_s, self.end_s, windows + 1))
        mean = load.mean(axis=1)
        used = mean > 0
        return float((load.max(axis=1)[used] / mean[used]).mean()) if used.any() else float("nan")

    def routed(self) -> np.ndarray:
        """[instances] scored requests that each instance got."""
        place = self.outcome["instance"]
        return np.bincount(place[place >= 0], minlength=self.instances)

    def count_reason(self, name: str) -> int:
        """Scored requests that were routed for this ``agents.memory.Reason``."""
        from smetric_gym.agents.memory import Reason

        return int(np.count_nonzero(self.outcome["reason"] == Reason[name]))

    def read_peak_bytes_per_s(self) -> float:
        """Bytes moved from the global tier for the requests admitted in the busiest 10 s, per second."""
        at = self.all["admitted_s"]
        inside = (at >= self.warm_up_s) & (at < self.end_s)
        bins = ((at[inside] - self.warm_up_s) // READ_PEAK_S).astype(np.int64)
        tokens = np.bincount(bins, weights=self.all["read_tokens"][inside], minlength=1)
        return float(tokens.max() * self.kv_bytes_per_token / min(READ_PEAK_S, self.window_s))

    def saturation(self) -> str:
        """Whether the cluster keeps up with the requests of the window.

        Returns:
            "overloaded" when the mean number of requests in flight grows from the second to the last quarter
            of the window by more than 5 % of the requests that arrive between the middles of the two, or when
            more than half of the scored requests start late: they wait longer than their TTFT limit before
            work on them begins (agents that wait for answers keep the backlog of a closed loop finite); else
            "backlogged" when more than 10 % start late; else "stable".
        """
        quarter = self.window_s / 4
        second = self.in_flight_requests(self.warm_up_s + quarter, self.warm_up_s + 2 * quarter)
        last = self.in_flight_requests(self.end_s - quarter, self.end_s)
        arrival = self.outcome["arrival_s"]
        after, before = self.warm_up_s + 1.5 * quarter, self.end_s - 0.5 * quarter
        between = np.count_nonzero((arrival >= after) & (arrival < before))
        waited = self.outcome["admitted_s"] - self.outcome["arrival_s"]
        late = np.count_nonzero(~(waited <= self.slo.ttft_limit_s(self.prompt)))
        if last - second > max(BACKLOG_GROWTH * between, 1.0) or late > MOST_LATE * len(waited):
            return "overloaded"
        return "backlogged" if late > SOME_LATE * len(waited) else "stable"


def in_flight(start_s, end_s, weight, instance, instances: int, edges_s) -> np.ndarray:
    """Time-averaged sum of the weights of what is in flight, per window between two edges and instance.

    Args:
        start_s: [n] s, nan for what never started.
        end_s: [n] s, inf for what never ended.
        weight: [n].
        instance: [n], -1 for none.
        instances: number of columns.
        edges_s: [windows + 1] s, ascending.

    Returns:
        [windows, instances] float64.
    """
    known = np.isfinite(start_s) & (np.asarray(instance) >= 0)
    start, end, weight, instance = start_s[known], end_s[known], weight[known], np.asarray(instance)[known]
    until = np.stack(
        [
            np.bincount(instance, weights=weight * (np.clip(edge, start, end) - start), minlength=instances)
            for edge in edges_s
        ]
    )
    return np.diff(until, axis=0) / np.diff(edges_s)[:, None]
