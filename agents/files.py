"""Policies in a file of the user's, named ``path/to/file.py:function``."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from smetric_gym.agents.params import did_you_mean
from smetric_gym.errors import SmetricError


def function_in_file(path: Path, name: str) -> tuple[ModuleType, Callable]:
    """Run the file as a module and take `name` from it; while it runs, it can import its neighbours.

    Raises:
        SmetricError: if there is no such file or function, or the file cannot be run.
    """
    module = _load(path)
    function = getattr(module, name, None)
    if not callable(function):
        members = vars(module).items()
        here = [n for n, f in members if inspect.isfunction(f) and f.__module__ == module.__name__]
        found = "nothing" if function is None else f"{function!r}, no function,"
        defined = ", ".join(here) or "none"
        raise SmetricError(
            f"policy file {path} has {found} called {name!r}{did_you_mean(name, here)}, "
            f"allowed: a function of the file ({defined})"
        )
    return module, function


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise SmetricError(f"policy file {path} does not exist (the current folder is {Path.cwd()})")
    name = f"smetric_gym_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses and pickle look modules up there
    folder, known = str(path.resolve().parent), set(sys.modules)
    sys.path.insert(0, folder)  # a file may import a helper beside it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
        line = f", line {error.lineno}," if isinstance(error, SyntaxError) and error.lineno else ""
        said = error.msg if isinstance(error, SyntaxError) else error
        raise SmetricError(
            f"policy file {path}{line} cannot be loaded: {type(error).__name__}: {said}"
        ) from error
    finally:
        sys.path.remove(folder)
        for helper in set(sys.modules) - known:  # a file of another folder has helpers of its own
            if (getattr(sys.modules[helper], "__file__", None) or "").startswith(folder + os.sep):
                del sys.modules[helper]
    return module
