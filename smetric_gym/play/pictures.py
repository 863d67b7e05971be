"""The pictures that are plain HTML: tiles of the instances, numbers, checks and tables; ``page.css`` styles them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from smetric_gym.experiment.tables import number
from smetric_gym.play.moment import SHARED, Moment, Segment
from smetric_gym.play.recording import Recording
from smetric_gym.play.why import Why
from smetric_gym.play.words import count, tokens
from smetric_gym.scoring import SCORES

STAGES = (
    ("wait", "waiting"),
    ("load", "KV on its way"),
    ("fill", "in prefill"),
    ("decode", "decoding"),
)
"""Style of ``page.css`` and words of the stages, in the order of a request's life."""
BARS = (
    ("a", 10, "KV in use, by session"),
    ("a p-idle", 10, "KV cached, idle"),
    ("s", 10, "KV of system prompts"),
    ("mine", 10, "KV of the session looked at"),
    ("mine", 4, "cached share of the waiting prompt (★ most)"),
)
"""Style, height in pixels and words of the bars of a tile."""
MOST_UNITS = 36
SMALLEST = 0.01
"""KV of a session below this share of an instance is drawn with the others."""
HEADLINE = {
    "tps_within_slo": "tokens/s within SLO",
    "slo_attainment": "of requests within SLO",
    "load_imbalance": "max/mean load",
    "reuse_ratio": "of prompt tokens reused",
    "ttft_p50_s": "s median TTFT",
    "ttft_p99_s": "s p99 TTFT",
    "saturation": "",
}
"""Scores at the head of a run, with the words behind the number."""


def tiles(moment: Moment, session: int = -1, hot: int = -1, chosen: bool = True) -> str:
    """A tile per instance.

    Args:
        moment: what is shown.
        session: whose KV is marked, -1 for none.
        hot: instance that is tinted, -1 for none.
        chosen: frame the instance that the policy chose.
    """
    few = " p-few" if len(moment.alive) <= 6 else ""
    cells = [_tile(moment, i, session, i == hot, chosen and i == moment.chosen) for i in range(len(moment.alive))]
    return f'<div class="p-grid{few}">{"".join(cells)}</div>'


def _tile(moment: Moment, i: int, session: int, hot: bool, chosen: bool) -> str:
    kinds = " ".join(["p-tile", *["p-hot"] * hot, *["p-chosen"] * chosen, *["p-down"] * (not moment.alive[i])])
    numbers = [int(of[i]) for of in (moment.waiting, moment.loading, moment.prefill, moment.decode)]
    said = ", ".join(f"{n} {words}" for n, (_, words) in zip(numbers, STAGES, strict=True))
    units, shown = [], 0
    for n, (style, _) in zip(numbers, STAGES, strict=True):
        drawn = min(n, MOST_UNITS - shown)
        units.append(f'<i class="p-unit p-{style}"></i>' * drawn)
        shown += drawn
    more = f'<span class="p-more">+{sum(numbers) - shown}</span>' if sum(numbers) > shown else ""
    kv = sum(s.used for s in moment.segments[i])
    amounts = f"{tokens(moment.tokens[i])} tokens in flight, KV {100 * kv:.0f} % used"
    label = f"instance {i} {moment.roles[i]}: {said}, {amounts}"
    note = moment.roles[i]
    if not moment.alive[i]:
        note = "down"
    elif moment.stalled_s[i] > 0:
        note = f"fetch {moment.stalled_s[i]:.2g} s"
    elif i < moment.targets and moment.view.unprefilled_s[i] >= 0.1:
        note = f"{moment.view.unprefilled_s[i]:.1f} s"
    star = _star(moment, i)
    return (
        f'<div class="{kinds}" role="img" aria-label="{escape(label)}" title="{escape(label)}">'
        f'<div class="p-head"><b>{i}{star}</b><span>{note}</span></div>'
        f'<div class="p-units">{"".join(units)}{more}</div>'
        f'<div class="p-kv">{_kv(moment.segments[i], session)}</div>{_hit(moment, i)}</div>'
    )


def _hit(moment: Moment, i: int) -> str:
    """A thin bar: the share of the waiting request's prompt that the instance has cached."""
    if i >= moment.targets:
        return ""
    share = float(moment.view.local_hit_tokens[i]) / float(moment.asked.prompt_tokens)
    return f'<div class="p-hit"><i style="width:{100 * share:.1f}%"></i></div>'


