"""Named synthetic workloads, fitted to published statistics of traffic, never to a result of a policy."""

from __future__ import annotations

from smetric_gym.workload.synthetic import SyntheticConfig

PRESETS: dict[str, SyntheticConfig] = {
    "trace1": SyntheticConfig(name="trace1"),
    "trace2": SyntheticConfig(
        name="trace2",
        system_tokens=(5800, 4950, 6200, 4300),
        human_share=0.03,
        single_share=0.14,
        compact_share=0.06,
        edit_share=0.15,
        paste_share=0.25,
    ),
    "chat": SyntheticConfig(
        name="chat",
        requests_per_minute=60.0,
        system_tokens=(900, 700, 500),
        single_share=0.82,
        stateless_share=0.08,
        turns_median=2.5,
        turns_sigma=0.8,
        growth_sigma=0.4,
        first_median=500.0,
        first_sigma=1.2,
        paste_share=0.06,
        paste_median=8000.0,
        paste_sigma=0.9,
        human_share=0.95,
        human_tokens_median=250.0,
        human_tokens_sigma=1.2,
        output_median=350.0,
        output_sigma=0.9,
        fork_share=0.01,
        edit_share=0.05,
        compact_share=0.005,
    ),
}
"""``trace1`` and ``trace2``: the two coding-agent traces of SMetric section 3. ``chat``: people and mostly
single turns, 54 to 62 % ideal reuse as the chat and API traces of "KVCache Cache in the Wild" (ATC'25);
answers near Mooncake's p50 350."""
