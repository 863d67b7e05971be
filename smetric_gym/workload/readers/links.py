"""What the prefix tree says of requests in order of arrival: whose prefix each repeats, whom it follows."""

from __future__ import annotations

import numba
import numpy as np

COMMON_SHARE, COMMON_LEAST = 0.01, 10
"""A prefix that more than this share of all requests (and 10) use is no sign that one follows another."""


@numba.njit(cache=True)
def infer_parents(leaf, stem, up, most):
    """The parent of each request: the deepest earlier one whose full blocks all begin its prompt.

    Where several end at the same block, the latest. Ends inside nodes that more than ``most`` requests use
    do not count, nor do prompts shorter than one block. One request may have several children (branches,
    retries). On Mooncake's conversation trace this finds 8,056 sessions, 25 % of them multi-turn.
    """
    count = np.zeros(len(up), dtype=np.int64)
    for r in range(len(leaf)):
        at = leaf[r]
        while at > 0:
            count[at] += 1
            at = up[at]
    ender = np.full(len(up), -1, dtype=np.int32)
    parent = np.full(len(leaf), -1, dtype=np.int32)
    for r in range(len(leaf)):
        at = leaf[r]
        while at > 0 and count[at] <= most:
            if ender[at] >= 0:
                parent[r] = ender[at]
                break
            at = up[at]
        ender[stem[r]] = r
    return parent


@numba.njit(cache=True)
def common_depth(a, b, up, depth):
    """Blocks that two nodes have in common."""
    while a != b:
        if depth[a] >= depth[b] and a > 0:
            a = up[a]
        else:
            b = up[b]
    return depth[a]


@numba.njit(cache=True)
def longest_shared(leaf, stem, parent, prompt, output, up, depth, block, assume_append):
    """The earlier request with the longest common prefix, and that prefix.

    A follow-up whose prompt begins with all full blocks of its parent's prompt and is at least as long as
    the parent's prompt + output is append-only. With ``assume_append`` it begins with all of those tokens,
    although ids cover no outputs, unless an earlier append of the same parent differs from it in a full
    block inside them: then at most one of the two is true, and the first is believed.

    Returns:
        base int32 ``(n,)`` or -1; shared tokens int32 ``(n,)``; append-only bool ``(n,)``; number of denied
        appends.
    """
    n = len(leaf)
    base = np.full(n, -1, dtype=np.int32)
    shared = np.zeros(n, dtype=np.int32)
    append = np.zeros(n, dtype=np.bool_)
    first = np.full(len(up), -1, dtype=np.int32)  # who passed a node first
    child = np.full(n, -1, dtype=np.int32)  # the first append of a parent
    denied = 0
    for r in range(n):
        at = leaf[r]
        while at > 0 and first[at] < 0:
            first[at] = r
            at = up[at]
        if at > 0:
            base[r] = first[at]
            shared[r] = min(depth[at] * block, min(prompt[r], prompt[base[r]]))
        p = parent[r]
        if p < 0:
            continue
        told = prompt[p] + output[p]
        if prompt[r] < told or common_depth(leaf[r], stem[p], up, depth) < depth[stem[p]]:
            continue
        append[r] = True
        if not assume_append or told <= shared[r]:
            continue
        if child[p] >= 0 and (common_depth(leaf[r], leaf[child[p]], up, depth) + 1) * block <= told:
            denied += 1
            append[r] = False
            continue
        if child[p] < 0:
            child[p] = r
        base[r] = p
        shared[r] = told
    return base, shared, append, denied


@numba.njit(cache=True)
def system_depth(leaf, session, up, depth, least):
    """Blocks at the head of each request that at least ``least`` sessions have in common.

    Args:
        leaf: node of each request.
        session: session of each request; requests must come session by session.
        up: parent of each node.
        depth: blocks to the end of each node.
        least: number of sessions.
    """
    count = np.zeros(len(up), dtype=np.int64)
    seen = np.full(len(up), -1, dtype=np.int64)
    for r in range(len(leaf)):
        at = leaf[r]
        while at > 0 and seen[at] != session[r]:
            seen[at] = session[r]
            count[at] += 1
            at = up[at]
    common = np.zeros(len(leaf), dtype=np.int64)
    for r in range(len(leaf)):
        at = leaf[r]
        while at > 0 and count[at] < least:
            at = up[at]
        common[r] = depth[at]
    return common
