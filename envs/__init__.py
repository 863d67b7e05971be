"""The Gymnasium environments."""

from smetric_gym.envs.colocated import ColocatedEnv
from smetric_gym.envs.credit import credit_to_decisions, discount
from smetric_gym.envs.disaggregated import DisaggregatedEnv
from smetric_gym.envs.distribution import ScenarioDistribution
from smetric_gym.envs.observation import FIELDS, observation_space
from smetric_gym.envs.rewards import ENDED, REWARDS, TERMS
from smetric_gym.envs.routing import RoutingEnv
from smetric_gym.envs.teacher import Teacher, VectorTeacher
from smetric_gym.envs.vector import VectorColocatedEnv, VectorDisaggregatedEnv, VectorRoutingEnv

__all__ = [
    "ENDED",
    "FIELDS",
    "REWARDS",
    "TERMS",
    "ColocatedEnv",
    "DisaggregatedEnv",
    "RoutingEnv",
    "ScenarioDistribution",
    "Teacher",
    "VectorColocatedEnv",
    "VectorDisaggregatedEnv",
    "VectorRoutingEnv",
    "VectorTeacher",
    "credit_to_decisions",
    "discount",
    "observation_space",
]
