"""Which idle block loses its content (RULES.md section 4); of equals the least recently used one."""

import math


def policy(name, requests):
    """A function from the idle blocks, least recently used first, to the one that goes.

    Args:
        name: "lru", "lfu" or "belady".
        requests: of the whole trace, in its order.
    """
    if name == "lru":
        return lambda idle: next(iter(idle))
    if name == "lfu":
        return lambda idle: min(idle, key=lambda block: block.admissions)
    users = {}
    for request in requests:
        for node in {node for node, _block in request.keys}:
            users.setdefault(node, []).append(request)

    def next_use(block):
        node, _block = block.key
        return next((request.id for request in users[node] if request.to_come), math.inf)

    return lambda idle: max(idle, key=next_use)
