"""Whether the event loop has been compiled on this machine, so that a first use can say what it waits for."""

from __future__ import annotations

from pathlib import Path

COMPILING = "Compiling the event loop, once per installation (about half a minute) ..."


def is_compiled() -> bool:
    """True when Numba has the event loop, as it is now, in its cache."""
    from smetric_gym.cluster import engine

    cache = getattr(engine.advance, "_cache", None)
    if cache is None:  # NUMBA_DISABLE_JIT
        return True
    indices = Path(cache.cache_path).glob("engine.advance-*.nbi")
    newest = max((path.stat().st_mtime for path in indices), default=0.0)
    return newest >= Path(engine.__file__).stat().st_mtime
