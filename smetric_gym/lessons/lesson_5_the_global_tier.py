"""Lesson 5: a second chance for every miss, and the links that it passes."""

# /// script
# [tool.marimo.display]
# theme = "system"
# ///

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="5 What a global tier buys")


@app.cell
def _():
    import marimo as mo
    import numpy as np

    from smetric_gym.lessons import lab
    from smetric_gym.lessons.charts import lines, show
    from smetric_gym.lessons.claims import change, measured, paper, percent, say, target
    from smetric_gym.lessons.exercise import Choice, Number

    return (
        Choice,
        Number,
        change,
        lab,
        lines,
        measured,
        mo,
        np,
        paper,
        percent,
        say,
        show,
        target,
    )


@app.cell
def _(say):
    say(
        """
        # 5 What a global tier buys

        *25 minutes. You will know when fetching beats computing, which router needs the tier most, and when its links
        are the bottleneck.*

        A global tier is memory of all servers together (Mooncake, LMCache): every prompt that was computed anywhere
        is kept there until it is the least recently used. An instance that misses fetches the KV through the NICs of
        its server and over PCIe, instead of computing it.

        ## Fetch or compute?
        """
    )
    return


@app.cell
def _(lab, mo):
    _cluster = lab.run("smetric").setup.cluster()
    _cluster.advance()
    TOKEN_S, PAIR_S = (float(_cluster.view[name][0]) for name in ("prefill_token_s", "prefill_pair_s"))
    KV_BYTES = float(_cluster.kv_bytes_per_token)

    def compute_s(tokens):
        """Seconds to compute a prompt from nothing on an idle instance: linear layers, and attention that grows."""
        return TOKEN_S * tokens + PAIR_S * tokens * tokens / 2

    def fetch_s(tokens, gbytes_per_s):
        """Seconds to move the KV of so many tokens over one NIC."""
        return tokens * KV_BYTES / (gbytes_per_s * 1e9)

    nic = mo.ui.slider(steps=(0.5, 1, 2.5, 5, 10, 25), value=10, label="GB/s of one NIC", show_value=True)
    return KV_BYTES, PAIR_S, TOKEN_S, compute_s, fetch_s, nic


@app.cell
def _(
    KV_BYTES,
    PAIR_S,
    TOKEN_S,
    compute_s,
    fetch_s,
    lines,
    mo,
    nic,
    np,
    say,
    show,
):
    _tokens = np.array([1, 2, 4, 8, 16, 32, 64, 128]) * 1000
    mo.vstack(
        [
            nic,
            show(
                lines(
                    {
                        "compute": (_tokens, compute_s(_tokens)),
                        f"fetch over one NIC of {nic.value:g} GB/s": (_tokens, fetch_s(_tokens, nic.value)),
                    },
                    "tokens",
                    "s (logarithmic)",
                    type="log",
                ).update_yaxes(type="log")
            ),
            say(
                f"""
                By formula, for Qwen3-Coder-30B on an H20: a token of KV is {KV_BYTES:,.0f} bytes; computing n tokens
                takes {1e6 * TOKEN_S:.1f} µs·n + {1e9 * PAIR_S:.2f} ns·n²/2. For 64,000 tokens that is
                {compute_s(64_000):.1f} s, against {fetch_s(64_000, nic.value):.2f} s to fetch them:
                {compute_s(64_000) / fetch_s(64_000, nic.value):.0f} times as long. PCIe and the first byte come on
                top, and so does **waiting**: eight instances share a server's NICs.
                """
            ),
        ]
    )
    return


@app.cell
def _(say):
    say(
        """
        ## Try it

        Load 1.25, 8 instances on one server. `blocking` is what LMCache does by default: the engine's step waits for
        the fetch, and the decodes beside it wait too.
        """
    )
    return


@app.cell
def _(mo):
    size = mo.ui.slider(steps=(0.0, 0.4, 0.8, 1.6, 3.2), value=1.6, label="tier (x local)", show_value=True)
    nics = mo.ui.slider(steps=(1, 2, 4, 8), value=4, label="NICs of the server", show_value=True)
    speed = mo.ui.slider(steps=(0.5, 1, 2.5, 5, 10, 25), value=10, label="GB/s of each", show_value=True)
    loads = mo.ui.dropdown(["blocking", "async"], value="blocking", label="fetches")
    mo.hstack([size, nics, speed, loads], justify="start", gap=2, wrap=True)
    return loads, nics, size, speed


@app.cell
def _(lab, loads, nics, say, size, speed):
    _links = {
        "cluster.nics_per_server": nics.value,
        "cluster.nic_bytes_per_s": speed.value * 1e9,
        "cluster.loads": loads.value,
    }
    live = {p: lab.run(p, load=1.25, global_tier=size.value, **_links) for p in ("smetric", "lmetric", "load_balance")}
    say(
        lab.table(
            live,
            ("local_hit_ratio", "global_hit_ratio", "global_read_peak_bytes_per_s", "ttft_p50_s", "tps_within_slo"),
        ),
        f"The links of the server carry {nics.value * speed.value:g} GB/s together.",
    )
    return


