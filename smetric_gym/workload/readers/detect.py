"""Opening a trace whatever it is packed in, and telling its format from its content."""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from smetric_gym.errors import SmetricError
from smetric_gym.workload.readers.fields import Faults

FORMATS = ("mooncake", "weka", "bailian", "azure", "burstgpt")

BROKEN = (EOFError, gzip.BadGzipFile, lzma.LZMAError, tarfile.TarError, zlib.error)
"""What reading a damaged or truncated archive raises."""

_HEAD = 1 << 16


class Readable(Protocol):
    """What readers need of a stream."""

    def read(self, size: int = ..., /) -> bytes:
        """At most `size` bytes, all that is left if negative."""


@dataclass
class Document:
    """One file of a trace: its name for messages, and its unpacked bytes."""

    name: str
    stream: Readable


def open_documents(path: str | Path, faults: Faults) -> Iterator[Document]:
    """Open a file, a folder, or an archive of either, one document at a time, by what the bytes say.

    Folders and archives give their files in the order of their names (archives: in stored order), without
    hidden files and without files that are neither JSON nor CSV nor packed.

    Raises:
        SmetricError: when there is nothing to read, or (``faults`` decides) when an archive is damaged.
    """
    path = Path(path)
    if not path.exists():
        raise SmetricError(
            f"{path}: no such file or folder, allowed: a trace file, a folder or an archive of them"
        )
    empty = True
    files = sorted(p for p in path.rglob("*") if p.is_file() and _wanted(p.name)) if path.is_dir() else [path]
    for file in files:
        with open(file, "rb") as raw:
            try:
                for document in _unpack(file.name, raw):
                    empty = False
                    yield document
            except BROKEN as fault:
                faults.bad(file.name, f"cannot be unpacked ({fault}), allowed: a whole archive")
    if empty:
        raise SmetricError(
            f"{path}: found no trace file in it, allowed: .json, .jsonl, .csv, plain or packed"
        )


def detect(documents: Iterator[Document], path: str | Path) -> tuple[str, Iterator[Document]]:
    """Tell the format from the head of the first document, and give all documents back."""
    first = next(documents)
    try:
        head = first.stream.read(_HEAD)
    except BROKEN as fault:
        raise SmetricError(f"{path}: cannot be unpacked ({fault}), allowed: a whole archive") from None
    if not head.strip():
        where = f"{path}" if Path(path).name == first.name else f"{path}: {first.name}"
        raise SmetricError(f"{where} is empty, allowed: a trace with at least one request")
    first.stream = _Rewound(head, first.stream)
    return _format_of(head, f"{path}"), _chain(first, documents)


def _chain(first: Document, rest: Iterator[Document]) -> Iterator[Document]:
    yield first
    yield from rest


def _format_of(head: bytes, path: str) -> str:
    line = head.lstrip().split(b"\n", 1)[0]
    header = line.replace(b'"', b"").replace(b" ", b"").lower()
    if head.lstrip()[:1] == b"{":
        if b'"chat_id"' in line:
            return "bailian"
        if b'"block_size"' in head and b'"requests"' in head:
            return "weka"
        if b'"input_length"' in line or b'"hash_ids"' in line or b'"output_length"' in line:
            return "mooncake"
    elif b"contexttokens" in header:
        return "azure"
    elif b"requesttokens" in header:
        return "burstgpt"
    raise SmetricError(
        f"{path}: cannot tell the format from its first line {line[:60].decode(errors='replace')!r}; "
        f'name it with workload.format=... (format="..." in Python), one of {", ".join(FORMATS)}'
    )


def _wanted(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith(
        (".json", ".jsonl", ".csv", ".gz", ".xz", ".tgz")
    )


def _unpack(name: str, raw: BinaryIO) -> Iterator[Document]:
    magic = raw.read(6)
    raw.seek(0)
    if magic[:2] == b"\x1f\x8b":
        stream: Readable = gzip.GzipFile(fileobj=raw)
    elif magic == b"\xfd7zXZ\x00":
        stream = lzma.LZMAFile(raw)  # noqa: SIM115
    else:
        stream = raw
    head = stream.read(512)
    stream = _Rewound(head, stream)
    if head[257:262] != b"ustar":
        yield _document(name, stream)
        return
    with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|") as archive:  # "r|" does nothing but read
        for member in archive:
            if member.isfile() and _wanted(Path(member.name).name):
                content = archive.extractfile(member)
                assert content is not None  # of a regular file
                yield _document(Path(member.name).name, content)


def _document(name: str, stream: Readable) -> Document:
    """Without a byte order mark."""
    return Document(name, _Rewound(stream.read(len(BOM_UTF8)).removeprefix(BOM_UTF8), stream))


class _Rewound:
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, stream: Readable):
        self._head, self._stream = head, stream

    def read(self, size: int = -1) -> bytes:
        if not self._head:
            return self._stream.read(size)
        head, self._head = self._head, b""
        if 0 <= size < len(head):
            head, self._head = head[:size], head[size:]
            return head
        return head + self._stream.read(size - len(head) if size >= 0 else -1)
