"""Load and work of the instances."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

REQUESTS = 0  # in flight: routed and not complete (colocated), or not handed over (disaggregated)
UNPREFILLED_TOKENS = 1  # prompt tokens in flight whose KV is not there yet


@register_jitable
def load_of(view, kind):
    """[instances] float64, the load of every instance in requests or tokens."""
    if kind == UNPREFILLED_TOKENS:
        return view.unprefilled_tokens.astype(np.float64)
    return view.in_flight.astype(np.float64)


@register_jitable
def mean_alive(load, view):
    """Mean load of the instances that are alive."""
    alive = view.alive
    total = 0.0
    count = 0
    for i in range(len(load)):
        if alive[i] > 0:
            total += load[i]
            count += 1
    return total / max(count, 1)


@register_jitable
def new_tokens(view, request):
    """[instances] float64, prompt tokens of the request that each instance does not hold."""
    return float(request.prompt_tokens) - view.local_hit_tokens.astype(np.float64)
