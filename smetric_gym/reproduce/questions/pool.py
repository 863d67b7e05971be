"""The idealised clusters of question 7: everything is reused; and the work is spread evenly at every moment too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from smetric_gym.agents.policy import load_policy
from smetric_gym.cluster import Cluster
from smetric_gym.cluster.cluster import instance_step_times
from smetric_gym.cluster.steptime import TICKS_PER_S, StepTime
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import Setup, prepare
from smetric_gym.reproduce.grid import changed
from smetric_gym.scoring import tps_within_slo

AS_IT_IS, FREE, POOL = "as it is", "free reuse", "pool"
"""Rungs of the ladder."""


def ladder(settings: Mapping[str, Any], how: Mapping[str, Any]) -> dict[str, Any]:
    """One workload, served as it is by every policy, then with free reuse, then by the pool.

    Args:
        settings: of a run.
        how: ``policies``, and ``free``: changes of the configuration that make every token reusable at no cost.

    Returns:
        tokens/s within SLO by rung and policy, and the scores of the pool.
    """
    result: dict[str, Any] = {}
    for rung, here in ((AS_IT_IS, settings), (FREE, changed(settings, how["free"]))):
        setup = prepare(here)
        result[rung] = {}
        for name in how["policies"]:
            cluster = setup.cluster()
            cluster.run(load_policy(name).compile(), seed=setup.seed)
            result[rung][name] = tps_within_slo(setup.scored(cluster))
    return result | {POOL: pooled_scores(prepare(settings))}


def pooled_scores(setup: Setup) -> dict[str, float]:
    """Serve a workload with all instances melted into one: what nobody can reach.

    Optimistic in five ways: a request runs on all instances at once; reading the weights is paid once for all
    decodes; nothing is evicted; nothing is fetched; and agents, answered sooner, ask more. No bound in one: its queue
    is first come, first served, so where even the pool is overloaded a cleverer order could serve more.

    Args:
        setup: of a run.

    Returns:
        ``tps_within_slo``: prompt and output tokens/s within both limits, of requests whose cold part would meet the
        TTFT limit on one idle instance; ``offered_tps``: tokens/s of those requests, late or not; and
        ``possible_share``, their share of all tokens that arrived.
    """
    cluster = pool(setup)
    cluster.run(load_policy("round_robin").compile(), seed=setup.seed)
    scored = setup.scored(cluster)
    block, budget = setup.config.block_tokens, setup.config.max_batched_tokens
    cached = setup.trace.ideal_hit_tokens(block)[scored.mask]
    alone_s = alone_ttft_s(instance_step_times(setup.config)[0], scored.prompt, cached, budget)
    possible, tokens = alone_s <= setup.slo.ttft_limit_s(scored.prompt), scored.prompt + scored.output
    return {
        "tps_within_slo": scored.per_s(tokens[scored.met & possible]),
        "offered_tps": scored.per_s(tokens[possible]),
        "possible_share": float(tokens[possible].sum() / tokens.sum()),
    }


def pool(setup: Setup) -> Cluster:
    """One instance as fast as all of the cluster together, whose cache loses nothing.

    Raises:
        SmetricError: for instances that are not alike, or a disaggregated cluster.
    """
    config = setup.config
    if config.disaggregated or not isinstance(config.hardware, str):
        raise SmetricError("the pool needs instances that are alike, allowed: a colocated cluster of one hardware")
    rows = config.max_batched_tokens  # a step has at least a token per row
    time = instance_step_times(replace(config, instances=1, max_seqs=rows))[0]
    distinct = int((setup.trace.nodes["end"] - setup.trace.nodes["start"]).sum())
    faster = {
        name: getattr(time, name) // config.instances
        for name in ("tokens_ticks", "rows_ticks", "half_pair_ticks", "context_ticks", "mixed_context_ticks")
    }
    return Cluster(
        setup.trace,
        replace(config, instances=1, max_seqs=rows, global_tier=0.0, kv_blocks=None, warm=False),
        arrival_mode=setup.arrival_mode,
        window_s=setup.warm_up_s + setup.window_s,
        ttft_limit_s=(setup.slo.ttft_s, setup.slo.ttft_s_per_token),
        step_times=[replace(time, **faster, kv_capacity_tokens=distinct + config.instances * time.kv_capacity_tokens)],
    )


def alone_ttft_s(time: StepTime, prompt: np.ndarray, cached: np.ndarray, budget: int) -> np.ndarray:
    """TTFT in s on an idle instance that holds the cached tokens already (RULES.md section 5).

    Args:
        time: of the instance.
        prompt: [n] tokens.
        cached: [n] tokens, below the prompt.
        budget: tokens of a step.
    """
    new = np.asarray(prompt, dtype=np.int64) - cached
    whole, rest = np.divmod(new, budget)
    ticks = whole * time.tokens_ticks[budget] + np.where(rest > 0, time.tokens_ticks[rest], 0)
    ticks += (whole + (rest > 0)) * time.rows_ticks[1] + time.half_pair_ticks * new * (2 * cached + new)
    return (ticks + time.api_ticks + time.api_token_ticks * np.asarray(prompt, dtype=np.int64)) / TICKS_PER_S
