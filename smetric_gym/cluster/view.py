"""What a router sees at a decision: one record per instance, one for the request. Nothing else."""

from __future__ import annotations

import numpy as np

VIEW = np.dtype(
    [
        (name, np.float32)
        for name in (
            "local_hit_tokens",  # prompt tokens of this request in the instance's own KV cache
            "in_flight",  # requests routed to it and not complete (colocated) or not handed over (prefill)
            "running",  # of these, in the engine's running batch
            "waiting",  # of these, in the engine's waiting queue
            "in_flight_tokens",  # prompt tokens of the requests in flight
            "unprefilled_tokens",  # prompt tokens in flight whose KV is not yet on the instance
            "unprefilled_s",  # s of prefill work that these are, by the cost model below
            "kv_use",  # share of the KV blocks that running requests use, 0..1
            "capacity_tokens",  # tokens of the KV cache
            "prefill_token_s",  # s per new token, and
            "prefill_pair_s",  # s per (new x context token): n new of L tokens cost token_s*n + pair_s*n*(L - n/2)
            "routed",  # requests routed to it since the start
            "alive",  # 1 when it may be chosen
        )
    ]
)

REQUEST_VIEW = np.dtype(
    [
        ("prompt_tokens", np.float32),
        (
            "turn",
            np.float32,
        ),  # 0 when the payload carries no history: the number of historical messages decides
        ("messages", np.float32),  # historical messages in the payload
        ("history_tokens", np.float32),  # tokens of those messages: what an unevicted session would hit
        ("global_hit_tokens", np.float32),  # prompt tokens found in the global tier
        ("ttft_limit_s", np.float32),  # the SLO of this request
        ("time_s", np.float32),  # simulated time
        ("session", np.float32),  # id for sticky baselines; SMetric does not read it
    ]
)
