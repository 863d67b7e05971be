"""One engine step: what it computes, and how long it takes (RULES.md section 5)."""


class Step:
    """What one engine step computes."""

    def __init__(self, now, budget):
        self.begin = now  # or when the last blocking load has arrived
        self.budget = budget
        self.entries = []  # (request, n, tokens computed before), in running order

    def duration(self, times, connector):
        """Ticks from its beginning to its end."""
        decodes = [start + 1 for _, n, start in self.entries if n == 1]
        prefills = [n * (2 * start + n) for _, n, start in self.entries if n > 1]
        per_context = times.mixed_context_ticks if prefills else times.context_ticks
        total = sum(n for _, n, _ in self.entries)
        return (
            int(times.tokens_ticks[total])
            + int(times.rows_ticks[len(self.entries)])
            + int(times.half_pair_ticks) * sum(prefills)
            + int(per_context) * sum(decodes)
            + (int(times.connector_ticks) if connector else 0)
        )
