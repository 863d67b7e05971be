"""Whether the event loop has been compiled on this machine, so that a first use can say what it waits for."""

from __future__ import annotations

from pathlib import Path

COMPILING = "Compiling the event loop, once per installation (about 20 s) ..."


def is_compiled() -> bool:
    """True when Numba has the event loop in its cache."""
    from smetric_gym.cluster import engine

    cache = getattr(engine.advance, "_cache", None)
    if cache is None:  # NUMBA_DISABLE_JIT
        return True
    overloads = getattr(cache, "load_overload", None)
    folder = Path(cache.cache_path)
    newest = max((p.stat().st_mtime for p in folder.glob("engine.advance-*.nbi")), default=0.0)
    return overloads is not None and newest >= Path(engine.__file__).stat().st_mtime
