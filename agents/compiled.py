"""Numba's part: the function of a policy, compiled for the view; those of the package are cached on disk."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numba
import numpy as np
from numba.extending import register_jitable

from smetric_gym.cluster.view import REQUEST_VIEW, VIEW

PACKAGE = __name__.rpartition(".")[0]


def is_ours(function: Callable) -> bool:
    """True for a function of this package."""
    return (getattr(function, "__module__", None) or "").startswith(PACKAGE + ".")


class NotCompiled(Exception):
    """Numba cannot compile it; the message is one sentence."""


def compile_policy(function: Callable, params: tuple) -> Callable:
    """`function`, compiled for a view, a request, a memory and parameters like `params`.

    Raises:
        NotCompiled: with Numba's reason.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # Numba sets its options at import
        raise NotCompiled("Numba is switched off (NUMBA_DISABLE_JIT)")
    examples = np.zeros(1, VIEW), np.zeros(1, REQUEST_VIEW)[0], np.zeros(1), tuple(params)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _compile(function, type(params), tuple(numba.typeof(example) for example in examples))
    except Exception as error:  # Numba raises what it likes
        raise NotCompiled(_first_sentence(error)) from error


def _compile(function: Callable, kind: type, types: tuple) -> Callable:
    if not is_ours(function):
        # A user's index out of range must be an error, not a stray write.
        inner = numba.njit(function, error_model="numpy", boundscheck=True)
        return numba.njit([types])(_entry(inner, kind, ""))
    entry = _entry(register_jitable(function), kind, _sources())
    try:
        return numba.njit([types], error_model="numpy", cache=True)(entry)
    except RuntimeError:  # no folder for the cache can be written
        return numba.njit([types], error_model="numpy")(entry)


def _entry(function: Callable, kind: type, sources: str) -> Callable:
    """What is compiled.

    `values` is a plain tuple, since Numba confuses NamedTuples of one name and the same fields. Its cache
    notices changes of this file and of closure cells only, and `function` inlines others: `sources` is a
    digest of them all.
    """

    def entry(view, request, memory, values):
        sources  # noqa: B018
        return function(view, request, memory, kind(*values))

    return entry


@cache
def _sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _first_sentence(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(("Failed in", "File ", "During:", "-"))]
    sentence = (said or lines or ["no reason given"])[0]
    sentence = re.sub(r"unaligned array\(Record\(.*?\), 1d, .\)", "view", sentence)
    return f"{type(error).__name__}: {re.sub(r'Record.*;False.', 'request', sentence)}"
