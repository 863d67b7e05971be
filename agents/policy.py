"""A policy: one function ``(view, request, memory, params) -> instance``, its parameters, and its loading."""

from __future__ import annotations

import copy
import importlib
import inspect
import operator
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from smetric_gym.agents import memory as memories
from smetric_gym.agents.compiled import PACKAGE, NotCompiled, compile_policy, is_ours
from smetric_gym.agents.files import function_in_file
from smetric_gym.agents.params import did_you_mean, make_params
from smetric_gym.errors import SmetricError

POLICIES = (
    "smetric",
    "smetric_basic",
    "smetric_overload_guard",
    "smetric_eviction_guard",
    "smetric_v2",
    "bailian",
    "lmetric",
    "lmetric_v1",
    "load_balance",
    "vllm",
    "dynamo",
    "dynamo_cost",
    "session_sticky",
    "round_robin",
    "random_choice",
    "power_of_two",
    "always_busiest",
    "learned",
)
"""Registered names: each is a module of this package with a function of that name and its ``Params``."""

ARGUMENTS = "(view, request, memory, params)"


class NoParams(NamedTuple):
    """Parameters of a policy that has none."""


class Policy:
    """A decision maker.

    Args:
        function: ``(view, request, memory, params) -> int``. `view` is [instances] ``VIEW`` and `request` one
            ``REQUEST_VIEW``, both float32 with their fields as attributes; `memory` is float64, kept
            from one decision of a run to the next; the answer is the index of an instance that is alive.
        params: a NamedTuple, the last argument of every call.
        name: for messages and results; the function's name if None.

    Attributes:
        compiled: True when Numba runs it.
        why_not_compiled: what Numba had against it; None before `compile` and after success.

    Example:
        >>> def cheapest(view, request, memory, params):
        ...     return int((request.prompt_tokens - view.local_hit_tokens + view.unprefilled_tokens).argmin())
        >>> Policy(cheapest).compile().compiled
        True

    Plain Python and compiled code choose alike if scores are computed in float64: Numba makes a float32 field
    times a Python number float64, NumPy keeps it float32.
    """

    def __init__(
        self, function: Callable[..., int], params: tuple | None = None, name: str | None = None
    ) -> None:
        self.function = getattr(function, "py_func", function)  # of a function that Numba compiled already
        self.params = NoParams() if params is None else params
        own_name: str = getattr(self.function, "__name__", type(function).__name__)
        self.name = name or own_name
        self.compiled = False
        self.why_not_compiled: str | None = None
        self._run, self._values = self.function, self.params

    def __call__(self, view: np.ndarray, request: Any, memory: np.ndarray) -> int:
        """The instance for `request`; an exception of the policy becomes a SmetricError that says where."""
        try:
            return self._run(view, request, memory, self._values)
        except Exception as error:
            where = (
                f"session {request['session']:.0f}, turn {request['turn']:.0f}, "
                f"{request['prompt_tokens']:.0f} prompt tokens, at {request['time_s']:.3f} s"
            )
            raise SmetricError(
                f"policy {self.name} failed at a request ({where}): {type(error).__name__}: {error}"
            ) from error

    def __repr__(self) -> str:
        return f"Policy({self.name}, {self.params}{', compiled' * self.compiled})"

    def new_memory(self, sessions: int, seed: int = 0) -> np.ndarray:
        """Memory for a run; see `smetric_gym.agents.memory`."""
        return memories.new_memory(sessions, seed)

    def with_params(self, params: tuple) -> Policy:
        """The same policy with other values of the same types; what is compiled is not compiled again."""
        result = copy.copy(self)
        result.params = params
        result._values = tuple(params) if self.compiled else params
        return result

    def compile(self) -> Policy:
        """Let Numba compile the function; where it cannot, ``why_not_compiled`` says why, and Python runs it.

        Compiled policies take plain structured arrays and recarrays. Numba treats the globals of a function
        as constants. Returns the policy itself.
        """
        if self.compiled:
            return self
        self.why_not_compiled = None
        try:
            self._run = compile_policy(self.function, self.params)
            self.compiled, self._values = True, tuple(self.params)
        except NotCompiled as reason:
            self.why_not_compiled = str(reason)
        return self


