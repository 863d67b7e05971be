"""Kinds of events in the order in which they happen at one time (RULES.md section 2)."""

STEP_END, LOAD_END, SCHEDULE, DELIVER, ARRIVAL = range(5)
