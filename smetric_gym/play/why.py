"""Why a policy chose as it did, with its own numbers at that moment."""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from smetric_gym.agents import ties
from smetric_gym.agents.load import REQUESTS, load_of, mean_alive
from smetric_gym.agents.memory import REASON, Reason
from smetric_gym.agents.policy import Policy
from smetric_gym.agents.smetric import not_overloaded, session_not_evicted
from smetric_gym.agents.smetric_v2 import estimate_load
from smetric_gym.play.moment import Moment
from smetric_gym.play.words import tokens

RULES = {
    "bailian": "lambda x (1 - cached share of the prompt) + (1 - lambda) x requests / most requests",
    "lmetric": "(queued prefill tokens + new tokens of this prompt) x (requests + 1)",
    "lmetric_v1": "new tokens of this prompt x requests",
    "load_balance": "load",
    "dynamo": "queued prefill tokens + new tokens of this prompt",
    "dynamo_cost": "blocks to prefill + blocks to decode",
    "vllm": "4 x waiting + running",
}
"""What the policies' scores are, in words; the numbers come from the policies themselves."""
SHOWN = 5
SMETRIC = ("smetric", "smetric_basic", "smetric_overload_guard", "smetric_eviction_guard")


@dataclass(frozen=True)
class Check:
    """A condition that the policy looked at, with its numbers."""

    words: str
    holds: bool


