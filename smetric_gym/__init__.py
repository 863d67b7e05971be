"""A research gym for routing the requests of LLM agents over a cluster of serving instances."""