def _star(moment: Moment, i: int) -> str:
    """A star where most of the waiting request's prompt is cached; none where half of the instances would have one."""
    hits = moment.view.local_hit_tokens
    best = (hits > 0) & (hits == hits.max())
    return " ★" if i < moment.targets and best[i] and best.sum() <= max(1, moment.targets // 2) else ""


def _kv(segments: Sequence[Segment], session: int) -> str:
    """Segments in order of their session, so that a bar keeps its order from one moment to the next."""
    small = [s for s in segments if s.used + s.idle < SMALLEST and s.session not in (session, SHARED)]
    shown = sorted(s for s in segments if s not in small)
    parts = []
    for s in shown:
        style = "mine" if s.session == session and session >= 0 else "s" if s.session == SHARED else "ab"[s.session % 2]
        who = "system prompts" if s.session == SHARED else f"session {s.session}"
        for share, idle, state in ((s.used, "", "in use"), (s.idle, " p-idle", "cached, idle")):
            if share > 0:
                parts.append(_bar(f"p-{style}{idle}", share, f"{who}: {100 * share:.1f} %, {state}"))
    rest = sum(s.used + s.idle for s in small)
    if rest:
        parts.append(_bar("p-b p-idle", rest, f"{count(len(small), 'more session')}: {100 * rest:.1f} %"))
    return "".join(parts)


def _bar(style: str, share: float, words: str) -> str:
    return f'<i class="{style}" style="width:{100 * share:.2f}%" title="{escape(words)}"></i>'


def legend() -> str:
    """What the tiles show."""
    bar = '<span><i class="p-unit p-{0}" style="width:18px;height:{1}px"></i>{2}</span>'
    parts = [f'<span><i class="p-unit p-{style}"></i>{words}</span>' for style, words in STAGES]
    parts += [bar.format(*row) for row in BARS]
    parts.append("<span>1.2 s: prefill queued</span><span>framed: chosen</span>")
    return f'<div class="p-legend">{"".join(parts)}</div>'


def headline(recording: Recording) -> str:
    """The main scores of a run; the definition of each shows on hovering."""
    parts = []
    for name, words in HEADLINE.items():
        value = number(recording.scores[name], SCORES[name].unit)
        hint = escape(f"{name}: {SCORES[name].definition}")
        parts.append(f'<span title="{hint}"><b>{value}</b> <small>{words}</small></span>')
    return f'<div class="p-numbers">{"".join(parts)}</div>'


def why(reasons: Why) -> str:
    """The sentence, the conditions with their numbers, and the table of instances."""
    items = "".join(
        f'<li data-mark="{"✓" if check.holds else "✗"}">{escape(check.words)}</li>' for check in reasons.checks
    )
    strong = [k for k, row in enumerate(reasons.rows) if "chosen" in str(row[0])]
    return (
        f'<p class="p-say">{escape(reasons.sentence)}</p><ul class="p-checks">{items}</ul>'
        f"{table(reasons.columns, reasons.rows, strong)}"
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], strong: Sequence[int] = ()) -> str:
    """A table; the rows `strong` are set in bold."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = ""
    for k, row in enumerate(rows):
        cells = "".join(f"<td>{escape(str(cell))}</td>" for cell in row)
        body += f"<tr{' class=p-strong' if k in strong else ''}>{cells}</tr>"
    return f'<div style="overflow-x:auto"><table class="p-table"><tr>{head}</tr>{body}</table></div>'


def heading(words: str) -> str:
    """A heading over a part of the page."""
    return f'<h3 class="p-heading">{escape(words)}</h3>'


def say(sentence: str) -> str:
    """A sentence in the size of those that explain."""
    return f'<p class="p-say">{escape(sentence)}</p>'


def request_words(moment: Moment) -> str:
    """The request that waits, in one line."""
    asked = moment.asked
    history = tokens(float(asked.history_tokens))
    kind = "first turn" if asked.messages == 0 else f"turn {asked.turn:.0f}, {history} of history"
    return (
        f"t = {moment.time_s:,.1f} s: request {moment.request} of session {asked.session:.0f} ({kind}) has "
        f"{tokens(float(asked.prompt_tokens))} prompt tokens, {tokens(float(asked.global_hit_tokens))} of them in the "
        f"global tier; first token due in {float(asked.ttft_limit_s):.1f} s"
    )
