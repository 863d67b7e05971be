"""Lesson 8: a router as a weighted sum, trained by evolution."""

# /// script
# [tool.marimo.display]
# theme = "system"
# ///

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="8 Train a router")


@app.cell
def _():
    import marimo as mo
    import numpy as np

    from smetric_gym.agents.cmaes import Search
    from smetric_gym.agents.features import FEATURES
    from smetric_gym.agents.learned import learned
    from smetric_gym.agents.linear import REFERENCES, linear
    from smetric_gym.agents.policy import Policy
    from smetric_gym.errors import SmetricError
    from smetric_gym.lessons import lab
    from smetric_gym.lessons.charts import bars, lines, show
    from smetric_gym.lessons.claims import change, measured, percent, say
    from smetric_gym.lessons.exercise import Choice, Code, Number

    return (
        Choice,
        Code,
        FEATURES,
        Number,
        Policy,
        REFERENCES,
        Search,
        SmetricError,
        bars,
        change,
        lab,
        learned,
        linear,
        lines,
        measured,
        mo,
        np,
        percent,
        say,
        show,
    )


@app.cell
def _(FEATURES, REFERENCES, say):
    say(
        """
        # 8 Train a router

        *30 minutes. You will have trained a router, tested it on requests that it never saw, and said no more about
        it than the numbers allow.*

        ## Every router is a score

        A router gives each instance a score and takes the highest. The simplest score with something to learn is a
        weighted sum of **features**: numbers about an instance that mean the same in a cluster of any size.
        """,
        "| feature | what it is |\n|---|---|\n" + "\n".join(f"| `{name}` | {of} |" for name, of in FEATURES.items()),
        """
        The rules of the earlier lessons are such sums. The least product P·B is the least ln P + ln B, so **LMetric**
        is two weights. **Bailian's rule** is two weights. **SMetric** is a reward for sticking that no load
        outweighs, and the load:
        """,
        "\n".join(f"- `{name}`: {weights}" for name, weights in REFERENCES.items()),
        "Nothing in this lesson is the paper's: the learned router is this project's own experiment.",
    )
    return


@app.cell
def _(Policy, REFERENCES, lab, learned, linear, measured, percent, say):
    template = Policy(learned, linear(REFERENCES["lmetric"]), "learned").compile()

    def router(weights):
        """The policy of these weights; what is compiled is compiled once for all of them."""
        return template.with_params(linear(weights))

    alike = {
        name: lab.agreement(router(REFERENCES[name]), name, load=1.25)
        for name in ("smetric", "lmetric", "bailian", "load_balance")
    }
    say(
        measured(
            "Share of decisions that the sum and the rule take alike, asked at the same moments: "
            + ", ".join(f"`{name}` {percent(share, 1)}" for name, share in alike.items())
            + ". Where they differ several instances are equal, and each takes turns in its own way.",
            "300 decisions each, 8 instances, load 1.25, seed 0",
        )
    )
    return (router,)


@app.cell
def _(mo, say):
    NAMES = ("log_prefill_tokens", "log_batch", "miss", "stick_requests", "batch_of_mean")
    TRAIN_SEEDS, POPULATION = (0, 1), 8
    SHORT = {"load": 1.25, "warm_up_s": 200.0, "window_s": 300.0}
    generations = mo.ui.slider(1, 12, value=5, label="generations", show_value=True)
    begin = mo.ui.dropdown(["load_balance", "lmetric", "bailian"], value="load_balance", label="start from")
    say(
        f"""
        ## Train

        The gradient of "tokens within the SLO" is not to be had: choices are discrete and runs are chaotic.
        **CMA-ES** needs none. Each generation it draws {POPULATION} sets of weights around its present guess, runs
        each, and moves towards the better ones. All candidates meet the *same* requests (seeds
        {", ".join(map(str, TRAIN_SEEDS))}), or luck with the requests would decide. A candidate is worth its tokens
        within the SLO relative to LMetric's on the same requests.

        Five features take part: {", ".join(f"`{name}`" for name in NAMES)}.
        """
    )
    return NAMES, POPULATION, SHORT, TRAIN_SEEDS, begin, generations


@app.cell
def _(begin, generations, mo):
    mo.hstack([begin, generations], justify="start", gap=2)
    return


@app.cell
def _(
    NAMES,
    POPULATION,
    REFERENCES,
    SHORT,
    Search,
    SmetricError,
    TRAIN_SEEDS,
    begin,
    generations,
    lab,
    lines,
    measured,
    mo,
    np,
    router,
    say,
    show,
):
    def train(start, generations):
        """The best guess after each generation, and the values of every candidate relative to LMetric."""
        base = lab.over_seeds("lmetric", seeds=TRAIN_SEEDS, **SHORT)
        search = Search(
            [REFERENCES[start].get(name, 0.0) for name in NAMES], step=0.5, population=POPULATION, seed=1
        )
        for _ in range(generations):
            candidates = [router(dict(zip(NAMES, drawn, strict=True))) for drawn in search.ask()]
            search.tell([np.mean(lab.over_seeds(one, seeds=TRAIN_SEEDS, **SHORT) / base) for one in candidates])
        return dict(zip(NAMES, search.mean.tolist(), strict=True)), np.array(search.told)

    try:
        weights, told = train(begin.value, generations.value)
    except SmetricError as error:  # the package cma is missing
        mo.stop(True, mo.callout(str(error), kind="danger"))
    _at = np.arange(1, len(told) + 1)
    mo.vstack(
        [
            show(
                lines(
                    {"best candidate": (_at, told.max(axis=1)), "mean candidate": (_at, told.mean(axis=1))},
                    "generation",
                    "tokens within SLO / LMetric's",
                    dtick=1,
                ).update_yaxes(rangemode="normal")
            ),
            say(
                "What it arrived at: " + ", ".join(f"`{name}` {value:+.2f}" for name, value in weights.items()) + ".",
                measured(
                    f"""
                    The mean candidate went from {told[0].mean():.3f} to {told[-1].mean():.3f} of LMetric's tokens
                    within the SLO **on the seeds it was trained on**, in {told.size * len(TRAIN_SEEDS)} runs.
                    """,
                    "8 instances, load 1.25, tier 1.6, 5 minutes scored",
                ),
            ),
        ]
    )
    return (weights,)


