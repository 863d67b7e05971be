"""Draws a frame: one tile per instance, colours of Okabe and Ito that colour-blind people tell apart."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from smetric_gym.envs.frame import Frame

WIDTH, HEAD, MARGIN, GAP = 1280, 124, 16, 8
INK, PALE, TRACK, DOWN, TINT = "#222222", "#6b6b6b", "#e4e4e4", "#ececec", (176, 214, 240)
HIT, KV, RUNNING, WAITING, BACKLOG, CHOSEN = "#0072b2", "#56b4e9", "#009e73", "#d55e00", "#cc79a7", "#e69f00"
RUNNING_SCALE, WAITING_SCALE, BACKLOG_SCALE_S = 32, 8, 10.0
"""What a full bar means: requests, requests, seconds of prefill work."""

BARS = (  # colour, name, short name, share of the bar, value in words; `v` is a row of the view
    (HIT, "prompt cached", "hit", lambda v, hit: hit, lambda v, hit: f"{100 * hit:.0f} %"),
    (KV, "KV in use", "KV", lambda v, _: v.kv_use, lambda v, _: f"{100 * v.kv_use:.0f} %"),
    (RUNNING, "running", "run", lambda v, _: v.running / RUNNING_SCALE, lambda v, _: f"{v.running:.0f}"),
    (WAITING, "waiting", "wait", lambda v, _: v.waiting / WAITING_SCALE, lambda v, _: f"{v.waiting:.0f}"),
    (
        BACKLOG, "prefill queued", "queue",
        lambda v, _: v.unprefilled_s / BACKLOG_SCALE_S, lambda v, _: f"{v.unprefilled_s:.1f} s",
    ),
)  # fmt: skip
FULL = {
    "running": f" (of {RUNNING_SCALE})",
    "waiting": f" (of {WAITING_SCALE})",
    "prefill queued": f" (of {BACKLOG_SCALE_S:g} s)",
}


@lru_cache(maxsize=8)
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib."""
    import matplotlib

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/{name}", size)


def _blend(colour: tuple[int, int, int], share: float) -> tuple[int, ...]:
    """White at 0, the colour at 1."""
    return tuple(round(255 + (c - 255) * share) for c in colour)


class Picture:
    """One frame on one canvas; `pixels` is the result."""

    def __init__(self, frame: Frame) -> None:
        self.frame, count = frame, len(frame.view)
        self.columns = next((c for c in (4, 8, 16) if count <= c * max(c // 2, 1)), 32)
        self.columns = min(self.columns, count)
        self.tile_w = (WIDTH - 2 * MARGIN - (self.columns - 1) * GAP) / self.columns
        self.tile_h = 120 if self.columns <= 8 else 76 if self.columns <= 16 else 40
        rows = math.ceil(count / self.columns)
        height = HEAD + rows * (self.tile_h + GAP) + MARGIN
        self.image = Image.new("RGB", (WIDTH, height + height % 2), "white")
        self.pen = ImageDraw.Draw(self.image)
        self._head()
        hits, best = frame.hits, frame.best_hits
        for i in range(count):
            x = MARGIN + i % self.columns * (self.tile_w + GAP)
            y = HEAD + i // self.columns * (self.tile_h + GAP)
            self._tile(x, y, i, float(hits[i]), bool(best[i]))

    def pixels(self) -> np.ndarray:
        """[height, width, 3] uint8."""
        return np.asarray(self.image)

    def _head(self) -> None:
        frame = self.frame
        who, what = frame.asks()
        self._write(MARGIN, 10, frame.title, 15, PALE)
        self._write(WIDTH - MARGIN, 10, frame.clock(), 15, INK, right=True)
        self._write(MARGIN, 33, who, 19, INK, bold=True)
        self._write(WIDTH - MARGIN, 36, frame.score(), 15, INK, right=True)
        self._write(MARGIN, 61, what, 15, INK)
        share = min(frame.now_s / frame.end_s, 1.0)
        width, y = 400, 66
        self._bar(WIDTH - MARGIN - width, y, width, 8, share, PALE)
        warm = WIDTH - MARGIN - width * (1 - frame.warm_up_s / frame.end_s)
        self.pen.line([warm, y - 3, warm, y + 10], fill=INK)
        x = float(MARGIN)
        for colour, name, *_ in BARS:
            self.pen.rectangle([x, 97, x + 12, 109], fill=colour)
            x = self._write(x + 18, 94, name + FULL.get(name, ""), 14, INK) + 22
        self.pen.rectangle([x, 96, x + 14, 110], outline=CHOSEN, width=4)
        x = self._write(x + 20, 94, "chosen last", 14, INK) + 22
        self._star(x + 7, 103, 8)
        self._write(x + 20, 94, "most of the prompt cached", 14, INK)

    def _tile(self, x: float, y: float, i: int, hit: float, best: bool) -> None:
        row, w, h = self.frame.view[i], self.tile_w, self.tile_h
        down = not row.alive
        fill = DOWN if down else _blend(TINT, min(hit, 1.0))
        self.pen.rectangle([x, y, x + w, y + h], fill=fill, outline="#bbbbbb")
        if i == self.frame.chosen:
            self.pen.rectangle([x - 1, y - 1, x + w + 1, y + h + 1], outline=CHOSEN, width=5)
        size = 15 if h > 100 else 12 if h > 60 else 0
        if size:
            self._write(x + 9, y + 6, f"{i}", size, PALE if down else INK, bold=True)
            if down:
                self._write(x + w - 9, y + 6, "down", size, PALE, right=True)
        if down:
            return
        if best and size:
            self._star(x + w - 15, y + 6 + size * 0.62, size * 0.55)
        left, right = next(
            space for narrowest, space in ((230, (100, 52)), (130, (44, 42)), (0, (0, 0))) if w > narrowest
        )
        edge = 9 if size else 4
        top, pitch = (y + size + 13, (h - size - 20) / len(BARS)) if size else (y + 4, (h - 6) / len(BARS))
        for k, (colour, name, short, share, value) in enumerate(BARS):
            at = top + k * pitch
            if left:
                self._write(x + edge, at - 3, name if left > 44 else short, 11, PALE)
                self._write(x + w - edge, at - 3, value(row, hit), 11, INK, right=True)
            bar = w - 2 * edge - left - right
            self._bar(x + edge + left, at, bar, max(4, pitch - 7), float(share(row, hit)), colour)

    def _bar(self, x: float, y: float, w: float, h: float, share: float, colour: str) -> None:
        self.pen.rectangle([x, y, x + w, y + h], fill=TRACK)
        if share > 0:
            self.pen.rectangle([x, y, x + max(1.0, w * min(share, 1.0)), y + h], fill=colour)

    def _star(self, x: float, y: float, r: float) -> None:
        radii = (r, 0.45 * r) * 5
        turns = [k * math.pi / 5 for k in range(10)]
        points = [(x + q * math.sin(a), y - q * math.cos(a)) for q, a in zip(radii, turns, strict=True)]
        self.pen.polygon(points, fill=HIT)

    def _write(
        self, x, y, words: str, size: int, colour: str, bold: bool = False, right: bool = False
    ) -> float:
        face = font(size, bold)
        width = face.getlength(words)
        self.pen.text((x - width if right else x, y), words, font=face, fill=colour)
        return x + width
