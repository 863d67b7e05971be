"""Results that survive: files written whole or not at all, and a store that finds a finished run again."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

RUN_KEYS = (
    "cluster", "workload", "policy", "slo", "load", "load_by", "arrival_mode", "seed",
    "warm_up_s", "window_s", "imbalance_window_s",
)  # fmt: skip
"""What decides the result of a run; every other setting only says what is done with it."""


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file through a temporary one beside it, so that nobody ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def as_json(value: Any) -> bytes:
    """Indented JSON; nan becomes null and an infinite number the word ``inf``."""
    return orjson.dumps(_plain(value), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


class Store:
    """Finished runs in a folder, one JSON file each, named by a hash of all that decides the result.

    The hash covers the settings in `RUN_KEYS`, the content of the trace and policy files that they name, and
    the source of the package, so a result never outlives what made it.

    Args:
        folder: made when the first result is saved.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def key(self, settings: Mapping[str, Any]) -> str:
        """The name of the run of these settings."""
        decides: dict[str, Any] = {name: settings[name] for name in RUN_KEYS}
        decides["files"] = [_digest(path) for path in _files(settings)]
        return digest_of(decides)

    def load(self, key: str) -> dict[str, Any] | None:
        """The saved record, or None; a file that cannot be read counts as not there."""
        try:
            return orjson.loads((self.folder / f"{key}.json").read_bytes())
        except (FileNotFoundError, orjson.JSONDecodeError):
            return None

    def save(self, key: str, record: Mapping[str, Any]) -> None:
        """Save a finished run."""
        write_whole(self.folder / f"{key}.json", as_json(record))


def digest_of(values: Any) -> str:
    """A name for what follows from `values` (anything that JSON has) and from the source of the package."""
    decides = {"values": values, "package": [version("smetric-gym"), _source()]}
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:24]


def _files(settings: Mapping[str, Any]) -> list[str]:
    """Files that the settings name: a trace, a learned policy, a user's policy and what it may import beside it."""
    from smetric_gym.agents.learned_file import path_of

    values = settings.get("policy") or {}
    name = values.get("name") or ""
    learned = str(path_of(values.get("path") or "")) if name == "learned" else None
    policy = name.rpartition(":")[0]
    beside = sorted(str(path) for path in Path(policy).parent.glob("*.py")) if policy else []
    return [path for path in (settings["workload"].get("path"), learned, policy, *beside) if path]


def _digest(path: str) -> str:
    """Hash of a file, or of all files of a folder with their names; of nothing where there is none."""
    root, total = Path(path), hashlib.sha256()
    for file in [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.is_file()):
        with open(file, "rb") as opened:
            total.update(str(file.relative_to(root)).encode())
            total.update(hashlib.file_digest(opened, "sha256").digest())
    return total.hexdigest()


@lru_cache(maxsize=1)
def _source() -> str:
    """Hash of the sources that results come from."""
    import smetric_gym.agents
    import smetric_gym.conf

    package = Path(__file__).parents[1]
    roots = [package / "cluster", package / "workload", Path(smetric_gym.agents.__path__[0])]
    files = [package / f"{name}.py" for name in ("scoring", "measures", "slo")]
    files += [package / "experiment" / f"{name}.py" for name in ("evaluate", "prepare")]
    files += sorted((Path(smetric_gym.conf.__path__[0]) / "hardware").glob("*.yaml"))
    for root in roots:
        files += sorted(root.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
