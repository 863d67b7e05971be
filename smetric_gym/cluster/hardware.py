"""Hardware presets of ``conf/hardware``: a model, a GPU, and the fitted coefficients of an engine on it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from smetric_gym.errors import SmetricError


def _value(low: float, high: float, unit: str) -> Any:
    return field(metadata={"low": low, "high": high, "unit": unit})


@dataclass(frozen=True)
class Model:
    """Shapes of a decoder with grouped-query attention and a mixture of experts in every layer.

    Attributes:
        hidden: width of the residual stream; also what an all-reduce moves per token (in BF16).
        expert_hidden: inner width of one expert.
        experts_per_token: experts that the router picks for a token.
        weight_bytes: bytes of a weight of the layers, 2 (BF16) or 1 (FP8); embeddings and LM head stay BF16.
        kv_bytes: bytes of one number in the KV cache.
    """

    name: str
    layers: int = _value(1, 1000, "layers")
    hidden: int = _value(1, 100_000, "numbers")
    query_heads: int = _value(1, 1024, "heads")
    kv_heads: int = _value(1, 1024, "heads")
    head_dim: int = _value(1, 1024, "numbers")
    experts: int = _value(1, 10_000, "experts")
    experts_per_token: int = _value(1, 1000, "experts")
    expert_hidden: int = _value(1, 100_000, "numbers")
    vocabulary: int = _value(1, 10_000_000, "tokens")
    weight_bytes: int = _value(1, 2, "bytes")
    kv_bytes: int = _value(1, 2, "bytes")

    @property
    def attention_parameters(self) -> int:
        """Parameters of the Q, K, V and O projections of one layer."""
        return 2 * self.hidden * self.head_dim * (self.query_heads + self.kv_heads)

    @property
    def expert_parameters(self) -> int:
        """Parameters of one expert (gate, up, down)."""
        return 3 * self.hidden * self.expert_hidden


@dataclass(frozen=True)
class Gpu:
    """Peak numbers of one GPU; the coefficients say what share of them is reached."""

    name: str
    bf16_tflops: float = _value(1, 100_000, "1e12 FLOP/s, dense")
    fp8_tflops: float = _value(0, 100_000, "1e12 FLOP/s, dense; 0 where there is no FP8")
    hbm_tb_per_s: float = _value(0.01, 1000, "1e12 bytes/s")
    nvlink_gb_per_s: float = _value(1, 100_000, "1e9 bytes/s, one way")
    memory_gib: float = _value(1, 10_000, "GiB")


@dataclass(frozen=True)
class Coefficients:
    """What an engine makes of the GPU: fitted, except where a preset says assumed (formula: ``steptime``).

    Single values trade off against each other (e_bw, e_gemm, e_moe and m_pad most): use a set as a whole.
    """

    t_layer_us: float = _value(0, 10_000, "us per layer and step, kernels that do not grow")
    e_bw: float = _value(0.01, 1, "share of HBM bandwidth")
    e_gemm: float = _value(0.01, 1, "share of peak, attention projections and LM head")
    e_moe: float = _value(0.01, 1, "share of peak, expert GEMMs")
    m_pad: float = _value(0, 1024, "rows of padding per active expert")
    e_attn: float = _value(0.01, 1, "share of BF16 peak, prefill attention")
    kv_ns: float = _value(0, 100, "ns per context token, KV head and layer, steps that only decode")
    kv_ns_mixed: float = _value(0, 100, "the same beside a prefill")
    phi: float = _value(0.01, 1, "exponent of expert coverage, 1 = tokens pick experts independently")
    ar_us: float = _value(0, 10_000, "us per all-reduce, first byte")
    ar_eff: float = _value(0.01, 1, "share of NVLink bandwidth in an all-reduce")
    host_ms: float = _value(0, 1000, "ms of CPU per step")
    host_seq_us: float = _value(0, 10_000, "us of CPU per scheduled request and step")
    host_connector_ms: float = _value(0, 1000, "ms of CPU per step for the KV connector, with a global tier")
    api_ms: float = _value(0, 10_000, "ms from router to engine, per request")
    api_token_us: float = _value(0, 10_000, "us from router to engine, per prompt token")


@dataclass(frozen=True)
class Hardware:
    """One serving instance: a model on ``tensor_parallel`` GPUs under an engine."""

    name: str
    source: str
    model: Model
    gpu: Gpu
    coefficients: Coefficients
    tensor_parallel: int = _value(1, 64, "GPUs of one instance")
    instances_per_server: int = _value(1, 64, "instances on one server, which share its NICs")
    kv_capacity_tokens: int = _value(1, 10**9, "tokens, all GPUs of the instance together")

    def __post_init__(self) -> None:
        if self.model.weight_bytes == 1 and self.gpu.fp8_tflops == 0:
            raise SmetricError(
                f"hardware {self.name}: gpu.fp8_tflops is 0, allowed for FP8 weights: more than 0"
            )

    @property
    def gemm_flops(self) -> float:
        """Peak FLOP/s of one GPU in the precision of the layers' weights."""
        return (self.gpu.fp8_tflops if self.model.weight_bytes == 1 else self.gpu.bf16_tflops) * 1e12

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV per token on all GPUs together; GPUs beyond the number of KV heads hold copies."""
        m = self.model
        return 2 * m.layers * max(m.kv_heads, self.tensor_parallel) * m.head_dim * m.kv_bytes


def hardware_names() -> list[str]:
    """Names of the presets in ``conf/hardware``."""
    return sorted(f.name.removesuffix(".yaml") for f in _folder().iterdir() if f.name.endswith(".yaml"))


def load_hardware(name: str) -> Hardware:
    """Read a preset of ``conf/hardware``, or a file of your own when the name ends in ``.yaml``.

    Raises:
        SmetricError: for an unknown preset, and for a key or value that the file must not have.
    """
    name = str(name)
    if not name.endswith(".yaml"):
        return _preset(name)
    if not Path(name).is_file():
        raise SmetricError(f"hardware file {name} does not exist, allowed: an existing .yaml file or a preset name")
    return _read(Path(name), name)


@lru_cache(maxsize=64)  # environments ask for one at every episode
def _preset(name: str) -> Hardware:
    if name not in hardware_names():
        raise SmetricError(f"hardware is {name!r}, allowed: {_nearest(name, hardware_names())}")
    return _read(_folder() / f"{name}.yaml", f"hardware/{name}.yaml")


def _read(file: Any, where: str) -> Hardware:
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SmetricError(f"{where} is not readable as YAML: {' '.join(str(error).split())}") from None
    return _make(Hardware, values, where, "")


def _folder():
    return resources.files("smetric_gym.conf") / "hardware"


def _nearest(name: str, allowed: list[str]) -> str:
    close = difflib.get_close_matches(name, allowed, n=1, cutoff=0.0)
    return f"{', '.join(allowed)} (nearest: {close[0]})" if close else ", ".join(allowed)


PARTS = {"Model": Model, "Gpu": Gpu, "Coefficients": Coefficients}


def _make(cls: type, values: Any, where: str, prefix: str) -> Any:
    """Build a dataclass from a mapping; every key must be there, known, of its type and in its range."""
    if not isinstance(values, dict):
        raise SmetricError(
            f"{where}: {prefix.rstrip('.') or 'the file'} is {values!r}, allowed: a mapping of keys to values"
        )
    known = {f.name: f for f in fields(cls)}
    for key in values:
        if key not in known:
            raise SmetricError(
                f"{where}: unknown key {prefix}{key}, allowed: {_nearest(str(key), list(known))}"
            )
    made = {}
    for key, spec in known.items():
        if key not in values:
            raise SmetricError(f"{where}: {prefix}{key} is missing, allowed: {_allowed(spec)}")
        value = values[key]
        if spec.type in PARTS:
            value = _make(PARTS[spec.type], value, where, f"{prefix}{key}.")
        elif not _fits(value, spec):
            raise SmetricError(f"{where}: {prefix}{key} is {value!r}, allowed: {_allowed(spec)}")
        made[key] = float(value) if spec.type == "float" else value
    return cls(**made)


def _fits(value: Any, spec: Any) -> bool:
    if spec.type == "str":
        return isinstance(value, str) and bool(value)
    number = (int,) if spec.type == "int" else (int, float)
    return (
        isinstance(value, number)
        and not isinstance(value, bool)
        and (spec.metadata["low"] <= value <= spec.metadata["high"])
    )


def _allowed(spec: Any) -> str:
    if spec.type in PARTS or spec.type == "str":
        return "a text" if spec.type == "str" else "a mapping of keys to values"
    kind = "a whole number" if spec.type == "int" else "a number"
    return f"{kind} {spec.metadata['low']} .. {spec.metadata['high']} ({spec.metadata['unit']})"
