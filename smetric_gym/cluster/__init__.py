"""The serving cluster: hardware, step time, KV tiers, the event loop, and what a router sees of it."""
