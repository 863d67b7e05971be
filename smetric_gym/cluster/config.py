"""The description of a cluster: plain values, checked once, with every default and its unit."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral, Real

from smetric_gym.errors import SmetricError

LOADS = ("blocking", "async")
WRITES = ("prompt", "all", "none")
EVICTIONS = ("lru", "lfu", "belady")
LARGEST = 10**9
MOST_ROUTERS = 1024
SLOWEST = 1e6
LATEST_S = 4e6
"""Time is int64 picoseconds: 46 days of arrivals leave as much again to serve them."""


@dataclass(frozen=True)
class ClusterConfig:
    """A cluster of serving instances; the rules are in ``RULES.md``.

    Attributes:
        instances: instances that take requests (colocated: prefill and decode; disaggregated: prefill).
        decode_instances: 0 for a colocated cluster, else the size of the decode pool.
        hardware: a preset of ``conf/hardware`` for all instances, or one name per instance (decode ones last).
        kv_blocks: KV blocks of every instance; None takes the preset's.
        block_tokens: tokens of a KV block (vLLM: 16).
        chunk_tokens: tokens of a chunk in the global tier (LMCache: 256).
        max_batched_tokens: token budget of a step (vLLM 0.12 on GPUs of 70 GiB or more: 8192).
        max_seqs: running requests of an instance (vLLM 0.12: 1024).
        global_tier: capacity of the global tier in multiples of the local tiers of ``instances`` together
            (the paper: 0, 0.4, 0.8, 1.6, 3.2); 0 for none, ``inf`` for unlimited.
        loads: "blocking" (LMCache's default: a fetch stalls the step) or "async".
        write: what enters the global tier: "prompt" (LMCache's default), "all", or "none".
        min_load_tokens: shorter finds in the global tier are computed instead.
        instances_per_server: instances that share a server's NICs; None takes the preset's.
        nics_per_server: 4 in the adjacent measured hosts; the paper does not say.
        nic_bytes_per_s: one NIC; 10 GB/s measured for Mooncake over 200 Gbps on H20 (calibration.md 2.1).
        nic_latency_s: first byte.
        pcie_bytes_per_s: host to GPU, 54.4 GB/s measured on H20.
        pcie_latency_s: fixed cost of a load on the host, 13 ms: TTFT of a CPU hit at 1,024 tokens (57.0 ms) less that
            of a GPU hit (41.8 ms) and the copy (1.9 ms), measured on H20 (measured/h20_kv_tier_ttft.csv).
        view_lag_s: age of what the router sees of caches and engines (RULES.md section 9); 0 is exact.
        schedule: rows ``(time_s, instance, up)``; instances go away and come back.
        warm: start with full caches (histories of the first requests of the sessions) instead of cold ones.
        eviction: which idle content of an instance goes first: "lru" (vLLM), "lfu" (fewest admissions since it is
            there) or "belady" (next use in the trace farthest ahead; a bound, RULES.md section 4).
        routers: router replicas; a session stays with replica ``session % routers`` (RULES.md section 9).
    """

    instances: int = 32
    decode_instances: int = 0
    hardware: str | tuple[str, ...] = "h20_30b"
    kv_blocks: int | None = None
    block_tokens: int = 16
    chunk_tokens: int = 256
    max_batched_tokens: int = 8192
    max_seqs: int = 1024
    global_tier: float = 3.2
    loads: str = "blocking"
    write: str = "prompt"
    min_load_tokens: int = 1
    instances_per_server: int | None = None
    nics_per_server: int = 4
    nic_bytes_per_s: float = 10e9
    nic_latency_s: float = 3e-3
    pcie_bytes_per_s: float = 54.4e9
    pcie_latency_s: float = 13e-3
    view_lag_s: float = 0.0
    schedule: tuple[tuple[float, int, bool], ...] = field(default=())
    warm: bool = False
    eviction: str = "lru"
    routers: int = 1

    def __post_init__(self) -> None:
        for name, lowest in (
            ("instances", 1),
            ("decode_instances", 0),
            ("block_tokens", 1),
            ("chunk_tokens", 1),
            ("max_batched_tokens", 1),
            ("max_seqs", 1),
            ("min_load_tokens", 1),
            ("nics_per_server", 1),
        ):
            _integer(name, getattr(self, name), lowest)
        _integer("routers", self.routers, 1, MOST_ROUTERS)
        for name in ("kv_blocks", "instances_per_server"):
            if getattr(self, name) is not None:
                _integer(name, getattr(self, name), 1)
        for name in ("nic_bytes_per_s", "pcie_bytes_per_s"):
            if not (_is_number(getattr(self, name)) and getattr(self, name) >= SLOWEST):
                raise SmetricError(
                    f"cluster.{name} is {getattr(self, name)!r}, allowed: {SLOWEST:.0e} bytes/s or more, or inf"
                )
        for name in ("nic_latency_s", "pcie_latency_s", "view_lag_s"):
            value = getattr(self, name)
            if not (_is_number(value) and 0 <= value <= LATEST_S):
                raise SmetricError(f"cluster.{name} is {value!r}, allowed: 0 to {LATEST_S:.0f} s")
        if not (_is_number(self.global_tier) and self.global_tier >= 0):
            raise SmetricError(
                f"global_tier is {self.global_tier!r}, "
                f"allowed: 0 (none) or more, in multiples of the local tier, or inf"
            )
        if self.loads not in LOADS:
            raise SmetricError(f"cluster.loads is {self.loads!r}, allowed: {' or '.join(LOADS)}")
        if self.write not in WRITES:
            raise SmetricError(f"cluster.write is {self.write!r}, allowed: {', '.join(WRITES)}")
        if self.eviction not in EVICTIONS:
            raise SmetricError(f"cluster.eviction is {self.eviction!r}, allowed: {', '.join(EVICTIONS)}")
        if self.chunk_tokens % self.block_tokens:
            raise SmetricError(
                f"cluster.chunk_tokens is {self.chunk_tokens}, "
                f"allowed: a multiple of block_tokens ({self.block_tokens})"
            )
        total = self.instances + self.decode_instances
        if not isinstance(self.hardware, str) and len(self.hardware) != total:
            raise SmetricError(
                f"cluster.hardware names {len(self.hardware)} instances, allowed: one preset, or {total} (one each)"
            )
        if not isinstance(self.warm, bool):
            raise SmetricError(f"cluster.warm is {self.warm!r}, allowed: true or false")
        for row in self.schedule:
            if not _is_row(row, total):
                raise SmetricError(
                    f"cluster.schedule has the row {row}, "
                    f"allowed: (time in s, instance 0..{total - 1}, up true/false)"
                )

    @property
    def disaggregated(self) -> bool:
        """True when prefill and decode run on different instances."""
        return self.decode_instances > 0


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_row(row: object, total: int) -> bool:
    """True for a row of a schedule: (s, instance, up)."""
    if not isinstance(row, (tuple, list)) or len(row) != 3:
        return False
    time, instance, up = row
    if not isinstance(time, Real) or not isinstance(instance, Integral) or up not in (True, False):
        return False
    return 0 <= float(time) <= LATEST_S and 0 <= int(instance) < total


def _integer(name: str, value: object, lowest: int, highest: int = LARGEST) -> None:
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else 0.5
    if number % 1 or not lowest <= number <= highest:
        raise SmetricError(f"cluster.{name} is {value!r}, allowed: a whole number, {lowest} to {highest:,}")
