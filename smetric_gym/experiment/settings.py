"""Settings: the files of ``conf/`` with the user's changes as one plain dict, or one clear sentence."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import smetric_gym.conf
from smetric_gym.errors import SmetricError

CONF = "smetric_gym.conf"
MANY = 24
GROUPS = ("cluster", "workload", "policy", "slo", "experiment")
OPEN = ("workload.", "policy.")
"""Keys of these groups are checked by the workload and the policy themselves, which know all of them."""


def settings_of(config: DictConfig) -> dict[str, Any]:
    """The values of a configuration, with ``instances`` and ``global_tier`` put into the cluster."""
    try:
        settings = _plain(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise explained(error) from error
    for shortcut in ("instances", "global_tier"):
        value = settings.pop(shortcut, None)
        if value is not None:
            settings["cluster"][shortcut] = value
    return settings


def _plain(config: Any, **how: Any) -> dict[str, Any]:
    """A configuration, whose root is always a mapping of names, as a dict."""
    return cast(dict[str, Any], OmegaConf.to_container(config, **how))


def compose(overrides: Iterable[str] = (), changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Settings from ``conf/`` for Python, by the same rules as the command line.

    Args:
        overrides: as on the command line, e.g. ``"cluster=disaggregated"`` or ``"policy.overload=4"``.
        changes: dotted keys to values of any type, set after the overrides.

    Raises:
        SmetricError: for a key, group or value that does not exist, with the nearest one that does.
    """
    try:
        with _own_hydra():
            config = hydra_compose("config", overrides=command_line(overrides))
        for key, value in (changes or {}).items():
            OmegaConf.update(config, key, value, merge=True, force_add=key.startswith(OPEN))
    except (HydraException, OmegaConfBaseException) as error:
        raise explained(error) from error
    return settings_of(config)


@contextmanager
def _own_hydra() -> Iterator[None]:
    """Hydra on our ``conf/``, also while another Hydra application (or ours) is running."""
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_module(CONF, version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra = outer


def command_line(arguments: Iterable[str]) -> list[str]:
    """Arguments as Hydra wants them.

    ``policy=mine.py:cheapest`` is no file of ``conf/policy``: it becomes the name of ``policy=custom``. Keys
    that only the workload or the policy can check become additions; a ``+`` adds no other key.

    Raises:
        SmetricError: for ``~KEY``, since every key is needed, and for a policy file without its function.
    """
    result = []
    for argument in arguments:
        if argument.startswith("~") and not argument.startswith("~hydra"):
            raise SmetricError(f"{argument!r} removes a key, and every key is needed, allowed: KEY=VALUE")
        if argument.startswith("+") and not argument.lstrip("+").startswith("hydra"):
            argument = argument.lstrip("+")
        key, equals, value = argument.partition("=")
        if key == "policy" and value.strip("'\"").endswith(".py"):
            raise SmetricError(no_function(value.strip("'\"")))
        if key == "policy" and ":" in value and "," not in value:
            name = value.strip("'\"")
            result += ["policy=custom", f"++policy.name='{name}'"]
        elif equals and (key.startswith(OPEN) or key == "vary"):
            result.append(f"++{argument}")
        else:
            result.append(argument)
    return result


def no_function(file: str) -> str:
    """One sentence about a policy file without the function in it."""
    return f"policy is {file!r}, which names no function, allowed: {file}:FUNCTION"


def choices(group: str) -> list[str]:
    """Names of the files of a group of ``conf/``."""
    return sorted(path.stem for path in (Path(smetric_gym.conf.__path__[0]) / group).glob("*.yaml"))


def group_file(group: str, name: str) -> dict[str, Any]:
    """The values of one file of a group, without the rest of the configuration."""
    if name not in choices(group):
        raise SmetricError(unknown(group, name, choices(group)))
    return _plain(OmegaConf.load(Path(smetric_gym.conf.__path__[0]) / group / f"{name}.yaml"))


def unknown(what: str, found: Any, allowed: Sequence[str]) -> str:
    """One sentence about a name that does not exist, with the nearest one that does."""
    return f"{what} is {found!r}{_meant(found, allowed)}"


def unknown_key(group: str, name: str, allowed: Sequence[str]) -> SmetricError:
    """``GROUP.NAME`` is no key of a group that has only the keys ``allowed``."""
    return SmetricError(f"unknown key {group}.{name}{_meant(name, allowed)}")


def _meant(found: Any, allowed: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(found), allowed, 1, 0.5)
    hint = f" (did you mean {near[0]}?)" if near else ""
    if near and len(allowed) > MANY:
        return f"{hint}, allowed: {len(allowed)} names, among them {near[0]}"
    return f"{hint}, allowed: {', '.join(allowed)}"


# -- what Hydra and OmegaConf complain about, in one sentence


def explained(error: Exception) -> SmetricError:
    """The one sentence that a user needs instead of an exception of Hydra or OmegaConf."""
    text = " ".join(str(error).split())
    missing = re.search(r"Could not find '(\w+)/([^']*)'", text)
    if missing:
        return SmetricError(unknown(missing[1], missing[2], choices(missing[1])))
    key = re.search(r"Could not override '([^']+)'", text) or re.search(r"full_key: (\S+)", text)
    if "Missing mandatory value" in text and key is None:
        key = re.search(r"Missing mandatory value: (\S+)", text)
    if key and "issing mandatory value" in text:
        hint = ", for example workload.path=trace.jsonl" if key[1] == "workload.path" else ""
        return SmetricError(f"{key[1]} is not given, and has no default{hint}")
    if key and ("not in struct" in text or "Could not override" in text):
        return _unknown_key(key[1])
    if isinstance(error, OverrideParseException):
        reason = " ".join(error.message.split()).split(" See ")[0]
        return SmetricError(
            f"cannot read {error.override!r} ({reason}), allowed: key=value, with quotes around a value that "
            "has spaces or commas"
        )
    return SmetricError(text)


def _unknown_key(key: str) -> SmetricError:
    """``key`` is not in the configuration: say which one was meant."""
    if key == "hardware":
        return SmetricError("hardware is not a key of its own, allowed: cluster.hardware=NAME")
    with _own_hydra():
        config = hydra_compose("config")
    valid = [k for k in _keys(_plain(config, resolve=False)) if not k.startswith("hydra")]
    near = difflib.get_close_matches(key, valid, 1, 0.5)
    if not near:  # the right name in the wrong place
        near = [k for k in valid if k.rpartition(".")[2] == key.rpartition(".")[2]][:1]
    hint = f", did you mean {near[0]}?" if near else ""
    return SmetricError(f"unknown key {key!r}{hint} (--help shows all keys)")


def _keys(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        yield prefix + name
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{name}.")
