"""Lesson 2: the two failures of a router, on a live cluster."""

# /// script
# [tool.marimo.display]
# theme = "system"
# ///

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="2 Cache against balance")


@app.cell
def _():
    import marimo as mo

    from smetric_gym.lessons import lab
    from smetric_gym.lessons.charts import instances, lines, show
    from smetric_gym.lessons.claims import measured, paper, percent, say, target
    from smetric_gym.lessons.exercise import Choice, Number

    return (
        Choice,
        Number,
        instances,
        lab,
        lines,
        measured,
        mo,
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
        # 2 Cache against balance

        *25 minutes. You will have seen a cluster drown and a cluster waste its work, and know the knob between the
        two.*

        Bailian's production rule scores every instance and takes the lowest:

        ```
        lambda * (1 - hit) + (1 - lambda) * load
        ```

        `hit` is the share of the prompt that the instance holds, `load` its requests in flight relative to the fullest
        instance. lambda = 0 only balances, lambda = 1 only follows the cache. Move it and watch.
        """
    )
    return


@app.cell
def _(mo):
    LAMBDAS = (0.0, 0.25, 0.5, 0.7, 0.9, 1.0)
    lam = mo.ui.slider(steps=LAMBDAS, value=1.0, label="lambda", show_value=True)
    load = mo.ui.slider(steps=(0.5, 0.75, 1.0, 1.25, 1.5, 2.0), value=1.25, label="load", show_value=True)
    tier = mo.ui.dropdown({"none": 0.0, "1.6 times the local caches": 1.6}, value="none", label="global tier")
    mo.hstack([lam, load, tier], justify="start", gap=2, wrap=True)
    return LAMBDAS, lam, load, tier


@app.cell
def _(instances, lab, lam, load, mo, say, show, tier):
    live = lab.run("bailian", load=load.value, global_tier=tier.value, **{"policy.lam": lam.value})
    mo.vstack(
        [
            show(instances(live)),
            say(
                lab.table(
                    {f"lambda {lam.value:g}": live},
                    ("local_hit_ratio", "load_imbalance", "largest_instance_share", "ttft_p50_s", "tps_within_slo"),
                    "now",
                ),
                """
                One row per instance, time from left to right, the colour says how many prompt tokens are in flight
                there; right of the dotted line is scored. **Drowned**: one row is bright for minutes while others are
                dark. **Wasted**: all rows are equally bright, because everybody computes what a neighbour already
                has.
                """,
            ),
        ]
    )
    return


@app.cell
def _(LAMBDAS, lab, lines, load, mo, say, show, tier):
    sweep = {
        value: lab.run("bailian", load=load.value, global_tier=tier.value, **{"policy.lam": value}) for value in LAMBDAS
    }
    _tps = [run["tps_within_slo"] for run in sweep.values()]
    _hit = [100 * run["local_hit_ratio"] for run in sweep.values()]
    _imbalance = [run["load_imbalance"] for run in sweep.values()]
    mo.vstack(
        [
            say("## The whole knob", "At the load and tier chosen above, seed 0."),
            mo.hstack(
                [
                    show(lines({"local hit (%)": (LAMBDAS, _hit)}, "lambda", "local hit (%)")),
                    show(lines({"max/mean": (LAMBDAS, _imbalance)}, "lambda", "max/mean load")),
                ],
                widths="equal",
            ),
            show(lines({"TPS within SLO": (LAMBDAS, _tps)}, "lambda", "tokens/s within SLO")),
        ]
    )
    return


@app.cell
def _(LAMBDAS, lab, measured, paper, percent, say, target):
    FIXED = {"load": 1.25, "global_tier": 0.0}
    BLOCKS = 184_370  # of 16 tokens: ten times what an H20 holds beside this model
    both = {
        "only balance": lab.means("load_balance", **FIXED),
        "only cache": lab.means("bailian", **FIXED, **{"policy.lam": 1.0}),
    }
    roomy = lab.means("bailian", **FIXED, **{"policy.lam": 1.0, "cluster.kv_blocks": BLOCKS})
    means = {value: lab.means("bailian", **FIXED, **{"policy.lam": value}) for value in LAMBDAS}
    best = max(means, key=lambda value: means[value]["tps_within_slo"])
    _ends = max(means[0.0]["tps_within_slo"], means[1.0]["tps_within_slo"])
    say(
        """
        ## The two failures, side by side
        """,
        lab.table(both, ("local_hit_ratio", "load_imbalance", "ttft_p50_s", "ttft_p90_s", "tps_within_slo")),
        measured(
            f"""
            Balance alone finds {percent(both["only balance"]["local_hit_ratio"])} of the prompt tokens on the
            instance. The cache alone finds only {percent(both["only cache"]["local_hit_ratio"])} too: the instance
            that everybody follows has no room for all of them. With ten times the memory it would find
            {percent(roomy["local_hit_ratio"])}. The fullest instance has {both["only balance"]["load_imbalance"]:.1f}
            and {both["only cache"]["load_imbalance"]:.1f} times the mean load. lambda = {best:g} serves
            {means[best]["tps_within_slo"] / _ends:.1f} times the tokens of the better end.
            """,
            f"{lab.WORDS}, load 1.25, no global tier, mean of {len(lab.SEEDS)} seeds",
        ),
        paper(
            f"""
            With little or no global tier, load balance finds {percent(target("C3"))} of the prompt tokens on the
            instance, LMetric {percent(target("C2"))}, Bailian's rule {percent(target("C1"))}. The fullest instance
            gets {target("C7"):g} times the mean number of tokens per minute under load balance, {target("C9"):g}
            under Bailian's rule and {target("C8"):g} under LMetric.
            """,
            "Figure 11, 32 instances",
        ),
        """
        Mind the sizes: the paper has 32 instances, you have 8, and on 8 even a random choice finds the session again
        in one case of eight.
        """,
    )
    return best, means


@app.cell
def _(Number):
    _hit_a, _hit_b, _load_a, _load_b = 0.9, 0.1, 6 / 6, 1 / 6
    _lam = (_load_a - _load_b) / ((_load_a - _load_b) + (_hit_a - _hit_b))
    exercise_1 = Number(
        question="""**Exercise 1.** A prompt of 20,000 tokens. Instance A holds 18,000 of them and has 6 requests in
        flight, the most of all. Instance B holds 2,000 and has 1 request. From which lambda on does Bailian's rule
        choose A?""",
        answer=_lam,
        unit="lambda",
        hint="Write both scores with lambda in them, set them equal, and solve. The loads are 6/6 and 1/6.",
        why=f"A: λ·0.1 + (1 - λ)·1. B: λ·0.9 + (1 - λ)/6. They are equal at λ = (5/6) / (5/6 + 0.8) = {_lam:.3f}.",
        mistakes={0.5: "the two terms do not weigh the same: the loads differ by 5/6, the hits by 0.8."},
        within=0.01,
    )
    field_1 = exercise_1.field()
    return exercise_1, field_1


@app.cell
def _(exercise_1, field_1):
    exercise_1.show(field_1)
    return


@app.cell
def _(LAMBDAS, Number, best, lab, means):
    exercise_2 = Number(
        question=f"""**Exercise 2.** Which of the stops of the slider ({", ".join(f"{v:g}" for v in LAMBDAS)}) serves
        most tokens within the SLO at load 1.25 without a tier, on average over the seeds
        {", ".join(map(str, lab.SEEDS))}? The live pictures show seed 0 only; try its neighbours too.""",
        answer=best,
        unit="lambda",
        within=0.01,
        hint="Set load 1.25 and no tier, and look at the peak of the lowest chart.",
        why="Means in tokens/s: " + ", ".join(f"λ {v:g}: {means[v]['tps_within_slo']:,.0f}" for v in LAMBDAS) + ".",
    )
    field_2 = exercise_2.field()
    return exercise_2, field_2


@app.cell
def _(exercise_2, field_2):
    exercise_2.show(field_2)
    return


@app.cell
def _(Choice, lab, means):
    _with = {value: lab.means("bailian", load=1.25, **{"policy.lam": value})["tps_within_slo"] for value in (0.0, 1.0)}
    _gain = {value: _with[value] / means[value]["tps_within_slo"] for value in (0.0, 1.0)}
    _names = {0.0: "the waste of balancing only", 1.0: "the drowning of following the cache only"}
    _more = max(_gain, key=_gain.get)
    exercise_3 = Choice(
        question="""**Exercise 3.** You add a global tier of 1.6 times the local caches: what an instance does not
        hold may be fetched over the network. Which failure does that mend most? Guess, then try it above.""",
        options={
            name: f"It becomes {_gain[value]:.1f} times as good, the other {_gain[1.0 - value]:.1f} times."
            for value, name in _names.items()
        },
        answer=_names[_more],
        why=f"""At lambda 0 the tier gives {_gain[0.0]:.1f} times the tokens within the SLO, at lambda 1
        {_gain[1.0]:.1f} times (mean of {len(lab.SEEDS)} seeds). A fetch replaces computing; it does not shorten a
        queue.""",
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

        - Both ends of the knob fail, and for different reasons. The best place between them depends on load and tier,
          so a fixed weight has to be tuned again and again.
        - The question per request, *cache or balance?*, may be the wrong one. **Lesson 3** asks it per session.
        """
    )
    return


if __name__ == "__main__":
    app.run()
