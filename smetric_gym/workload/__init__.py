"""Workloads: traces of requests, and the prefix tree that says what they share."""
