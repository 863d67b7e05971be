"""Step time of an instance as the event loop uses it: two tables and a few coefficients, in ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smetric_gym.cluster.hardware import Hardware

BF16_BYTES = 2
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


def step_time(hardware: Hardware, max_batched_tokens: int, max_seqs: int) -> StepTime:
    """Tabulate the step time of an instance with the coefficients of a preset.

    A step is a sum: kernels that do not grow, attention projections, the experts that its tokens reach, LM
    head, attention of prefills (4 * heads * head_dim FLOP per pair of tokens and layer) and of decodes (ns a
    context token), all-reduces, time of the CPU. Reading weights and multiplying by them is a roofline.

    Args:
        hardware: model, GPU and coefficients.
        max_batched_tokens: token budget of a step, last index of ``tokens_ticks``.
        max_seqs: most requests of a step, last index of ``rows_ticks``.
    """
    model, c, gpus = hardware.model, hardware.coefficients, hardware.tensor_parallel
    heads = max(model.kv_heads / gpus, 1.0)
    pair_flop = 4 * model.query_heads / gpus * model.head_dim * model.layers
    pair_s = pair_flop / (c.e_attn * hardware.gpu.bf16_tflops * 1e12)
    return StepTime(
        tokens_ticks=_ticks(_token_seconds(hardware, np.arange(max_batched_tokens + 1))),
        rows_ticks=_ticks(_row_seconds(hardware, np.arange(max_seqs + 1))),
        half_pair_ticks=int(_ticks(pair_s / 2)),
        context_ticks=int(_ticks(model.layers * heads * c.kv_ns * 1e-9)),
        mixed_context_ticks=int(_ticks(model.layers * heads * c.kv_ns_mixed * 1e-9)),
        connector_ticks=int(_ticks(c.host_connector_ms * 1e-3)),
        api_ticks=int(_ticks(c.api_ms * 1e-3)),
        api_token_ticks=int(_ticks(c.api_token_us * 1e-6)),
        kv_capacity_tokens=hardware.kv_capacity_tokens,
        kv_bytes_per_token=hardware.kv_bytes_per_token,
        instances_per_server=hardware.instances_per_server,
    )


def step_seconds(
    step_time: StepTime,
    chunks: Sequence[tuple[int, int]] = (),
    decode_contexts: Sequence[int] = (),
    *,
    tier: bool = False,
) -> float:
    """Duration in s of one step, as RULES.md section 5 adds it up.

    Args:
        step_time: the instance.
        chunks: prefills of the step, (new tokens, tokens before them); one new token counts as a decode.
        decode_contexts: tokens of context of each decoding request, the one that is computed included.
        tier: True where the instance reads a global tier.
    """
    contexts = [*decode_contexts, *(start + 1 for n, start in chunks if n == 1)]
    chunks = [(n, start) for n, start in chunks if n > 1]
    tokens = len(contexts) + sum(n for n, _ in chunks)
    ticks = int(step_time.tokens_ticks[tokens]) + int(step_time.rows_ticks[len(contexts) + len(chunks)])
    ticks += step_time.half_pair_ticks * sum(n * (2 * start + n) for n, start in chunks)
    ticks += (step_time.mixed_context_ticks if chunks else step_time.context_ticks) * sum(contexts)
    return (ticks + (step_time.connector_ticks if tier else 0)) / TICKS_PER_S


def _token_seconds(hardware: Hardware, tokens: np.ndarray) -> np.ndarray:
    """What n tokens cost besides attention: fixed, projections, experts, all-reduces, host; [n] to [n] s.

    The router's small matrix is not counted: the fits had it in ``t_layer_us``.
    """
    model, c, gpus = hardware.model, hardware.coefficients, hardware.tensor_parallel
    n = tokens.astype(np.float64)
    bandwidth, flops = c.e_bw * hardware.gpu.hbm_tb_per_s * 1e12, hardware.gemm_flops
    attention, expert = model.attention_parameters / gpus, model.expert_parameters / gpus
    # Experts that n tokens reach together: fewer than independent choices would reach, hence phi < 1.
    active = model.experts * (1 - (1 - model.experts_per_token / model.experts) ** (n**c.phi))
    active[n == 0] = 0
    dense_s = _roofline(attention * model.weight_bytes / bandwidth, 2 * attention * n / (c.e_gemm * flops))
    rows = n * model.experts_per_token + c.m_pad * active
    experts_s = _roofline(
        active * expert * model.weight_bytes / bandwidth, 2 * expert * rows / (c.e_moe * flops)
    )
    moved = 2 * (gpus - 1) / gpus * n * model.hidden * BF16_BYTES
    reduce_s = (
        2 * (c.ar_us * 1e-6 + moved / (c.ar_eff * hardware.gpu.nvlink_gb_per_s * 1e9)) if gpus > 1 else 0.0
    )
    return model.layers * (c.t_layer_us * 1e-6 + dense_s + experts_s + reduce_s) + c.host_ms * 1e-3


def _row_seconds(hardware: Hardware, rows: np.ndarray) -> np.ndarray:
    """What R requests of a step cost: LM head (BF16) and per-request host time; [R] to [R] s."""
    model, c, gpu = hardware.model, hardware.coefficients, hardware.gpu
    head = model.vocabulary * model.hidden / hardware.tensor_parallel
    head_s = _roofline(
        head * BF16_BYTES / (c.e_bw * gpu.hbm_tb_per_s * 1e12),
        2 * head * rows / (c.e_gemm * gpu.bf16_tflops * 1e12),
    )
    return head_s + rows * c.host_seq_us * 1e-6


def _roofline(memory_s, compute_s):
    """Smooth maximum of the time to move the weights and the time to multiply by them."""
    return np.sqrt(np.square(memory_s) + np.square(compute_s))


def _ticks(seconds) -> np.ndarray:
    return np.rint(np.asarray(seconds, dtype=np.float64) * TICKS_PER_S).astype(np.int64)
