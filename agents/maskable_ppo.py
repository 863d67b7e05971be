"""MaskablePPO of sb3-contrib (Huang and Ontanon 2022) with the policy of `smetric_gym.agents.ppo`.

It asks the environment which rows may be chosen, for padded scenarios whose instances leave and join.
"""

from __future__ import annotations

from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from smetric_gym.agents.ppo import learn_with, scoring
from smetric_gym.agents.study import Study


def learn(study: Study) -> None:
    """Train; see `Study`."""
    learn_with(study, MaskablePPO, scoring(MaskableActorCriticPolicy))
