"""The serving cluster: hardware, step time, KV tiers, the event loop, and what a router sees of it."""

from smetric_gym.cluster.cluster import OUTCOME, Cluster
from smetric_gym.cluster.config import ClusterConfig
from smetric_gym.cluster.state import DONE, UNISSUED
from smetric_gym.cluster.view import REQUEST_VIEW, VIEW

__all__ = ["DONE", "OUTCOME", "REQUEST_VIEW", "UNISSUED", "VIEW", "Cluster", "ClusterConfig"]
