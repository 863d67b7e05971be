"""The pictures of the game, as plain HTML."""

from __future__ import annotations

from collections.abc import Sequence

from smetric_gym.experiment.tables import number
from smetric_gym.play.game import Game, Standing
from smetric_gym.play.moment import Moment
from smetric_gym.play.pictures import table
from smetric_gym.play.words import count
from smetric_gym.scoring import SCORES


def progress(game: Game) -> str:
    """How far the game is."""
    own, auto = len(game.own), len(game.moves) - len(game.own)
    sent = f"{auto} requests sent without asking"
    words = f"{count(own, 'decision')} of yours, {sent}, {game.left_s:.0f} s of arrivals left"
    share = 100 * (1 - game.left_s / game.setup.window_s)
    return (
        f'<p class="p-dim">{words}</p><div class="p-kv" role="progressbar" aria-label="progress" '
        f'aria-valuenow="{share:.0f}"><i class="p-a" style="width:{share:.0f}%"></i></div>'
    )


def router_table(moment: Moment) -> str:
    """What a router sees of every instance."""
    columns = ("instance", "prompt tokens cached", "to compute", "requests in flight", "waiting", "tokens in flight",
               "prefill queued (s)", "KV in use")  # fmt: skip
    prompt = float(moment.asked.prompt_tokens)
    rows = []
    for i, v in enumerate(moment.view):
        cached, in_flight = float(v.local_hit_tokens), float(v.in_flight_tokens)
        row = (i, f"{cached:,.0f}", f"{prompt - cached:,.0f}", f"{v.in_flight:.0f}", f"{v.waiting:.0f}")
        rows.append((*row, f"{in_flight:,.0f}", f"{v.unprefilled_s:.1f}", f"{100 * v.kv_use:.0f} %"))
    return table(columns, rows)


def standings(rows: Sequence[Standing]) -> str:
    """The result of a game, best first."""
    names = Standing._fields[1:]
    columns = ("router", *(f"{name} ({SCORES[name].unit})" for name in names))
    cells = []
    for row in rows:
        cells.append((row.who, *(number(v, SCORES[name].unit) for name, v in zip(names, row[1:], strict=True))))
    return table(columns, cells, [k for k, row in enumerate(rows) if row.who == "you"])