@dataclass(frozen=True)
class Why:
    """An explanation.

    Attributes:
        sentence: what was decided, and on which grounds.
        checks: conditions in the order in which the policy asks them; those not reached are left out.
        columns: of the table.
        rows: instances that matter, best score first.
    """

    sentence: str
    checks: tuple[Check, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def explain(policy: Policy, moment: Moment) -> Why:
    """Why `policy` chose ``moment.chosen``."""
    if policy.name in (*SMETRIC, "smetric_v2"):
        sentence, checks = _smetric(policy, moment)
    else:
        sentence, checks = _by_score(policy, moment), ()
    return Why(sentence, checks, *_table(policy, moment))


def scores_of(policy: Policy, moment: Moment) -> np.ndarray | None:
    """[targets] the scores among which the policy took the least, None where it compares none.

    The policy runs once more in plain Python, and whoever it asks for the least score writes the scores down.
    So the page shows the policy's own numbers, and no second version of its formula has to be kept right.
    """
    seen: list[np.ndarray] = []
    function = policy.function
    if not isinstance(function, FunctionType):
        return None

    def argmin(score, view, memory, rule):
        seen.append(np.array(score))
        return ties.argmin(score, view, memory, rule)

    def keep_lowest(score, among):
        seen.append(np.array(score))
        return ties.keep_lowest(score, among)

    spied = function.__globals__ | {"argmin": argmin, "keep_lowest": keep_lowest}
    twin = FunctionType(function.__code__, spied, function.__name__, function.__defaults__, function.__closure__)
    twin(moment.view, moment.asked, moment.memory.copy(), policy.params)
    return seen[0] if seen else None


def _smetric(policy: Policy, moment: Moment) -> tuple[str, tuple[Check, ...]]:
    view, asked, memory = moment.view, moment.asked, moment.memory.copy()
    params: Any = policy.params
    later = policy.name == "smetric_v2"
    load = estimate_load(view, asked, params.global_hits) if later else load_of(view, params.load)
    unit = _unit(policy, params)
    if asked.messages == 0:
        first = Check("the payload carries no history, so this is the first turn of a session", True)
        return f"A first turn has no cache to follow: {_least(moment, load, unit)}.", (first,)
    checks = [Check(f"the payload carries {asked.messages:.0f} earlier messages, so this is a follow-up", True)]
    home = int(ties.most_hits(load, view, memory, params.ties))
    hit, history = float(view.local_hit_tokens[home]), float(asked.history_tokens)
    holds = f"instance {home} holds {hit:,.0f} of its {history:,.0f} tokens of history"

    def cached() -> Check:
        need = params.hit_ratio * history
        good = session_not_evicted(asked, home, view.local_hit_tokens, params.hit_ratio)
        return Check(f"not evicted: {hit:,.0f} cached tokens > HIT_RATIO x history = {need:,.0f}", bool(good))

    def light() -> Check:
        if later:
            limit = params.slack * float(asked.ttft_limit_s)
            words = f"in time: predicted {load[home]:.2f} s <= SLACK x TTFT limit = {limit:.2f} s"
            return Check(words, bool(load[home] <= limit))
        mean, times = mean_alive(load, view), params.overload
        limit = f"OVERLOAD x mean = {times:g} x {mean:,.2f} = {times * mean:,.2f}"
        words = f"not overloaded: load {load[home]:,.0f} <= {limit}"
        return Check(words, bool(not_overloaded(home, load, view, times)))

    guards = [g for g, name in ((light, "overload"), (cached, "hit_ratio")) if name in params._fields]
    guards = [cached, light] if later else guards
    for guard in guards:
        checks.append(guard())
        if not checks[-1].holds:
            break
    after = moment.memory.copy()
    policy.function(view, asked, after, params)
    if after[REASON] == Reason.STICK:
        all_late = "" if checks[-1].holds else ", and nobody else meets the deadline either"
        return f"The session stays: {holds}{all_late}.", tuple(checks)
    failed = "but is too busy" if "evicted" not in checks[-1].words else "which is not enough"
    moves = "moves" if moment.chosen != home else "is placed anew and stays by chance"
    return f"The session {moves}: {holds}, {failed}; {_least(moment, load, unit)}.", tuple(checks)


def _unit(policy: Policy, params: Any) -> str:
    if policy.name == "smetric_v2":
        return "s of prefill"
    return "requests in flight" if params.load == REQUESTS else "un-prefilled tokens"


def _least(moment: Moment, load: np.ndarray, unit: str) -> str:
    alive = moment.view.alive > 0
    equal = int((load[alive] == load[alive].min()).sum())
    tie = f", first in turn among {equal} equal ones" if equal > 1 else ""
    amount = f"{load[moment.chosen]:,.2f}".removesuffix(".00")
    return f"instance {moment.chosen} has the least load ({amount} {unit}{tie})"


def _by_score(policy: Policy, moment: Moment) -> str:
    view, chosen, asked = moment.view, moment.chosen, moment.asked
    score = scores_of(policy, moment)
    best = int(view.local_hit_tokens.argmax())
    cached = tokens(float(view.local_hit_tokens[chosen]))
    has = f"it has {cached} of {tokens(float(asked.prompt_tokens))} prompt tokens cached"
    if score is None:
        return f"{policy.name} compares no scores; instance {chosen} it is, and {has}."
    reason = f"instance {chosen} has the lowest score, {score[chosen]:,.4g}, and {has}"
    if view.local_hit_tokens[best] > view.local_hit_tokens[chosen]:
        more = tokens(float(view.local_hit_tokens[best]))
        reason += f"; instance {best} has more, {more}, but scores {score[best]:,.4g}"
    return f"Of all instances {reason}."


def _table(policy: Policy, moment: Moment) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """The chosen instance, the one with most hits, and those with the best scores."""
    view, score = moment.view, scores_of(policy, moment)
    alive = np.flatnonzero(view.alive > 0)
    key = view.in_flight.astype(np.float64) if score is None else score
    order = alive[np.argsort(key[alive], kind="stable")]
    shown = dict.fromkeys([moment.chosen, int(view.local_hit_tokens.argmax()), *order.tolist()])
    picked = sorted(list(shown)[:SHOWN], key=lambda i: key[i])
    columns = ["instance", "cached tokens", "requests in flight", "un-prefilled tokens", "KV in use"]
    rows: list[list[Any]] = []
    for i in picked:
        v = view[i]
        name = f"{i}{' (chosen)' if i == moment.chosen else ''}"
        numbers = (f"{v.local_hit_tokens:,.0f}", f"{v.in_flight:.0f}", f"{v.unprefilled_tokens:,.0f}")
        rows.append([name, *numbers, f"{100 * v.kv_use:.0f} %"])
    if score is not None:
        columns.append(RULES.get(policy.name, "load" if policy.name in SMETRIC else "score"))
        for row, i in zip(rows, picked, strict=True):
            row.append(f"{score[i]:,.4g}")
    return tuple(columns), tuple(tuple(row) for row in rows)


def reason_words(reason: int) -> str:
    """What the ``Reason`` of a decision means, in a few words."""
    return {
        Reason.STICK: "stayed",
        Reason.FIRST_TURN: "first turn",
        Reason.OVERLOAD: "left: overloaded",
        Reason.EVICTED: "left: cache evicted",
        Reason.SCORE: "best score",
        Reason.NONE: "",
    }[Reason(reason)]
