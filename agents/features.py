"""What learned policies look at: numbers about every instance that mean the same in a cluster of any size.

No feature names an instance: counts are taken relative to their mean over the instances that are alive, as
logarithms, or as shares of a capacity or a limit, so a policy trained with 8 instances runs with 64. They
are chosen so that SMetric, LMetric and Bailian are exact special cases of a weighted sum
(``smetric_gym.agents.linear``). Sources: indicators of LMetric (OSDI'26), SMetric (arXiv 2607.08565v1),
prefill cost with attention as in SMetric's later version.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from smetric_gym.agents.load import REQUESTS, UNPREFILLED_TOKENS, load_of, mean_alive
from smetric_gym.agents.ties import keep_lowest, lowest

FEATURES: dict[str, str] = {
    "log_prefill_tokens": "ln(un-prefilled tokens in flight + new tokens of this request)",
    "log_batch": "ln(1 + requests in flight)",
    "log_prefill_s": "ln(s of prefill in flight + s of this request's own + 1 ms), attention counted",
    "log_prefill_tier_s": "the same, when tokens in the global tier are fetched instead of computed",
    "miss": "share of the prompt that the instance does not hold, 0..1",
    "tier_saving": "share of the prompt that is in the global tier and not on the instance, 0..1",
    "session_hit": "cached tokens / carried history, 0..1; 0 on a first turn",
    "batch_of_max": "requests in flight / their maximum (at least 1), 0..1",
    "batch_of_mean": "requests in flight / their mean, 0..8",
    "queued_of_mean": "un-prefilled tokens / their mean, 0..8",
    "context_of_mean": "prompt tokens in flight / their mean, 0..8",
    "rank": "share of the alive instances with fewer requests in flight, 0..1",
    "kv_use": "share of the KV blocks that running requests use, 0..1",
    "kv_overflow": "prompt tokens in flight with this one's, as far as they exceed the KV capacity / capacity, 0..4",
    "waiting_share": "requests waiting / (1 + requests in flight), 0..1",
    "ttft": "s of prefill in flight and of this request / its TTFT limit, 0..4",
    "ttft_tier": "the same with tokens of the global tier fetched, 0..4",
    "late": "how far `ttft_tier` is above 1, 0..3",
    "stall": "ln(1 + s of this request's own prefill, tier used, x requests running): decodes that wait for it",
    "home": "1 on the instance with the most cached tokens of a follow-up (of equals the least requests)",
    "home_overload": "`batch_of_mean` of the home, 0 elsewhere",
    "stick_requests": "1 where SMetric would stick at its defaults, load in requests",
    "stick_tokens": "1 where SMetric would stick at its defaults, load in un-prefilled tokens",
    "first_batch": "`batch_of_mean` on a first turn, else 0",
    "first_queued": "`queued_of_mean` on a first turn, else 0",
    "first_context": "`context_of_mean` on a first turn, else 0",
    "first_miss": "`miss` on a first turn, else 0",
    "first": "1 on a first turn (no messages before this one), else 0",
    "log_prompt": "ln(prompt tokens / 1000)",
    "log_mean_batch": "ln(1 + mean of the requests in flight)",
}
"""Features by name, in the order of the columns, with their definition."""
REQUEST_FEATURES = ("first", "log_prompt", "log_mean_batch")
"""The same for every instance, so of no use to a weighted sum; a network needs them."""
BURDENS = (
    "log_prefill_tokens", "log_batch", "log_prefill_s", "log_prefill_tier_s", "batch_of_max", "batch_of_mean",
    "queued_of_mean", "context_of_mean", "rank", "kv_use", "kv_overflow", "waiting_share", "ttft", "ttft_tier", "late",
    "stall", "home_overload", "first_batch", "first_queued", "first_context",
)  # fmt: skip
"""Features that measure load. A search without a guard on the tail gave some of them positive weights, and a p99 TTFT
of minutes (``results/learned``); ``train.burdens`` forbids such weights."""

(
    LOG_PREFILL_TOKENS, LOG_BATCH, LOG_PREFILL_S, LOG_PREFILL_TIER_S, MISS, TIER_SAVING, SESSION_HIT, BATCH_OF_MAX,
    BATCH_OF_MEAN, QUEUED_OF_MEAN, CONTEXT_OF_MEAN, RANK, KV_USE, KV_OVERFLOW, WAITING_SHARE, TTFT, TTFT_TIER, LATE,
    STALL, HOME, HOME_OVERLOAD, STICK_REQUESTS, STICK_TOKENS, FIRST_BATCH, FIRST_QUEUED, FIRST_CONTEXT, FIRST_MISS,
    FIRST, LOG_PROMPT, LOG_MEAN_BATCH,
) = range(len(FEATURES))  # fmt: skip
COUNT = len(FEATURES)

OVERLOAD, HIT_RATIO = 2.0, 0.5  # SMetric's defaults, for the two `stick` features
FLOOR_S = 1e-3  # keeps the logarithm of an idle instance finite
FETCHED = 0.2  # cost of a fetched token in computed ones; H20 with 10 GB/s NICs: about 12 us against 50 us
MOST_OF_MEAN, MOST_OF_LIMIT = 8.0, 4.0  # beyond these an instance is simply far too busy


@register_jitable
def observe(view, request):
    """The features of one decision as a new array, [instances, FEATURES] float32; see `features`."""
    out = np.zeros((len(view), COUNT), dtype=np.float32)
    features(view, request, out)
    return out


@register_jitable
def features(view, request, out):
    """Write the features of every instance.

    Args:
        view: [instances] ``VIEW``.
        request: one ``REQUEST_VIEW``.
        out: [instances, FEATURES] float32, overwritten; 0 for instances that are not alive.

    Fields become float64 by ``np.float64``, since Numba's ``float`` would leave them float32.
    """
    alive = view.alive > 0
    batch, queued = load_of(view, REQUESTS), load_of(view, UNPREFILLED_TOKENS)
    context = view.in_flight_tokens.astype(np.float64)
    mean_batch, mean_queued, mean_context = mean_alive(batch, view), mean_alive(queued, view), mean_alive(context, view)
    largest = max(1.0, -lowest(-batch, alive))
    prompt, history = np.float64(request.prompt_tokens), np.float64(request.history_tokens)
    in_tier, limit = np.float64(request.global_hit_tokens), np.float64(request.ttft_limit_s)
    follow_up = request.messages > 0
    first = 0.0 if follow_up else 1.0
    count = 0
    for i in range(len(view)):
        if alive[i]:
            count += 1
    home, home_tokens = homes(view, batch), homes(view, queued)
    out[:] = 0
    for i in range(len(view)):
        if not alive[i]:
            continue
        f = out[i]
        hit = np.float64(view.local_hit_tokens[i])
        new, fetched = prompt - hit, max(0.0, in_tier - hit)
        token_s, pair_s = np.float64(view.prefill_token_s[i]), np.float64(view.prefill_pair_s[i])
        waits = np.float64(view.unprefilled_s[i])
        own = prefill_s(new, prompt, token_s, pair_s)
        own_tier = prefill_s(new - fetched, prompt, token_s, pair_s) + FETCHED * token_s * fetched
        fewer = 0
        for j in range(len(view)):
            if alive[j] and batch[j] < batch[i]:
                fewer += 1
        f[LOG_PREFILL_TOKENS] = math.log(max(queued[i] + new, 1.0))
        f[LOG_BATCH] = math.log(1 + batch[i])
        f[LOG_PREFILL_S] = math.log(waits + own + FLOOR_S)
        f[LOG_PREFILL_TIER_S] = math.log(waits + own_tier + FLOOR_S)
        f[MISS] = new / prompt
        f[TIER_SAVING] = fetched / prompt
        f[SESSION_HIT] = min(1.0, hit / max(history, 1.0)) if follow_up else 0.0
        f[BATCH_OF_MAX] = batch[i] / largest
        f[BATCH_OF_MEAN] = of_mean(batch[i], mean_batch)
        f[QUEUED_OF_MEAN] = of_mean(queued[i], mean_queued)
        f[CONTEXT_OF_MEAN] = of_mean(context[i], mean_context)
        f[RANK] = fewer / count
        f[KV_USE] = view.kv_use[i]
        f[KV_OVERFLOW] = min(max((context[i] + prompt) / np.float64(view.capacity_tokens[i]) - 1, 0.0), MOST_OF_LIMIT)
        f[WAITING_SHARE] = min(np.float64(view.waiting[i]) / (1 + batch[i]), 1.0)
        f[TTFT] = min((waits + own) / limit, MOST_OF_LIMIT)
        f[TTFT_TIER] = min((waits + own_tier) / limit, MOST_OF_LIMIT)
        f[LATE] = max(f[TTFT_TIER] - 1, 0.0)
        f[STALL] = math.log(1 + own_tier * np.float64(view.running[i]))
        if follow_up and home[i]:
            f[HOME], f[HOME_OVERLOAD] = 1, f[BATCH_OF_MEAN]
            f[STICK_REQUESTS] = sticks(hit, history, batch[i], mean_batch)
        if follow_up and home_tokens[i]:
            f[STICK_TOKENS] = sticks(hit, history, queued[i], mean_queued)
        f[FIRST_BATCH], f[FIRST_QUEUED] = first * f[BATCH_OF_MEAN], first * f[QUEUED_OF_MEAN]
        f[FIRST_CONTEXT], f[FIRST_MISS] = first * f[CONTEXT_OF_MEAN], first * f[MISS]
        f[FIRST], f[LOG_PROMPT], f[LOG_MEAN_BATCH] = first, math.log(prompt / 1000), math.log(1 + mean_batch)


@register_jitable
def prefill_s(new, prompt, token_s, pair_s):
    """Seconds to compute `new` of `prompt` tokens, the last ones, with causal attention."""
    return token_s * new + pair_s * new * (prompt - new / 2)


@register_jitable
def of_mean(load, mean):
    """A load relative to the mean, at most 8; 0 when there is none."""
    return min(load / (mean + 1e-6), MOST_OF_MEAN)


@register_jitable
def homes(view, load):
    """[instances] bool: the most cached tokens of the request, and of these the lowest load."""
    among = view.alive > 0
    keep_lowest(-view.local_hit_tokens, among)
    keep_lowest(load, among)
    return among


@register_jitable
def sticks(hit, history, load, mean):
    """1 where SMetric's two guards let a follow-up stay, else 0."""
    return 1.0 if load <= OVERLOAD * mean and hit > HIT_RATIO * history else 0.0
