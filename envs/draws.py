"""The grammar of drawn values: lists to choose from, ranges, bundles of keys, and regions of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from smetric_gym.errors import SmetricError

RANGES = ("uniform", "log_uniform", "integers", "log_integers")


def check_draw(key: str, choice: Any) -> None:
    """Refuse what `draw` could not draw from.

    Raises:
        SmetricError: naming the key.
    """
    if isinstance(choice, list) and not choice:
        raise SmetricError(f"{key} is drawn from an empty list, allowed: one value or more")
    for one in choice if isinstance(choice, list) else [choice]:
        if is_bundle(one):
            for inner, value in one.items():
                if inner != key:
                    check_draw(inner, value)
        elif isinstance(one, Mapping):
            _check_range(key, one)


def _check_range(key: str, choice: Mapping[str, Any]) -> None:
    ((name, pair), *more) = choice.items()
    whole, logarithmic = name.endswith("integers"), name.startswith("log")
    kinds = int if whole else (int, float)
    good = isinstance(pair, list | tuple) and len(pair) == 2
    good = good and all(isinstance(v, kinds) and not isinstance(v, bool) and np.isfinite(v) for v in pair)
    if more or not good or pair[0] > pair[1] or (logarithmic and pair[0] <= 0):
        what = f"[low, high]{', whole numbers' if whole else ''}{', above 0' if logarithmic else ''}"
        raise SmetricError(f"{key} is drawn from {name}: {pair!r}, allowed: {what}")


def draw(key: str, choice: Any, random: np.random.Generator, values: dict[str, Any]) -> None:
    """Draw one key into `values`; a bundle sets other keys too.

    Args:
        key: what is drawn.
        choice: a value, a list to choose from, a mapping of one name of ``RANGES`` to [low, high], or a bundle:
            a mapping of several keys, of which `key` is set as it stands and the others are drawn.
        random: gives the numbers.
        values: gets them.
    """
    if isinstance(choice, list):
        choice = choice[random.integers(len(choice))]
    if is_bundle(choice):
        for inner, value in choice.items():
            if inner == key:
                values[key] = value
            else:
                draw(inner, value, random, values)
    elif not isinstance(choice, Mapping):
        values[key] = choice
    else:
        ((name, (low, high)),) = choice.items()
        if name == "uniform":
            values[key] = float(random.uniform(low, high))
        elif name == "log_uniform":
            values[key] = float(np.exp(random.uniform(np.log(low), np.log(high))))
        elif name == "integers":
            values[key] = int(random.integers(low, high + 1))
        else:  # n is as likely as a logarithm between n and n + 1
            values[key] = int(np.exp(random.uniform(np.log(low), np.log(high + 1))))


def is_bundle(choice: Any) -> bool:
    """True for a mapping of several keys, which is not a range."""
    return isinstance(choice, Mapping) and not set(choice) & set(RANGES)


def keys_of(draws: Mapping[str, Any]) -> Iterator[str]:
    """The keys that draws may set, those of bundles too."""
    for key, choice in draws.items():
        yield key
        for bundle in filter(is_bundle, choice if isinstance(choice, list) else [choice]):
            yield from (inner for inner in keys_of(bundle) if inner != key)


def check_region(region: Mapping[str, Any]) -> None:
    """Refuse a region that `holds` could not decide.

    Raises:
        SmetricError: naming the key.
    """
    for key, wanted in region.items():
        if isinstance(wanted, Mapping):
            pair = wanted.get("between")
            if len(wanted) != 1 or not isinstance(pair, list | tuple) or len(pair) != 2:
                raise SmetricError(
                    f"held_out has {key}: {wanted!r}, allowed: a value, a list of values, or between: [low, high]"
                )


def holds(region: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """True when drawn values are inside a region: every key has its value, one of its values, or is in between."""
    for key, wanted in region.items():
        value = values.get(key)
        if isinstance(wanted, Mapping):
            low, high = wanted["between"]
            if value is None or not low <= value <= high:
                return False
        elif value != wanted and not (isinstance(wanted, list) and value in wanted):
            return False
    return True
