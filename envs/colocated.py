"""The environment of a colocated cluster: its docstring is the specification of both."""

from smetric_gym.envs.routing import RoutingEnv


class ColocatedEnv(RoutingEnv):
    """Route agent requests over instances that prefill and decode: ``SMetric/Colocated-v0``.

    ## Description
    Requests of LLM agents reach a router in front of a cluster of serving instances
    (``smetric_gym/cluster/RULES.md``). Each instance runs vLLM's scheduler and keeps the KV cache of what
    it served; a global tier below all of them keeps more of it. At every arrival the simulation stops, and
    the agent names the instance that serves the request. Sending a follow-up where its history is cached
    saves work; sending everything there overloads an instance.

    ## Action Space
    ``Discrete(rows)``: the row of the observation whose instance serves the waiting request. Row i is instance i,
    unless ``shuffle`` gives the instances another order in every episode (``rows`` tells it). There are as many
    rows as instances, or ``max_instances``: then the last ones are empty. An instance must be alive:
    ``info["action_mask"]`` ([rows] int8, 1 = allowed) and ``action_masks()`` ([rows] bool) say which are. A choice
    of another one raises a `SmetricError`. All are allowed unless ``cluster.schedule`` takes some away.

    ## Observation Space
    ``Box`` of shape (rows, 21), float32, from 0 to finite bounds. A row is what the router sees of an instance
    (``cluster.VIEW``), then the waiting request (``cluster.REQUEST_VIEW``), the same in every row. Rows without an
    instance are zero. Values are not scaled.

    | column | name | unit | meaning |
    |---|---|---|---|
    | 0 | local_hit_tokens | tokens | prompt of the waiting request that is in the instance's own KV cache |
    | 1 | in_flight | requests | routed to it and not complete (disaggregated: not handed over) |
    | 2 | running | requests | of these, in the engine's running batch |
    | 3 | waiting | requests | of these, in the engine's waiting queue |
    | 4 | in_flight_tokens | tokens | prompts of the requests in flight |
    | 5 | unprefilled_tokens | tokens | of these, whose KV is not yet on the instance |
    | 6 | unprefilled_s | s | prefill work that these are, by the cost model of columns 9 and 10 |
    | 7 | kv_use | 0..1 | share of its KV blocks that requests use |
    | 8 | capacity_tokens | tokens | size of its KV cache |
    | 9 | prefill_token_s | s/token | cost of a new token, and |
    | 10 | prefill_pair_s | s/token^2 | per context token: n new of L take c9 n + c10 n (L - n/2) |
    | 11 | routed | requests | routed to it since the start |
    | 12 | alive | 0 or 1 | 1 when it may be chosen |
    | 13 | prompt_tokens | tokens | prompt of the waiting request |
    | 14 | turn | | number of its turn, 0 for the first |
    | 15 | messages | messages | historical messages in its payload |
    | 16 | history_tokens | tokens | of these messages: what a cache that forgot nothing would hit |
    | 17 | global_hit_tokens | tokens | of its prompt in the global tier |
    | 18 | ttft_limit_s | s | limit of its time to the first token |
    | 19 | time_s | s | simulated time |
    | 20 | session | | id of its session, for sticky routers |

    Where ``cluster.view_lag_s`` is above 0, what instances report is that old: columns 0 (local_hit_tokens), 2
    (running), 3 (waiting) and 7 (kv_use). The others are the router's own counters, and exact. After the last
    decision no request waits: the observation of the end is the empty cluster, with zeros in the columns of
    load and request. Every observation is an array of its own, which may be kept.

    ``observation=function`` shows something else: ``function(view, request) -> [instances, F] float32``, of what a
    policy gets (``agents.features.observe`` is one). Numba compiles it where it can. The observation of the end is
    then zero.

    ## Rewards
    A reward sums something over the requests that ended since the last decision and arrived in the scored window
    (after ``warm_up_s``, for ``window_s``); requests of the warm-up earn nothing. What ends after the last decision
    is credited with it. Rewards are tokens, thousands per request: scale them for a learner
    (``gymnasium.wrappers.NormalizeReward``, or ``reward_scale`` of the SB3 adapter).

    | ``reward=`` | of a request that ends | return / window_s |
    |---|---|---|
    | goodput | prompt + output tokens, if it met both limits of the SLO (the default) | tps_within_slo |
    | output_goodput | output tokens of the same | output_tps_within_slo |
    | prefill_goodput | prompt tokens, if it met the limit of the first token | prefill_tps_within_slo |
    | decision_goodput | goodput, and ``info["credit"]``: (decision, tokens) pairs | tps_within_slo |
    | relative_goodput | goodput less that of ``reference`` in the same simulated time | difference of the two |
    | smooth | prompt + output tokens x min(1, limit / time) of either limit | - |
    | a function | ``function(ended, elapsed_s) -> float``; `ended` has ``envs.ENDED`` rows, as a recarray | - |

    The undiscounted return of an episode divided by ``window_s`` is exactly the score in the last column
    (``prefill_tps_within_slo`` counts also requests that got a first token and were never finished because their
    instance stayed away). *goodput* comes when a request ends, many decisions after its own:
    ``credit_to_decisions`` gives it back to the decision that routed the request, whose number in the episode
    ``info["credit"]`` tells. *relative_goodput* runs the reference once per trace and takes the arrivals' noise out
    of the return. A goodput rewards giving up a request that is late already; *smooth* does not. Whether a policy
    wins by sacrifice is seen in ``info["scores"]`` of the last step: ``sacrificed_share``,
    ``worst_session_attainment`` and ``largest_instance_share``, whatever the reward.

    ``info["reward_terms"]`` has these sums by name, and the number of scored requests that ``ended`` and were
    ``within_slo``. ``info["elapsed_s"]`` is the simulated time from the decision to the next one:
    ``discount(elapsed_s, per_s)`` discounts by it, since decisions are not evenly spaced.

    ## Starting State
    An empty cluster (or a warm one: ``cluster.warm``) at the first arrival of a trace. ``reset(seed=s)``
    seeds the environment's generator, which draws a trace seed for every episode (from ``pool``, if given);
    ``info["trace_seed"]`` tells it, ``info["instances"]`` the size of the cluster.
    ``reset(options={"trace_seed": n})`` takes this one, the workload that ``evaluate(seed=n)`` serves, so that several
    agents can meet the same requests (common random numbers); ``options={"trace": trace}`` takes a `Trace`.

    With a ``scenario`` every episode draws a cluster and a workload of its own from a scenario seed, which
    ``info["scenario_seed"]`` tells and ``reset(options={"scenario_seed": n})`` takes;
    ``ScenarioDistribution(name).draw(n)`` says what it stands for.

    ## Episode End
    After the last decision the cluster serves what is left, and the episode ends with that step.
    *Truncation*: the window ended; a generated workload would go on. This is nearly always so.
    *Termination*: a recorded trace was over before the window was: every request of it was issued, and
    nothing more can happen. ``info["scores"]`` then has every score of ``smetric_gym.scoring.SCORES``.

    ## Arguments
    The defaults (None) are those of ``smetric_gym.evaluate``, in ``conf/``.

    - ``workload``: name of a file of ``conf/workload``, a path, a `Trace`, or a function from a trace seed
      to a `Trace`. A path is read again for every new seed: ``workload=read_trace(path)`` reads it once.
    - ``load``: multiple of the workload's base rate.
    - ``cluster``: name of a file of ``conf/cluster``, a mapping of changes to the default one, or a
      `ClusterConfig`.
    - ``instances``, ``decode_instances``: size of the cluster.
    - ``global_tier``: capacity of the global tier, in multiples of the local ones together; 0 for none.
    - ``arrival_mode``: ``"closed"``, ``"causal"`` or ``"open"``.
    - ``warm_up_s``, ``window_s``: s that are not scored, and s that are.
    - ``slo``: ``"paper"``, ``"paper_v2"``, ``"relaxed"``, or an `SLO`.
    - ``scenario``: name of a file of ``conf/scenario`` (``train``, ``heldout``, ``one``), a mapping like it, or a
      `ScenarioDistribution`; other arguments hold for what it does not draw.
    - ``pool``: seeds that episodes are drawn from, or how many from 0 on. Their traces are kept, which saves
      drawing them again; None draws from all.
    - ``shuffle``: another order of the instances in every episode; None takes the scenario's (else False).
    - ``max_instances``: rows of the observation; None for what is needed.
    - ``reward``, ``observation``: see above. ``reference``: the policy that *relative_goodput* compares to.
    - ``render_mode``: ``"ansi"`` (a table) or ``"rgb_array"`` (a tile per instance), or None.
    - any other setting of ``evaluate``, with dots: ``**{"workload.turns_median": 8}``; but no ``policy`` (the
      agent is that), no ``seed`` (``reset`` takes it) and no ``debug``.

    The first use on a machine compiles the simulator, which takes about half a minute; later ones find it.

    >>> import gymnasium
    >>> env = gymnasium.make("smetric_gym:SMetric/Colocated-v0", instances=4, warm_up_s=0, window_s=60)
    >>> observation, info = env.reset(seed=0)
    >>> observation.shape
    (4, 21)

    ## Version History
    - v0: first version. The number rises whenever the same actions would score differently.
    """
