"""Arrays and a header in one compressed block of bytes, which ``load.js`` reads as typed arrays."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Any

import numpy as np

from smetric_gym.experiment.store import as_json

KINDS = {"u1": "Uint8Array", "u2": "Uint16Array", "i2": "Int16Array", "u4": "Uint32Array", "i4": "Int32Array",
         "f4": "Float32Array", "f8": "Float64Array"}  # fmt: skip
"""NumPy types that a page can read, and what they are in JavaScript."""
ALIGN = 8
UNKNOWN = 65535


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Compress a header and arrays; the same input gives the same bytes.

    The layout before compression: length of the JSON text (uint32, little endian), the text, then the arrays,
    each at a multiple of 8 bytes from the end of the text rounded up to 8. ``text.arrays`` says
    ``[name, JavaScript type, offset, length]``.
    """
    table, parts, offset = [], [], 0
    for name, array in arrays.items():
        kind = array.dtype.newbyteorder("<").str[1:]
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        table.append([name, KINDS[kind], offset, array.size])
        parts.append(data + bytes(-len(data) % ALIGN))
        offset += len(parts[-1])
    text = as_json({**header, "arrays": table})
    head = len(text).to_bytes(4, "little") + text
    return gzip.compress(head + bytes(-len(head) % ALIGN) + b"".join(parts), 9, mtime=0)


def unpack(packed: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `pack` was given, the arrays flat."""
    import orjson

    content = gzip.decompress(packed)
    size = int.from_bytes(content[:4], "little")
    header = orjson.loads(content[4 : 4 + size])
    begin = 4 + size + -(4 + size) % ALIGN
    types = {name: kind for kind, name in KINDS.items()}
    arrays = {}
    for name, kind, offset, length in header.pop("arrays"):
        arrays[name] = np.frombuffer(content, f"<{types[kind]}", length, begin + offset)
    return header, arrays


def quantised(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Values of 0 or more as uint16 steps, and the size of a step; `UNKNOWN` where they are nan."""
    known = np.isfinite(values)
    step = float(values[known].max(initial=0.0)) / (UNKNOWN - 1) or 1.0
    steps = np.rint(np.where(known, values, 0.0) / step)
    return np.where(known, steps, UNKNOWN).astype(np.uint16), step
