"""Numbers and lists as a sentence says them."""

from __future__ import annotations

from collections.abc import Sequence

SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def count(number: int, thing: str) -> str:
    """``3, "session"`` becomes "three sessions"; numbers above twelve are written in digits."""
    word = SMALL[number] if number < len(SMALL) else f"{number:,}"
    return f"{word} {thing}" if number == 1 else f"{word} {thing}s"


def verb(number: int, one: str, many: str) -> str:
    """The form of a verb for a number of things: ``1, "waits", "wait"`` becomes "waits"."""
    return one if number == 1 else many


def tokens(number: float) -> str:
    """Tokens with three digits that matter: 812, 41k, 1.2M."""
    if number < 1000:
        return f"{number:.0f}"
    return f"{number / 1000:.3g}k" if number < 999_500 else f"{number / 1e6:.3g}M"


def percent(share: float) -> str:
    """A share as a whole percentage."""
    return f"{100 * share:.0f} %"


def capital(sentence: str) -> str:
    """The sentence with a capital at its start."""
    return sentence[:1].upper() + sentence[1:]


def listed(items: Sequence[str]) -> str:
    """``a, b and c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