def check_choice(policy_name: str, choice: Any, alive: np.ndarray) -> int:
    """The choice as an int.

    Args:
        policy_name: for the message.
        choice: what the policy returned.
        alive: [instances], not 0 where an instance may be chosen.

    Raises:
        SmetricError: if it is no whole number, out of range, or a dead instance.
    """
    try:
        if isinstance(choice, (bool, np.bool_)):
            raise TypeError
        index = operator.index(choice)
    except TypeError:
        raise SmetricError(
            f"policy {policy_name} returned {choice!r} ({type(choice).__name__}), "
            f"allowed: a whole number from 0 to {len(alive) - 1}"
        ) from None
    if not 0 <= index < len(alive):
        raise SmetricError(f"policy {policy_name} returned {index}, allowed: 0 to {len(alive) - 1}")
    if not alive[index]:
        up = np.flatnonzero(alive)
        allowed = ", ".join(map(str, up[:8])) + (", ..." if len(up) > 8 else "")
        raise SmetricError(
            f"policy {policy_name} returned {index}, which is not alive, allowed: {allowed or 'nobody now'}"
        )
    return index


def load_policy(spec: Policy | Callable | str, *, disaggregated: bool = False, **params: Any) -> Policy:
    """The policy that `spec` names.

    Args:
        spec: a `Policy`, a function, a registered name (``POLICIES``), or ``path/to/file.py:function``.
        disaggregated: whether requests are routed to prefill instances; decides what ``auto`` means.
        params: parameters by name. Those of a user's policy are the ``Params`` NamedTuple of its module if
            there is one; else what is given here.

    Raises:
        SmetricError: if there is no such policy, it takes other arguments, or a parameter is not allowed.
    """
    module: ModuleType | None = None
    if isinstance(spec, Policy):
        if not params:
            return spec
        kind = None if isinstance(spec.params, NoParams) else type(spec.params)
        function, name = spec.function, spec.name
        given = spec.params._asdict() | params  # type: ignore[attr-defined]
    else:
        module, function = _find(spec) if isinstance(spec, str) else _module_of(spec)
        name, given = Policy(function).name, params
        _check_signature(name, function)
        kind = getattr(module, "Params", None)
        if kind is not None and not (isinstance(kind, type) and hasattr(kind, "_fields")):
            raise SmetricError(f"Params of policy {name} is {kind!r}, allowed: a typing.NamedTuple")
    values = make_params(name, kind, given, disaggregated=disaggregated, ours=is_ours(function))
    read = getattr(module, "read_params", None)  # of a policy whose parameters name a file
    return Policy(function, values if read is None else read(values), name)


def _module_of(function: Any) -> tuple[ModuleType | None, Callable]:
    if not callable(function):
        raise SmetricError(
            f"policy is {function!r}, allowed: a Policy, a function, a name, or path/to/file.py:function"
        )
    function = Policy(function).function
    return sys.modules.get(getattr(function, "__module__", None) or ""), function


def _find(spec: str) -> tuple[ModuleType, Callable]:
    if spec in POLICIES:
        module = importlib.import_module(f"{PACKAGE}.{spec}")
        return module, getattr(module, spec)
    path, _, name = spec.rpartition(":")
    if path.endswith(".py"):
        return function_in_file(Path(path), name)
    if spec.endswith(".py"):
        raise SmetricError(f"policy is {spec!r}, which names no function, allowed: {spec}:function")
    allowed = ", ".join(POLICIES)
    raise SmetricError(
        f"policy is {spec!r}{did_you_mean(spec, POLICIES)}, allowed: {allowed}, or path/to/file.py:function"
    )


def _check_signature(name: str, function: Callable) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in callables have none
        return
    try:
        signature.bind(*ARGUMENTS.split())
    except TypeError:
        raise SmetricError(f"policy {name} takes {signature}, allowed: {ARGUMENTS}") from None
