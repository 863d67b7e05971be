"""The game: the same sessions for everybody, only dilemmas for the player."""

import numpy as np
import pytest

from smetric_gym.cluster.view import VIEW
from smetric_gym.errors import SmetricError
from smetric_gym.play.game import Game, GameSize, obvious
from smetric_gym.play.game_pictures import progress, router_table, standings

SHORT = GameSize(warm_up_s=120.0, length_s=40.0)


def view(hits, load, alive=None):
    rows = np.zeros(len(hits), dtype=VIEW).view(np.recarray)
    rows.local_hit_tokens, rows.in_flight = hits, load
    rows.alive = 1 if alive is None else alive
    return rows


def test_a_dilemma_is_where_cache_and_load_disagree():
    assert obvious(view([0, 9000], [3, 1])) == 1
    assert obvious(view([9000, 0], [3, 1])) == -1
    assert obvious(view([4000, 4500], [1, 2])) == 0  # hardly any difference
    assert obvious(view([9000, 0, 500], [3, 1, 1], [0, 1, 1])) == 2  # who is down does not count


def test_played_to_its_end():
    game = Game(0, SHORT)
    while not game.over:
        moment = game.moment()
        assert obvious(moment.view) == -1
        assert progress(game) and router_table(moment).count("<tr>") == 5
        game.pick(int(moment.view.local_hit_tokens.argmax()))
    table = game.standings()
    who = [row.who for row in table]
    assert {"you", "smetric", "lmetric", "load_balance"} <= set(who)
    assert [row.tps_within_slo for row in table] == sorted((row.tps_within_slo for row in table), reverse=True)
    assert f"{who.index('you') + 1} of {len(table)}" in game.verdict(table) or "first of" in game.verdict(table)
    assert "tps_within_slo (tokens/s)" in standings(table)
    assert len(game.own) > 3
    with pytest.raises(SmetricError, match="the game is over"):
        game.pick(0)


def test_the_moves_are_what_is_scored():
    greedy, lazy = Game(1, SHORT), Game(1, SHORT)
    while not greedy.over:
        greedy.pick(greedy.hint)
    while not lazy.over:
        lazy.pick(0)
    mine = {name: next(r for r in game.standings() if r.who == "you") for name, game in (("g", greedy), ("l", lazy))}
    assert mine["g"] != mine["l"]
    others = [[r for r in game.standings() if r.who != "you"] for game in (greedy, lazy)]
    assert sorted(others[0]) == sorted(others[1])  # everybody else meets the same, whatever the player did


def test_the_autopilot_plays_the_guide():
    game, by_hand = Game(2, SHORT), Game(2, SHORT)
    game.autopilot(2)
    for _ in range(2):
        by_hand.pick(by_hand.hint)
    assert [m.instance for m in game.moves] == [m.instance for m in by_hand.moves]
    assert not game.own and len(by_hand.own) == 2
    game.autopilot()
    assert game.over and "The autopilot took every decision" in game.verdict(game.standings())


def test_what_makes_no_sense_is_refused():
    game = Game(0, SHORT)
    with pytest.raises(SmetricError, match="instance 7 does not exist, allowed: 0 to 3"):
        game.pick(7)
    with pytest.raises(SmetricError, match="the game is not over"):
        game.standings()
