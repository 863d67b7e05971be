"""What an environment keeps of an episode beside its cluster, and the compiled code that reads one decision out.

A single environment and a vector of them run the same functions, which is why they agree to the last bit.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np

from smetric_gym.cluster import fleet
from smetric_gym.cluster.cluster import Cluster
from smetric_gym.cluster.fleet import at, digest
from smetric_gym.cluster.view import REQUEST_VIEW, VIEW
from smetric_gym.envs.rewards import ENDED, TERMS
from smetric_gym.slo import SLO

PROGRESS = np.dtype(
    [
        ("decisions", np.int64),  # decisions so far, without the one that waits
        ("before", np.int64),  # the requests that ended in the last step are finished[before:seen]
        ("seen", np.int64),
        ("then", np.int64),  # ticks, the last decision
        ("place", np.int64),  # requests of the reference's run that have been counted
    ]
)
ALIVE, ROUTED, CAPACITY, TOKEN_S, PAIR_S = (
    (VIEW.names or ()).index(name)
    for name in ("alive", "routed", "capacity_tokens", "prefill_token_s", "prefill_pair_s")
)
TIME_S = (REQUEST_VIEW.names or ()).index("time_s")
"""Columns that the empty cluster still has."""


class Tally(NamedTuple):
    """The arrays of one episode: first those of its cluster that are read (it never moves them), then its own."""

    cluster: np.ndarray  # [1] state.CLUSTER
    instances: np.ndarray  # [n] state.INSTANCE
    requests: np.ndarray  # [requests] state.REQUEST_STATE
    finished: np.ndarray  # [requests] int32, in order of completion
    seen: np.ndarray  # [instances] VIEW
    asks: np.ndarray  # [1] REQUEST_VIEW
    shown: np.ndarray  # [instances, fields] float32, the memory of `seen`
    asked: np.ndarray  # [fields] float32, the memory of `asks`

    progress: np.ndarray  # [1] PROGRESS
    limits: np.ndarray  # [5] float64: scored from s, to s, TTFT s, TTFT s per token, TPOT s
    total: np.ndarray  # [terms] float64, the sums over the episode
    rows: np.ndarray  # [rows] int32, the instance that each row of the observation shows; -1 for none
    decided: np.ndarray  # [requests] int32, number of the decision that routed it last, -1
    sessions: np.ndarray  # [requests, 2] int32, session and turn
    reference_s: np.ndarray  # [K] float64, when the reference earned, in order
    reference_tokens: np.ndarray  # [K] float64, and what

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        slo: SLO,
        warm_up_s: float,
        window_s: float,
        rows: np.ndarray,
        reference: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Tally:
        """The tally of a cluster that has not run yet.

        Args:
            cluster: whose memory is read.
            slo: the limits.
            warm_up_s: s; requests that arrive earlier are not scored.
            window_s: s of the scored window, which begins then.
            rows: [rows] instance of each row of the observation, -1 for a row without one.
            reference: when a reference policy earned (s, in order), and how many tokens.
        """
        requests, state = cluster.trace.requests, cluster.state
        nothing = np.zeros(0)
        seconds, tokens = reference or (nothing, nothing)
        limits = [warm_up_s, warm_up_s + window_s, slo.ttft_s, slo.ttft_s_per_token, slo.tpot_s]
        return cls(
            cluster=state.cluster,
            instances=state.instances,
            requests=state.requests,
            finished=state.finished,
            seen=state.seen,
            asks=state.request_view,
            shown=state.seen.view(np.float32).reshape(len(state.seen), -1),
            asked=state.request_view.view(np.float32),
            progress=np.zeros(1, PROGRESS),
            limits=np.array(limits, dtype=np.float64),
            total=np.zeros(len(TERMS)),
            rows=np.ascontiguousarray(rows, dtype=np.int32),
            decided=np.full(len(requests), -1, dtype=np.int32),
            sessions=np.stack([requests["session"], requests["turn"]], axis=1),
            reference_s=np.ascontiguousarray(seconds, dtype=np.float64),
            reference_tokens=np.ascontiguousarray(tokens, dtype=np.float64),
        )


# No function here allocates, so arrays need no reference counts (engine.py).
njit = numba.njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]


@njit
def count(t, waiting, terms):
    """Credit what ended since the last decision, into `terms` and the totals; return the s since then."""
    # The same float64 operations as measures.Scored: a request on the edge of a limit falls on the same side.
    progress, limits = t.progress[0], t.limits
    now = t.cluster[0].now
    elapsed_s = (now - progress.then) / 1e12
    progress.then = now
    progress.before = progress.seen
    progress.seen = t.cluster[0].done
    for k in range(len(terms)):
        terms[k] = 0.0
    for k in range(progress.before, progress.seen):
        q = t.requests[t.finished[k]]
        arrival, first, finish = q.arrived / 1e12, q.first_token / 1e12, q.finish / 1e12
        if not (arrival >= limits[0] and arrival < limits[1]):
            continue
        ttft_s, ttft_limit_s = first - arrival, limits[2] + limits[3] * q.prompt
        tpot_s = (finish - first) / (q.output - 1) if q.output > 1 else 0.0
        tokens = np.int64(q.prompt) + q.output
        met_ttft, met_tpot = ttft_s <= ttft_limit_s, tpot_s <= limits[4]
        terms[3] += 1
        terms[5] += tokens * (1.0 if met_ttft else ttft_limit_s / ttft_s) * (1.0 if met_tpot else limits[4] / tpot_s)
        if met_ttft:
            terms[2] += q.prompt
            if met_tpot:
                terms[0] += tokens
                terms[1] += q.output
                terms[4] += 1
    while progress.place < len(t.reference_s):
        if waiting and t.reference_s[progress.place] > now / 1e12:
            break
        terms[6] += t.reference_tokens[progress.place]
        progress.place += 1
    for k in range(len(terms)):
        t.total[k] += terms[k]
    if waiting:
        t.decided[t.cluster[0].pending] = progress.decisions
        progress.decisions += 1
    return elapsed_s


@njit
def allow(t, waiting, mask):
    """Write which rows may be chosen into `mask`, int8; a learner's mask always leaves something."""
    some = False
    for row in range(len(mask)):
        i = t.rows[row]
        mask[row] = i >= 0 and (t.shown[i, ALIVE] > 0 if waiting else t.instances[i].alive > 0)
        some = some or mask[row] > 0
    if not some:
        for row in range(len(mask)):
            mask[row] = t.rows[row] >= 0


