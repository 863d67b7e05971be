"""Step time of an instance as the event loop uses it: two tables and a few coefficients, in ticks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TICKS_PER_S = 10**12
"""Simulated time is int64 picoseconds, so sums are exact and a run is the same on every machine."""


@dataclass(frozen=True)
class StepTime:
    """Duration of an engine step in ticks (RULES.md section 5); all values int64 or int.

    Attributes:
        tokens_ticks: [max_batched_tokens + 1], a step that computes n tokens (weights, GEMMs, experts, host).
        rows_ticks: [max_seqs + 1], what n scheduled requests add (LM head, per-sequence host time).
        half_pair_ticks: per half pair of prefill attention, n * (2 * start + n) half pairs for a chunk.
        context_ticks: per context token of a decoding request, in a step that only decodes.
        mixed_context_ticks: the same beside a prefill.
        connector_ticks: host time of the KV connector per step, where there is a global tier.
        api_ticks: between router and engine, per request.
        api_token_ticks: the same per prompt token.
        kv_capacity_tokens: KV capacity of the instance in tokens.
        kv_bytes_per_token: bytes of KV that a token takes (all GPUs of the instance together).
        instances_per_server: instances on one server of 8 GPUs.
    """

    tokens_ticks: np.ndarray
    rows_ticks: np.ndarray
    half_pair_ticks: int
    context_ticks: int
    mixed_context_ticks: int
    connector_ticks: int
    api_ticks: int
    api_token_ticks: int
    kv_capacity_tokens: int
    kv_bytes_per_token: int
    instances_per_server: int
