"""Eight lessons on routing for LLM agents, each a marimo notebook; ``smetric-gym lessons`` opens them."""
