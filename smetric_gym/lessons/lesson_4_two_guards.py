"""Lesson 4: when a session may leave its instance."""

# /// script
# [tool.marimo.display]
# theme = "system"
# ///

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="4 Two guards")


@app.cell
def _():
    from math import inf

    import marimo as mo
    import numpy as np

    from smetric_gym.agents.policy import load_policy
    from smetric_gym.lessons import lab
    from smetric_gym.lessons.charts import plane, show
    from smetric_gym.lessons.claims import change, measured, paper, percent, say, target
    from smetric_gym.lessons.exercise import Choice, Number

    return (
        Choice,
        Number,
        change,
        inf,
        lab,
        load_policy,
        measured,
        mo,
        np,
        paper,
        percent,
        plane,
        say,
        show,
        target,
    )


@app.cell
def _(say):
    say(
        """
        # 4 Two guards

        *25 minutes. You will know what the two thresholds of SMetric do, when they fire, and how to tell an effect
        from noise.*

        A follow-up stays on the instance `s` with the most of its history unless

        - `l[s] > OVERLOAD * mean(l)`: the instance is **overloaded**, or
        - `c[s] <= HIT_RATIO * est_hit`: the session was **evicted** there.

        Then it goes to the least loaded instance, and what it needs is fetched or computed.
        """
    )
    return


@app.cell
def _(inf, mo):
    OVERLOADS, HIT_RATIOS, SEEDS = (1.0, 1.5, 2.0, inf), (0.0, 0.25, 0.5, 0.75), (0, 1)
    load = mo.ui.slider(steps=(0.5, 0.75, 1.0, 1.25, 1.5), value=1.0, label="load", show_value=True)
    overload = mo.ui.slider(steps=(1.0, 1.25, 1.5, 2.0, 3.0, 4.0), value=2.0, label="OVERLOAD", show_value=True)
    hit_ratio = mo.ui.slider(steps=(0.0, 0.25, 0.5, 0.75, 0.9), value=0.5, label="HIT_RATIO", show_value=True)
    mo.hstack([load, overload, hit_ratio], justify="start", gap=2, wrap=True)
    return HIT_RATIOS, OVERLOADS, SEEDS, hit_ratio, load, overload


@app.cell
def _(hit_ratio, lab, load, measured, overload, say):
    SHOWN = (
        "overload_fallbacks", "eviction_fallbacks", "local_hit_ratio", "load_imbalance", "ttft_p90_s", "tps_within_slo",
    )  # fmt: skip
    now = lab.run(
        "smetric",
        load=load.value,
        **{"policy.overload": overload.value, "policy.hit_ratio": hit_ratio.value},
    )
    free = lab.run("smetric_basic", load=load.value)
    followers = len(now.scored.follow_ups[0])
    by_load = {one: lab.run("smetric", load=one)["overload_fallbacks"] for one in (0.5, 1.0, 1.5)}
    say(
        "## How often do they fire?",
        lab.table({"with these guards": now, "without any": free}, SHOWN, "SMetric"),
        f"""
        Of {followers:,} scored follow-ups, {now["overload_fallbacks"]:,} left an overloaded instance and
        {now["eviction_fallbacks"]:,} one that had evicted their session.
        """,
        measured(
            f"""
            At the default OVERLOAD of 2, {", ".join(f"{fired} at load {one:g}" for one, fired in by_load.items())}
            left an overloaded instance. With few requests per instance the mean is small and a few requests more are
            twice the mean; when every instance is busy, nobody has twice the mean.
            """,
            f"{lab.WORDS}, tier 1.6, seed 0",
        ),
    )
    return


@app.cell
def _(
    HIT_RATIOS,
    OVERLOADS,
    SEEDS,
    change,
    lab,
    load,
    measured,
    mo,
    np,
    paper,
    percent,
    plane,
    say,
    show,
    target,
):
    grid = {
        (h, o): lab.over_seeds(
            "smetric", seeds=SEEDS, load=load.value, **{"policy.overload": o, "policy.hit_ratio": h}
        )
        for h in HIT_RATIOS
        for o in OVERLOADS
    }
    default = grid[0.5, 2.0]
    _z = np.array([[grid[h, o].mean() for o in OVERLOADS] for h in HIT_RATIOS])
    along_overload = max(abs(grid[0.5, o].mean() / default.mean() - 1) for o in OVERLOADS)
    along_hit_ratio = max(abs(grid[h, 2.0].mean() / default.mean() - 1) for h in HIT_RATIOS)
    between_seeds = float(np.ptp(default) / default.mean())
    _best = max(grid, key=lambda pair: grid[pair].mean())
    mo.vstack(
        [
            say(
                "## The plane",
                f"Tokens/s within the SLO at load {load.value:g}, mean of {len(SEEDS)} seeds. The default is (2, 0.5).",
            ),
            show(plane(_z, OVERLOADS, HIT_RATIOS, x_label="OVERLOAD", y_label="HIT_RATIO", unit="tokens/s")),
            say(
                measured(
                    f"""
                    Along OVERLOAD the largest change from the default is {percent(along_overload, 1)}, along
                    HIT_RATIO {percent(along_hit_ratio, 1)}. The best pair is OVERLOAD {_best[1]:g}, HIT_RATIO
                    {_best[0]:g} ({change(grid[_best].mean() / default.mean())}). The default alone differs by
                    {percent(between_seeds, 1)} between the two seeds.
                    """,
                    f"{lab.WORDS}, load {load.value:g}, tier 1.6, {len(SEEDS)} seeds",
                ),
                paper(
                    f"""
                    OVERLOAD from 1 to infinity changes the tokens within the SLO by {percent(target("C37"))} at most,
                    HIT_RATIO from 0 to 0.75 by {percent(target("C38"))}; the share of reused tokens stays at 75 to 76
                    %.
                    """,
                    "Figure 25, 32 instances",
                ),
                """
                **Effect or noise?** A pair that looks best on two seeds need not be best on the next two. What helps:
                the same requests for all (they are), the difference *per seed*, more seeds. What does not: picking
                the best field.
                """,
            ),
        ]
    )
    return