@app.cell
def _(change, lab, lines, measured, mo, paper, percent, say, show, target):
    SIZES, SEEDS, POLICIES = (0.0, 0.4, 0.8, 1.6, 3.2), (0, 1), ("smetric", "lmetric", "load_balance")
    by_size = {
        p: [lab.over_seeds(p, seeds=SEEDS, load=1.25, global_tier=one).mean() for one in SIZES] for p in POLICIES
    }
    gains = {p: values[-1] / values[0] for p, values in by_size.items()}
    most = max(gains, key=gains.get)
    mo.vstack(
        [
            say("## Size"),
            show(lines({p: (SIZES, v) for p, v in by_size.items()}, "tier (x local caches)", "tokens/s within SLO")),
            say(
                measured(
                    "From no tier to 3.2 times the local caches: "
                    + ", ".join(f"`{p}` {change(gain)}" for p, gain in gains.items())
                    + ". Who keeps sessions together already has locally what the others must fetch.",
                    f"{lab.WORDS}, load 1.25, mean of {len(SEEDS)} seeds",
                ),
                paper(
                    f"""
                    With a full tier load balance reaches {percent(target("C6"))} of the strongest baseline or more.
                    SMetric gains {percent(target("C12"))} to {percent(target("C13"))} over the strongest baseline
                    where there is a tier, and is within {percent(target("C14"))} of Bailian's rule where there is
                    none.
                    """,
                    "Figures 11 and 16, 32 instances",
                ),
            ),
        ]
    )
    return SEEDS, by_size, gains, most


@app.cell
def _(SEEDS, by_size, lab, lines, measured, mo, percent, say, show):
    SPEEDS = (0.5, 1.0, 2.5, 5.0, 10.0, 25.0)
    by_speed = {
        p: [lab.over_seeds(p, seeds=SEEDS, load=1.25, **{"cluster.nic_bytes_per_s": g * 1e9}).mean() for g in SPEEDS]
        for p in ("smetric", "load_balance")
    }
    without = {p: by_size[p][0] for p in by_speed}
    _worse = [p for p in by_speed if by_speed[p][0] < without[p]]
    mo.vstack(
        [
            say("## Links", "The same tier (1.6) behind slower and faster NICs, fetches blocking."),
            show(
                lines(
                    {p: (SPEEDS, v) for p, v in by_speed.items()},
                    "GB/s of each of 4 NICs",
                    "tokens/s within SLO",
                    type="log",
                )
            ),
            say(
                measured(
                    f"""
                    At 1 GB/s per NIC `load_balance` keeps
                    {percent(by_speed["load_balance"][1] / by_speed["load_balance"][4])} of what it has at 10 GB/s,
                    `smetric` {percent(by_speed["smetric"][1] / by_speed["smetric"][4])}. At 0.5 GB/s the tier is
                    worse than none for {" and ".join(f"`{p}`" for p in _worse) or "neither of them"}.
                    """,
                    f"{lab.WORDS}, load 1.25, tier 1.6, mean of {len(SEEDS)} seeds",
                ),
                """
                What the tier holds is fetched here, even when the link is so busy that computing would be quicker
                (`cluster.min_load_tokens` sets the only exception). Writes to the tier cost nothing in this
                simulator, so it is kinder to tiers than the world is.
                """,
            ),
        ]
    )
    return


@app.cell
def _(KV_BYTES, Number, fetch_s):
    exercise_1 = Number(
        question=f"""**Exercise 1.** How long does it take to fetch the KV of 32,000 tokens over one idle NIC of 10
        GB/s? One token is {KV_BYTES:,.0f} bytes.""",
        answer=fetch_s(32_000, 10),
        unit="s",
        hint="Bytes over bytes per second; a GB has 10^9 bytes.",
        why=f"32,000 · {KV_BYTES:,.0f} B = {32_000 * KV_BYTES / 1e9:.2f} GB, over 10 GB/s.",
        mistakes={8 * fetch_s(32_000, 10): "10 GB/s are gigabytes, not gigabits."},
    )
    field_1 = exercise_1.field()
    return exercise_1, field_1


@app.cell
def _(exercise_1, field_1):
    exercise_1.show(field_1)
    return


@app.cell
def _(Number, PAIR_S, TOKEN_S, compute_s, fetch_s):
    exercise_2 = Number(
        question=f"""**Exercise 2.** And how long does it take to compute them on an idle instance:
        {1e6 * TOKEN_S:.2f} µs per token and {1e9 * PAIR_S:.3f} ns for each pair of a token and one before it?""",
        answer=compute_s(32_000),
        unit="s",
        hint="There are n²/2 pairs: a token looks at those before it only.",
        why=f"""{TOKEN_S * 32_000:.2f} s for the linear layers and {PAIR_S * 32_000**2 / 2:.2f} s for attention.
        Fetching is {compute_s(32_000) / fetch_s(32_000, 10):.0f} times as fast.""",
        mistakes={
            TOKEN_S * 32_000: "attention is missing; at agent lengths it is no small term.",
            TOKEN_S * 32_000 + PAIR_S * 32_000**2: "a token looks at those before it only: half of all pairs.",
        },
    )
    field_2 = exercise_2.field()
    return exercise_2, field_2


@app.cell
def _(exercise_2, field_2):
    exercise_2.show(field_2)
    return


@app.cell
def _(Choice, change, gains, most):
    exercise_3 = Choice(
        question="**Exercise 3.** Which of the three routers gains most from the tier (from none to 3.2)?",
        options={p: f"It gains {change(gain)}; another one gains more." for p, gain in gains.items()},
        answer=most,
        why=f"""`{most}` goes {change(gains[most])}, since it finds least on its own instances. The tier makes routers
        more alike: with it, a wrong choice costs a fetch instead of a prefill.""",
    )
    field_3 = exercise_3.field()
    return exercise_3, field_3


@app.cell
def _(exercise_3, field_3):
    exercise_3.show(field_3)
    return


@app.cell
def _(say):
    say(
        """
        ## What to take along

        - At agent lengths a fetch is an order of magnitude cheaper than computing, as long as nobody else uses the
          link.
        - The tier helps most who needs it most. A router that keeps sessions together needs fewer fetches, and
          suffers less when links are slow.
        - Prefill and decode still disturb each other on one instance: **lesson 6** parts them.
        """
    )
    return


if __name__ == "__main__":
    app.run()