@app.cell
def _(bars, change, lab, measured, mo, router, say, show, weights):
    TEST_SEEDS = (10, 11, 12, 13)
    HAND = ("smetric", "lmetric", "bailian", "load_balance")
    test = {"learned": lab.over_seeds(router(weights), seeds=TEST_SEEDS, load=1.25)} | {
        name: lab.over_seeds(name, seeds=TEST_SEEDS, load=1.25) for name in HAND
    }
    best_hand = max(HAND, key=lambda name: test[name].mean())
    against = test["learned"] / test[best_hand]
    mo.vstack(
        [
            say(
                f"""
                ## Test

                On requests that it never saw (seeds {TEST_SEEDS[0]} to {TEST_SEEDS[-1]}, twice as long), beside the
                rules.
                """
            ),
            show(
                bars(
                    {
                        name: {f"seed {seed}": value for seed, value in zip(TEST_SEEDS, values, strict=True)}
                        for name, values in test.items()
                    },
                    "tokens/s within SLO",
                )
            ),
            say(
                measured(
                    f"""
                    Mean over the test seeds:
                    {", ".join(f"`{name}` {values.mean():,.0f}" for name, values in test.items())}. Against the best
                    rule, `{best_hand}`, the learned one has {change(against.mean())}; by seed
                    {", ".join(change(value) for value in against)}.
                    """,
                    f"{lab.WORDS}, load 1.25, tier 1.6",
                ),
                """
                A score is easy to game. Before you trust a learned router, look at what it does to the *worst*
                requests, and try it at loads and sizes that it was not trained on:
                """,
                lab.table(
                    {
                        f"{name}, {n} instances": lab.run(one, load=1.25, seed=10, instances=n)
                        for n in (4, 16)
                        for name, one in (("learned", router(weights)), ("smetric", "smetric"), ("lmetric", "lmetric"))
                    },
                    ("largest_instance_share", "sacrificed_share", "ttft_p99_s", "tps_within_slo"),
                ),
            ),
        ]
    )
    return TEST_SEEDS, against, best_hand


@app.cell
def _(Code, lab, percent, router):
    def _examine(function):
        found = function()
        if not isinstance(found, dict):
            return "it must return a dict of feature names and weights."
        same = lab.agreement(router(found), "lmetric", load=1.25)
        if same < 0.99:
            return f"it chooses as LMetric does in {percent(same)} of 300 decisions only."
        return None

    exercise_1 = Code(
        question="""**Exercise 1.** LMetric sends a request to the instance with the least (un-prefilled tokens + new
        tokens) × (requests in flight + 1). Write it as weights of features. The highest score wins.""",
        name="weights",
        start='def weights():\n    return {"miss": -1.0}',
        answer='def weights():\n    return {"log_prefill_tokens": -1.0, "log_batch": -1.0}',
        examine=_examine,
        why="The logarithm makes the product a sum, the minus makes the least the highest. Any common factor will do.",
    )
    field_1 = exercise_1.field()
    return exercise_1, field_1


@app.cell
def _(exercise_1, field_1):
    exercise_1.show(field_1)
    return


@app.cell
def _(Number):
    _runs = 40 * 16 * 6
    exercise_2 = Number(
        question="""**Exercise 2.** A serious training: 40 generations of 16 candidates, each on 6 pairs of a seed and
        a load. How many hours does it take with one process, if a run takes 0.9 s?""",
        answer=_runs * 0.9 / 3600,
        unit="hours",
        hint="Count the runs first.",
        why=f"40 · 16 · 6 = {_runs:,} runs, {_runs * 0.9:,.0f} s. The simulator's speed decides what can be learned.",
        mistakes={40 * 16 * 0.9 / 3600: "each candidate runs 6 times."},
    )
    field_2 = exercise_2.field()
    return exercise_2, field_2


@app.cell
def _(exercise_2, field_2):
    exercise_2.show(field_2)
    return


@app.cell
def _(Choice, TEST_SEEDS, against, best_hand, change):
    _options = {
        "better": f"Not on every seed: {', '.join(change(v) for v in against)}.",
        "worse": f"Not on every seed: {', '.join(change(v) for v in against)}.",
        "these seeds do not tell": f"They all say the same: {', '.join(change(v) for v in against)}.",
    }
    _answer = "better" if (against > 1).all() else "worse" if (against < 1).all() else "these seeds do not tell"
    exercise_3 = Choice(
        question=f"""**Exercise 3.** Count it as known only if all {len(TEST_SEEDS)} test seeds agree. Is your learned
        router better than the best rule, `{best_hand}`?""",
        options=_options,
        answer=_answer,
        why=f"""By seed: {", ".join(change(value) for value in against)}. And mind that the best rule was picked on
        the test seeds, which flatters it, while the learned one was not.""",
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

        - Train on some requests, test on others, compare on the same. Everything else is luck.
        - A learned router is worth what it does at loads, sizes and workloads that it did not see:
        `smetric-gym train agent=cmaes` trains over many of them, and `smetric-gym heldout` tests there.
        """
    )
    return


if __name__ == "__main__":
    app.run()
