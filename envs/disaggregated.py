"""The environment of a disaggregated cluster."""

from smetric_gym.envs.routing import RoutingEnv


class DisaggregatedEnv(RoutingEnv):
    """Route agent requests over prefill instances; decode instances follow: ``SMetric/Disaggregated-v0``.

    As `ColocatedEnv`, which is the specification, but the action names the *prefill* instance. When the
    prompt is computed, its KV goes over the network to the decode instance with the fewest tokens in
    flight, which the agent does not choose and does not see: rows of the observation and of the mask are
    prefill instances. Default: ``cluster="disaggregated"``, where the decode pool has a size of its own
    (``decode_instances``), also when ``instances`` is given.

    ## Version History
    - v0: first version.
    """

    default_cluster = "disaggregated"
    disaggregated = True
