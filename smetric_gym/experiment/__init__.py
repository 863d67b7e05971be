"""Experiments: one run, sweeps that compare policies, their tables and figures, and the speed of all this."""
