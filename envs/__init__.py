"""The Gymnasium environments."""

from smetric_gym.envs.colocated import ColocatedEnv
from smetric_gym.envs.disaggregated import DisaggregatedEnv
from smetric_gym.envs.observation import FIELDS, observation_space
from smetric_gym.envs.rewards import REWARDS, TERMS
from smetric_gym.envs.routing import RoutingEnv
from smetric_gym.envs.teacher import Teacher

__all__ = [
    "FIELDS",
    "REWARDS",
    "TERMS",
    "ColocatedEnv",
    "DisaggregatedEnv",
    "RoutingEnv",
    "Teacher",
    "observation_space",
]
