"""Lesson 7: where SMetric's assumptions do not hold."""

# /// script
# [tool.marimo.display]
# theme = "system"
# ///

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="7 When SMetric is the wrong choice")


@app.cell
def _():
    from dataclasses import replace

    import marimo as mo
    import numpy as np

    from smetric_gym.lessons import lab
    from smetric_gym.lessons.charts import bars, show
    from smetric_gym.lessons.claims import change, measured, paper, percent, say, target
    from smetric_gym.lessons.exercise import Choice, Number
    from smetric_gym.workload.audit import audit

    return (
        Choice,
        Number,
        audit,
        bars,
        change,
        lab,
        measured,
        mo,
        np,
        paper,
        percent,
        replace,
        say,
        show,
        target,
    )


@app.cell
def _(paper, percent, say, target):
    say(
        """
        # 7 When SMetric is the wrong choice

        *25 minutes. You will have looked for situations in which SMetric loses, found some, and know how to see them
        coming.*

        A method is understood when one knows where it fails. SMetric assumes that follow-ups carry their history and
        say so, that the history is on one instance, that first turns are few, that a request count is a load, and
        that what the router sees is true now. We break these one at a time.
        """,
        paper(
            f"""
            SMetric gains {percent(target("C12"))} to {percent(target("C13"))} over the strongest baseline with a
            global tier, and without one is within {percent(target("C14"))} of Bailian's rule.
            """,
            "Figure 16, 32 instances",
        ),
    )
    return


@app.cell
def _(lab):
    SITUATIONS = {
        "agents as usual": {"load": 1.25},
        "no global tier": {"load": 1.25, "global_tier": 0.0},
        "past saturation": {"load": 2.0},
        "people who chat": {"load": 1.0, "workload": "chat"},
        "one-shot agents": {"load": 1.25, "workload.single_share": 0.9},
        "the view is 5 s old": {"load": 1.25, "cluster.view_lag_s": 5.0},
        "two fast instances of eight": {"load": 1.25, "cluster": "mixed"},
    }
    OTHERS, SEEDS = ("bailian", "lmetric", "load_balance"), (0, 1)
    worth = {
        name: {policy: lab.over_seeds(policy, seeds=SEEDS, **settings) for policy in ("smetric", *OTHERS)}
        for name, settings in SITUATIONS.items()
    }
    strongest = {name: max(OTHERS, key=lambda policy: of[policy].mean()) for name, of in worth.items()}
    gain = {name: of["smetric"] / of[strongest[name]] for name, of in worth.items()}
    return OTHERS, SEEDS, SITUATIONS, gain, strongest, worth


@app.cell
def _(
    OTHERS,
    SEEDS,
    SITUATIONS,
    bars,
    change,
    gain,
    lab,
    measured,
    mo,
    np,
    say,
    show,
    strongest,
):
    def verdict(name):
        """Whether all seeds say the same."""
        signs = set(np.sign(gain[name] - 1))
        if len(signs) > 1:
            return "the seeds disagree"
        return "ahead on all seeds" if signs == {1.0} else "behind on all seeds"

    def row(name):
        """A situation as the table says it."""
        by_seed = ", ".join(change(one) for one in gain[name])
        return f"| {name} | `{strongest[name]}` | {change(gain[name].mean())} | {by_seed} | {verdict(name)} |"

    _words = ("ahead on all seeds", "behind on all seeds", "the seeds disagree")
    _by = {word: [name for name in SITUATIONS if verdict(name) == word] for word in _words}
    mo.vstack(
        [
            say(
                """
                ## Seven situations

                Tokens within the SLO, against the strongest of Bailian's rule, LMetric and load balance.
                """
            ),
            show(
                bars(
                    {f"seed {seed}": {n: 100 * (g[k] - 1) for n, g in gain.items()} for k, seed in enumerate(SEEDS)},
                    "SMetric's gain (%)",
                )
            ),
            say(
                "| situation | strongest other | SMetric, mean | by seed | |\n|---|---|---:|---:|---|\n"
                + "\n".join(map(row, SITUATIONS)),
                measured(
                    "SMetric against the strongest other, "
                    + "; ".join(f"**{word}**: {', '.join(names)}" for word, names in _by.items() if names)
                    + ".",
                    f"{lab.WORDS}, tier 1.6 unless said, {len(SEEDS)} seeds",
                ),
                f"""
                Do not read this as a ranking of routers. {len(SEEDS)} seeds on 8 instances are few, "the strongest
                other" is chosen after the fact from {len(OTHERS)}, which flatters it, and the paper's cluster has 32
                instances. Read it as a list of what to test on *your* traffic.
                """,
            ),
        ]
    )
    return


