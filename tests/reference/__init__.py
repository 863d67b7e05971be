"""The slow, readable simulator that checks the compiled one: RULES.md, block by block, step by step."""

from reference.pool import BlockPool
from reference.simulator import ReferenceCluster

__all__ = ["BlockPool", "ReferenceCluster"]
