"""The cluster at a decision, as a table that a person understands at a glance; `picture` draws it."""

from __future__ import annotations

import numpy as np

from smetric_gym.envs.frame import Frame

BAR = 10


def text(frame: Frame) -> str:
    """A table with one line per instance; ``*`` most of the prompt cached, ``>`` chosen last, ``x`` down."""
    lines = [f"{frame.title} · {frame.clock()}", frame.score(), *frame.asks(), ""]
    lines.append(f"     # {'prompt cached':{BAR + 9}} {'KV in use':{BAR + 6}} running waiting  un-prefilled")
    hits, best = frame.hits, frame.best_hits
    for i, row in enumerate(frame.view):
        mark = (">" if i == frame.chosen else " ") + ("*" if best[i] else " ")
        if not row.alive:
            lines.append(f"x{mark}{i:3d} down")
            continue
        lines.append(
            f" {mark}{i:3d} {_bar(hits[i])} {row.local_hit_tokens:7,.0f}"
            f"  {_bar(row.kv_use)} {100 * row.kv_use:3.0f} %"
            f" {row.running:7.0f} {row.waiting:7.0f}"
            f" {row.unprefilled_tokens:9,.0f} ({row.unprefilled_s:.1f} s)"
        )
    lines.append("* most of the prompt cached   > chosen last   x down")
    return "\n".join(lines)


def _bar(share: float) -> str:
    eighths = round(8 * BAR * min(max(float(share), 0.0), 1.0))
    full, part = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")).ljust(BAR, "·")


def draw(frame: Frame) -> np.ndarray:
    """A tile per instance, [height, width, 3] uint8; the size depends on the number of instances alone."""
    from smetric_gym.envs.picture import Picture

    return Picture(frame).pixels()