@njit
def observe(t, waiting, out):
    """Write the decision at hand into `out`, [rows, fields] float32; after the last one, the empty cluster.

    Rows without an instance are zero.
    """
    fields = t.shown.shape[1]
    for row in range(len(out)):
        i = t.rows[row]
        for k in range(fields):
            out[row, k] = t.shown[i, k] if waiting and i >= 0 else 0.0
        for k in range(len(t.asked)):
            out[row, fields + k] = t.asked[k] if waiting and i >= 0 else 0.0
        if i >= 0 and not waiting:
            out[row, fields + TIME_S] = t.cluster[0].now / 1e12
            for k in (CAPACITY, TOKEN_S, PAIR_S):
                out[row, k] = t.shown[i, k]
            out[row, ROUTED] = t.instances[i].routed
            out[row, ALIVE] = t.instances[i].alive


@njit
def list_ended(t, out):
    """Write the requests that ended in the last step into `out`, [many] ``ENDED``; return how many there are."""
    progress, limits = t.progress[0], t.limits
    for k in range(progress.before, progress.seen):
        r = t.finished[k]
        q, row = t.requests[r], out[k - progress.before]
        row.request, row.decision, row.instance = r, t.decided[r], q.target
        row.session, row.turn = t.sessions[r, 0], t.sessions[r, 1]
        row.prompt_tokens, row.output_tokens = q.prompt, q.output
        row.arrival_s, row.first_token_s, row.finish_s = q.arrived / 1e12, q.first_token / 1e12, q.finish / 1e12
        row.ttft_s = row.first_token_s - row.arrival_s
        row.ttft_limit_s = limits[2] + limits[3] * q.prompt
        row.tpot_s = (row.finish_s - row.first_token_s) / (q.output - 1) if q.output > 1 else np.nan
        row.tpot_limit_s = limits[4]
        row.scored = row.arrival_s >= limits[0] and row.arrival_s < limits[1]
        row.met = row.ttft_s <= row.ttft_limit_s and (q.output == 1 or row.tpot_s <= limits[4])
    return progress.seen - progress.before


def ended(tally: Tally) -> np.ndarray:
    """The ``ENDED`` rows of the last step, a new array."""
    progress = tally.progress[0]
    rows = np.zeros(int(progress["seen"] - progress["before"]), dtype=ENDED)
    list_ended(tally, rows)
    return rows


@njit
def read(t, waiting, mask, out, terms):
    """Read one decision out into `mask`, `out` (unless it has no columns) and `terms`; return the s since the last."""
    elapsed_s = count(t, waiting, terms)
    allow(t, waiting, mask)
    if out.shape[1] > 0:
        observe(t, waiting, out)
    return elapsed_s


@njit
def choose(actions, masks, rows, choices):
    """Write the instance of every action; return the first environment whose action is not allowed, or -1.

    `actions` [envs] are rows; `masks` [envs, rows] int8; `rows` [envs, rows] instances; `choices` [envs] int64.
    """
    for c in range(len(actions)):
        row = actions[c]
        if row < 0 or row >= masks.shape[1] or masks[c, row] == 0:
            return c
        choices[c] = rows[c, row]
    return -1


@cache
def read_many():
    """The compiled function that reads the decisions of a whole fleet out of a `Table` of tallies."""
    sources = digest(Path(__file__), Path(fleet.__file__))

    @numba.njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]
    def read_all(like, addresses, lengths, waiting, masks, out, terms, elapsed_s):
        sources  # noqa: B018  # part of the key of the cache
        for c in range(len(waiting)):
            elapsed_s[c] = read(at(like, addresses[c], lengths[c]), waiting[c], masks[c], out[c], terms[c])

    return read_all