@app.cell
def _(lab, load, measured, paper, say, target):
    _rows = {
        "both": lab.means("smetric", load=load.value),
        "overload only": lab.means("smetric_overload_guard", load=load.value),
        "eviction only": lab.means("smetric_eviction_guard", load=load.value),
        "none": lab.means("smetric_basic", load=load.value),
    }
    say(
        "## One guard at a time",
        lab.table(_rows, ("load_imbalance", "ttft_p90_s", "ttft_p99_s", "tpot_p95_s", "tps_within_slo"), "guards"),
        paper(
            f"""
            Without guards the 90th percentile of TTFT is {target("C30"):g} s, with them {target("C28"):g} s; the 99th
            {target("C31"):g} s and {target("C29"):g} s; the 95th percentile of TPOT {1000 * target("C33"):.1f} ms and
            {1000 * target("C32"):.1f} ms.
            """,
            "Figure 24, 32 instances at load 1.5",
        ),
        measured(
            f"""
            Here the 90th percentile of TTFT is {_rows["none"]["ttft_p90_s"]:.1f} s without guards and
            {_rows["both"]["ttft_p90_s"]:.1f} s with them, the 99th {_rows["none"]["ttft_p99_s"]:.1f} s and
            {_rows["both"]["ttft_p99_s"]:.1f} s.
            """,
            f"{lab.WORDS}, load {load.value:g}, tier 1.6, mean of {len(lab.SEEDS)} seeds",
        ),
    )
    return


@app.cell
def _(Choice, inf, lab, load_policy, percent):
    _same = lab.agreement(load_policy("smetric", overload=inf, hit_ratio=0.0), "smetric_basic", load=1.0)
    exercise_1 = Choice(
        question="**Exercise 1.** Set OVERLOAD to infinity and HIT_RATIO to 0. Which policy is left?",
        options={
            "load balance": "A follow-up that finds its history still goes there.",
            "SMetric without guards": "",
            "session stickiness by a table": "Where the cache lies decides, not where the session began.",
            "Bailian's rule with lambda 1": "First turns go to the least load; with lambda 1 they follow the cache.",
        },
        answer="SMetric without guards",
        why=f"""No load is above infinity times the mean, and any hit is above 0. Measured: the two choose the same
        instance for {percent(_same, 1)} of the requests (load 1, seed 0).""",
    )
    field_1 = exercise_1.field()
    return exercise_1, field_1


@app.cell
def _(exercise_1, field_1):
    exercise_1.show(field_1)
    return


@app.cell
def _(Number, np):
    _loads = np.array([3, 9, 2, 2, 4, 4, 2, 6])
    _over = int((_loads > 1.5 * _loads.mean()).sum())
    exercise_2 = Number(
        question=f"""**Exercise 2.** Eight instances have {", ".join(map(str, _loads))} requests in flight; OVERLOAD
        is 1.5. On how many of them may a session not stay?""",
        answer=_over,
        unit="instances",
        within=0.01,
        hint="Compare every load with 1.5 times the mean of all eight. At equality a session may stay.",
        why=f"""The mean is {_loads.mean():g}, the limit {1.5 * _loads.mean():g}. Only loads above it are refused: the
        9. The 6 stands exactly at the limit and may stay.""",
        mistakes={float((_loads >= 1.5 * _loads.mean()).sum()): "at equality the session may stay: the test is `<=`."},
    )
    field_2 = exercise_2.field()
    return exercise_2, field_2


@app.cell
def _(exercise_2, field_2):
    exercise_2.show(field_2)
    return


@app.cell
def _(Number, lab):
    _run = lab.run("smetric", load=1.25)
    _followers = len(_run.scored.follow_ups[0])
    _share = 100 * _run["eviction_fallbacks"] / _followers
    exercise_3 = Number(
        question=f"""**Exercise 3.** Set load 1.25 and the default guards. What percentage of the {_followers:,}
        scored follow-ups found their session evicted?""",
        answer=_share,
        unit="%",
        hint="The table above says how many; divide by the number of follow-ups.",
        why=f"{_run['eviction_fallbacks']} of {_followers:,} follow-ups are {_share:.1f} %.",
        mistakes={
            100 * _run["eviction_fallbacks"] / _run["requests"]: "that is the share of all requests, first turns too.",
            _share / 100: "a percentage was asked for.",
        },
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

        - The guards are for rare moments. Their thresholds matter little on average, which is what one wants of them.
        - A difference that is smaller than what another seed does is no finding.
        - A session that leaves needs its history elsewhere: **lesson 5**.
        """
    )
    return


if __name__ == "__main__":
    app.run()