@app.cell
def _(change, lab, measured, np, replace, say):
    _trace = lab.workload("trace1", load=1.25)
    _requests = _trace.requests.copy()
    _requests["messages"] = 0
    packed = replace(_trace, requests=_requests)
    hidden = {policy: lab.run_on(packed, policy) for policy in ("smetric", "load_balance", "lmetric", "session_sticky")}
    seen = {policy: lab.run(policy, load=1.25) for policy in hidden}
    same = float(np.mean(hidden["smetric"].outcome["instance"] == hidden["load_balance"].outcome["instance"]))
    say(
        """
        ## An agent that hides its history

        Some clients pack the whole conversation into *one* message. The tokens are the same and the caches work as
        before. But SMetric infers the turn from the number of messages, and there is none before.
        """,
        lab.table({f"{p}, told": r for p, r in seen.items()} | {f"{p}, packed": r for p, r in hidden.items()},
                  ("local_hit_ratio", "first_turn_return_ratio", "tps_within_slo")),
        measured(
            f"""
            Packed, SMetric has {change(hidden["smetric"]["tps_within_slo"] / seen["smetric"]["tps_within_slo"])}
            tokens within the SLO; LMetric, which looks at hits only,
            {change(hidden["lmetric"]["tps_within_slo"] / seen["lmetric"]["tps_within_slo"])}.
            """,
            f"{lab.WORDS}, load 1.25, tier 1.6, seed 0",
        ),
        "Nothing failed, nothing was logged. Only the hit ratio tells.",
    )
    return (same,)


@app.cell
def _(mo, say):
    workload = mo.ui.dropdown(["trace1", "trace2", "chat"], value="chat", label="workload")
    say(
        """
        ## See it coming: the audit

        Before you deploy, audit your traffic. It says which assumption holds, with a number.
        """
    )
    return (workload,)


@app.cell
def _(audit, lab, mo, say, workload):
    report = audit(lab.workload(workload.value, window_s=1800.0), instances=8, warm_up_s=300.0)
    mo.vstack([workload, say("\n".join(f"- {sentence}" for sentence in report.words()))])
    return


@app.cell
def _(Choice, percent, same):
    exercise_1 = Choice(
        question="**Exercise 1.** A client packs its history into one message. What does SMetric become for it?",
        options={
            "session stickiness": "It has no table of sessions to fall back on.",
            "load balance": "",
            "LMetric": "LMetric multiplies misses and load; SMetric falls back on the load alone.",
            "SMetric without guards": "That still sticks; here no request is a follow-up.",
        },
        answer="load balance",
        why=f"Every request looks like a first turn. Measured: the same choice for {percent(same, 1)} of the requests.",
    )
    field_1 = exercise_1.field()
    return exercise_1, field_1


@app.cell
def _(exercise_1, field_1):
    exercise_1.show(field_1)
    return


@app.cell
def _(Number, strongest, worth):
    _name = "no global tier"
    _best = strongest[_name]
    _percent = float(100 * (worth[_name]["smetric"][0] / worth[_name][_best][0] - 1))
    exercise_2 = Number(
        question=f"""**Exercise 2.** Without a global tier, at load 1.25 and seed 0, SMetric served
        {worth[_name]["smetric"][0]:,.0f} tokens/s within the SLO and `{_best}` {worth[_name][_best][0]:,.0f}. What is
        SMetric's gain over it in percent? Negative if it is behind.""",
        answer=_percent,
        unit="%",
        hint="Ratio to the other, less 1.",
        why=f"{worth[_name]['smetric'][0]:,.0f} / {worth[_name][_best][0]:,.0f} - 1 = {_percent:.1f} %.",
        mistakes={-_percent: "the sign says who is ahead.", _percent / 100: "a percentage was asked for."},
    )
    field_2 = exercise_2.field()
    return exercise_2, field_2


@app.cell
def _(exercise_2, field_2):
    exercise_2.show(field_2)
    return


@app.cell
def _(Choice):
    exercise_3 = Choice(
        question="""**Exercise 3.** Your agent rewrites its history before each turn (it re-orders files and drops
        tool results), but still sends it as messages. Follow-ups then share only the system prompt with what is
        cached. What does SMetric do with them?""",
        options={
            "it sticks them to the instance with the system prompt": "That is what HIT_RATIO prevents: the prompt "
            "is far less than half of the history.",
            "it takes them for evicted sessions and balances them": "",
            "it takes them for first turns": "They carry messages. It ends alike, for another reason.",
            "it overloads their instance": "They are not sent to one instance at all.",
        },
        answer="it takes them for evicted sessions and balances them",
        why="""`c[s] > HIT_RATIO * est_hit` fails: the history promises a hit that no cache can give. For such an
        agent that is even right, there is nothing to stick to. In the audit it is the line on kept histories.""",
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

        - Where a method stands depends on load, tier, workload and what is counted. Show the sweep, not the point.
        - A silent failure (packed histories) costs more than a slow one. Watch the hit ratio.
        - No hand-written rule is best everywhere. **Lesson 8** asks whether one can be learned.
        """
    )
    return


if __name__ == "__main__":
    app.run()
