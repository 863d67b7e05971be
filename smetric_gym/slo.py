"""The limits of a request (SLO), and the presets."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from smetric_gym.errors import SmetricError


@dataclass(frozen=True)
class SLO:
    """Limits that a request must meet to count.

    Attributes:
        ttft_s: s to the first token that every request gets.
        ttft_s_per_token: s more per prompt token.
        tpot_s: s per output token after the first.
    """

    ttft_s: float = 1.0
    ttft_s_per_token: float = 62.5e-6
    tpot_s: float = 0.030

    def __post_init__(self) -> None:
        for name, lowest_allowed in (("ttft_s", True), ("ttft_s_per_token", True), ("tpot_s", False)):
            value = getattr(self, name)
            if not (value > 0 or (lowest_allowed and value == 0)):
                least = "0 s or more" if lowest_allowed else "more than 0 s"
                raise SmetricError(f"slo.{name} is {value}, allowed: {least}, or inf for no limit")
        if self.ttft_s == 0 and self.ttft_s_per_token == 0:
            raise SmetricError("slo.ttft_s and slo.ttft_s_per_token are both 0, allowed: one of them above 0")

    @classmethod
    def named(cls, name: str) -> SLO:
        """The preset ``paper``, ``paper_v2`` or ``relaxed``."""
        if name not in SLO_PRESETS:
            near = difflib.get_close_matches(name, SLO_PRESETS, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise SmetricError(f"slo is {name!r}{hint}, allowed: {', '.join(SLO_PRESETS)}")
        return SLO_PRESETS[name]

    def ttft_limit_s(self, prompt_tokens):
        """Limit of the time to the first token in s, of one prompt or an array of them."""
        return self.ttft_s + self.ttft_s_per_token * prompt_tokens


SLO_PRESETS = {
    "paper": SLO(1.0, 62.5e-6, 0.030),
    "paper_v2": SLO(1.0, 62.5e-6, 0.020),
    "relaxed": SLO(4.0, 125e-6, 0.050),
}
