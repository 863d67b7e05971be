"""Many independent clusters, advanced by one compiled call."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from smetric_gym.cluster import engine
from smetric_gym.cluster.cluster import Cluster
from smetric_gym.errors import SmetricError


class Table:
    """Where the arrays of many equal tuples lie, so that compiled code can go from one tuple to the next.

    Numba has no list of tuples of arrays that it passes quickly. This is one: row k holds the address and the
    length of every array of tuple k, and `at` makes the tuple of them again.

    Args:
        rows: number of tuples.

    Attributes:
        kept: the tuples, which keeps their arrays alive.
        addresses: [rows, fields] int64, in bytes.
        lengths: [rows, fields] int64, size of the first dimension; the others are those of every row.
        like: one of the tuples, which tells the types.
    """

    def __init__(self, rows: int) -> None:
        self.kept: list[Any] = [None] * rows
        self.like: Any = None

    def put(self, row: int, arrays: Sequence[np.ndarray]) -> None:
        """Enter the tuple of a row, whose arrays are C-contiguous and of the types of every other row."""
        if self.like is None:
            self.like = arrays
            self.addresses = np.zeros((len(self.kept), len(arrays)), dtype=np.int64)
            self.lengths = np.zeros((len(self.kept), len(arrays)), dtype=np.int64)
        self.kept[row] = arrays
        self.addresses[row] = [a.ctypes.data for a in arrays]
        self.lengths[row] = [len(a) for a in arrays]


@intrinsic
def at(context, like, addresses, lengths):
    """The tuple of arrays of one row of a `Table`: ``at(table.like, table.addresses[k], table.lengths[k])``."""

    def codegen(context, builder, signature, arguments):
        like_type = signature.return_type
        places, sizes = (
            arrayobj.make_array(kind)(context, builder, value=value)
            for kind, value in zip(signature.args[1:], arguments[1:], strict=True)
        )
        result = []
        for k, kind in enumerate(like_type):
            example = builder.extract_value(arguments[0], k)
            array = arrayobj.make_array(kind)(context, builder, value=example)
            place = builder.load(cgutils.gep_inbounds(builder, places.data, k))
            size = builder.load(cgutils.gep_inbounds(builder, sizes.data, k))
            shape = [size, *cgutils.unpack_tuple(builder, array.shape)[1:]]
            items = size
            for more in shape[1:]:
                items = builder.mul(items, more)
            array.shape = cgutils.pack_array(builder, shape)
            array.nitems = items
            array.data = builder.inttoptr(place, array.data.type)
            array.meminfo = ir.Constant(array.meminfo.type, None)  # not counted: the table keeps it alive
            array.parent = ir.Constant(array.parent.type, None)
            result.append(array._getvalue())
        return context.make_tuple(builder, like_type, result)

    return like(like, addresses, lengths), codegen


@cache
def digest(*files: Path) -> str:
    """Of the sources that a compiled function takes in from other files, whose changes Numba would not notice."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


@cache
def _advance_many():
    sources = digest(Path(engine.__file__), Path(__file__))

    @numba.njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]  # not in Numba's stubs
    def advance_many(like, addresses, lengths, choices, reasons, codes, only):
        sources  # noqa: B018  # part of the key of the cache
        for c in range(len(codes)):
            if codes[c] == only or (only < 0 and (codes[c] == engine.DECISION or codes[c] == engine.PAUSED)):
                state = at(like, addresses[c], lengths[c])
                codes[c] = engine.advance(state, choices[c], reasons[c], 0)

    return advance_many


class Fleet:
    """Clusters that are stepped together, each with a trace, a size and a clock of its own.

    A cluster keeps its arrays, and can be looked at, scored and replaced by itself; only the fleet steps it.

    Args:
        clusters: clusters with the same ``max_batched_tokens`` and ``max_seqs``.

    Attributes:
        clusters: the clusters, in order.
        table: where their states are.
    """

    def __init__(self, clusters: Iterable[Cluster]) -> None:
        self.clusters = list(clusters)
        self.table = Table(len(self.clusters))
        self._codes = np.zeros(len(self.clusters), dtype=np.int64)
        self._no_reasons = np.zeros(len(self.clusters), dtype=np.int64)
        self._advance = _advance_many()
        for c, cluster in enumerate(self.clusters):
            self.replace(c, cluster)

    @property
    def waiting(self) -> np.ndarray:
        """[clusters] bool, True where a request waits for a decision."""
        return self._codes == engine.DECISION

    def replace(self, c: int, cluster: Cluster) -> None:
        """Put `cluster` in the place of cluster `c`, which keeps what it was."""
        first = self.clusters[0].config
        if (cluster.config.max_batched_tokens, cluster.config.max_seqs) != (first.max_batched_tokens, first.max_seqs):
            raise SmetricError("the clusters of a fleet must have the same max_batched_tokens and max_seqs")
        self.clusters[c] = cluster
        self._codes[c] = cluster._code
        self.table.put(c, cluster.state)

    def step(self, choices: np.ndarray, reasons: np.ndarray | None = None) -> np.ndarray:
        """Answer the decision of every waiting cluster and run each to its next one; other choices are ignored.

        Args:
            choices: [clusters] int64, an alive instance for each waiting cluster; -1 to start a cluster.
            reasons: [clusters] int64, the policy's reasons, or None.

        Returns:
            ``waiting`` after the step; False where a cluster has drained.
        """
        choices = np.ascontiguousarray(choices, dtype=np.int64)
        reasons = self._no_reasons if reasons is None else np.ascontiguousarray(reasons, dtype=np.int64)
        for c, chosen in enumerate(choices.tolist()):
            if self._codes[c] == engine.DECISION:
                alive = self.clusters[c]._view["alive"]
                if not (0 <= chosen < len(alive) and alive[chosen]):
                    raise SmetricError(
                        f"cluster {c}: instance {chosen} was chosen, allowed: an alive one of {len(alive)}"
                    )
        return self.advance(choices, reasons)

    def advance(self, choices: np.ndarray, reasons: np.ndarray) -> np.ndarray:
        """`step` for contiguous int64 arrays whose choices are known to be valid."""
        table, codes = self.table, self._codes
        self._advance(table.like, table.addresses, table.lengths, choices, reasons, codes, -1)
        while (full := codes == engine.GROW).any():
            for c in np.flatnonzero(full).tolist():
                self.clusters[c]._grow()
                table.put(c, self.clusters[c].state)
            nothing = np.full(len(choices), -1)
            self._advance(table.like, table.addresses, table.lengths, nothing, reasons, codes, engine.GROW)
        for cluster, code in zip(self.clusters, codes.tolist(), strict=True):
            cluster._code = code
            if code == engine.DRAINED and cluster.state.cluster["error"][0]:
                raise RuntimeError("internal limit of the event loop: a pool is too small; please report this")
        return codes == engine.DECISION
