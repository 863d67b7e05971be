"""Who wins among equals.

Seven public bug reports on routers are only about this. On an idle cluster all loads are equal, and a
system prompt that every instance holds makes all hits equal. With the first-index rule of ``argmin`` all
such requests go to instance 0. The functions here run as plain Python and inside compiled policies; they
choose among instances that are alive only. Scores are float64: policies convert the float32 fields of the
view before they compute, so that equal means equal and compiled code rounds as Python does.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from smetric_gym.agents.memory import CURSOR, HIT_CURSOR, RANDOM_STATE

FIRST = 0  # the lowest index, as numpy.argmin does; for hits too
ROUND_ROBIN = 1  # the next one after the last that won such a tie
LEAST_LOADED = 2  # fewest requests in flight, then round robin
LEAST_ROUTED = 3  # fewest requests since the start of the run, then round robin
RANDOM = 4  # uniformly, from the seed of the run


@register_jitable
def argmin(score, view, memory, ties):
    """Instance with the lowest score.

    Args:
        score: [instances] float64.
        view: [instances] ``VIEW``; dead instances are left out.
        memory: the policy's memory.
        ties: the rule among equals, FIRST .. RANDOM.

    Returns:
        Its index, or -1 if nobody alive has a score.
    """
    among = view.alive > 0
    keep_lowest(score, among)
    return break_tie(among, view, memory, ties, CURSOR)


@register_jitable
def most_hits(load, view, memory, ties):
    """Instance with the most cached tokens of the request; among equals the lower load, then as `ties` says.

    FIRST takes no notice of the load. Who does not follow the answer puts ``memory[HIT_CURSOR]`` back.
    """
    among = view.alive > 0
    keep_lowest(-view.local_hit_tokens, among)
    if ties != FIRST:
        keep_lowest(load, among)
    return break_tie(among, view, memory, ties, HIT_CURSOR)


@register_jitable
def keep_lowest(score, among):
    """Take everybody out of `among` ([instances] bool, in place) whose score is not the lowest in it."""
    least = lowest(score, among)
    for i in range(len(score)):
        if score[i] != least:
            among[i] = False


@register_jitable
def lowest(score, among):
    """The lowest score of `among` ([instances] bool), infinity for nobody."""
    least = np.inf
    for i in range(len(score)):
        if among[i] and score[i] < least:
            least = score[i]
    return least


@register_jitable
def break_tie(among, view, memory, ties, cursor):
    """One of `among`; ``memory[cursor]`` holds the place in the rotation, which only a tie moves."""
    if ties == LEAST_LOADED:
        keep_lowest(view.in_flight, among)
    if ties == LEAST_ROUTED:
        keep_lowest(view.routed, among)
    count = 0
    first = -1
    turn = -1
    for i in range(len(among)):
        if among[i]:
            count += 1
            if first < 0:
                first = i
            if turn < 0 and i >= memory[cursor]:
                turn = i
    if count < 2 or ties == FIRST:
        return first
    if ties == RANDOM:
        return nth(among, draw(memory, count))
    if turn < 0:
        turn = first
    memory[cursor] = turn + 1
    return turn


@register_jitable
def nth(among, k):
    """Index of the `k`-th True (from 0), or -1."""
    for i in range(len(among)):
        if among[i]:
            if k == 0:
                return i
            k -= 1
    return -1


@register_jitable
def draw(memory, below):
    """A whole number from 0 to ``below - 1``, by the linear congruential generator of Numerical Recipes."""
    state = (int(memory[RANDOM_STATE]) * 1664525 + 1013904223) % 4294967296
    memory[RANDOM_STATE] = state
    return state * below >> 32
