"""One small run of each kind of cluster, recorded once for all tests."""

import pytest

from smetric_gym.experiment.settings import compose
from smetric_gym.replay.recording import record

SMALL = {"instances": 4, "load": 1.5, "warm_up_s": 60, "window_s": 300, "cluster.kv_blocks": 12000}
OVERLOAD = {"policy.overload": 1.2}


@pytest.fixture(scope="session")
def recording():
    return record(compose(changes=SMALL | OVERLOAD))


@pytest.fixture(scope="session")
def disaggregated():
    return record(compose(["cluster=disaggregated"], SMALL | {"cluster.decode_instances": 3}))
