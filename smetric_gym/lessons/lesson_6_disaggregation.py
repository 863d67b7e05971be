"""Lesson 6: prefill and decode on instances of their own."""

# /// script
# [tool.marimo.display]
# theme = "system"
# ///

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="6 Disaggregation")


@app.cell
def _():
    import marimo as mo
    import numpy as np

    from smetric_gym.lessons import lab
    from smetric_gym.lessons.charts import bars, show
    from smetric_gym.lessons.claims import change, measured, paper, percent, say, target
    from smetric_gym.lessons.exercise import Choice, Number

    return (
        Choice,
        Number,
        bars,
        change,
        lab,
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
        # 6 Disaggregation

        *25 minutes. You will know what parting prefill from decode calms, what it costs, and why the split decides.*

        On one instance a long prefill makes every decode beside it wait: TPOT suffers. **Disaggregation** gives
        prefill and decode instances of their own. The router chooses the prefill instance; when the prompt is done
        its KV moves to a decode instance, chosen by least load here, and the answer is generated there. The router
        follows the caches of the prefill side.

        All set-ups below have 8 GPUs and serve the same requests. `6 + 2` is 6 for prefill, 2 for decode.
        """
    )
    return


@app.cell
def _(mo):
    SPLITS = {"8 colocated": (8, 0), "6 + 2": (6, 2), "5 + 3": (5, 3), "4 + 4": (4, 4)}

    def split(name, load):
        """The settings of a split; the load is per instance that takes requests, so that all get the same requests."""
        takes, decodes = SPLITS[name]
        settings = {"instances": takes, "load": load * 8 / takes}
        if decodes:
            settings |= {"cluster": "disaggregated", "cluster.decode_instances": decodes}
        return settings

    load = mo.ui.slider(steps=(0.5, 0.75, 1.0, 1.25), value=1.0, label="load (of 8 colocated)", show_value=True)
    policy = mo.ui.dropdown(["smetric", "lmetric", "bailian", "load_balance"], value="smetric", label="policy")
    mo.hstack([load, policy], justify="start", gap=2)
    return SPLITS, load, policy, split


@app.cell
def _(SPLITS, bars, lab, load, mo, np, policy, say, show, split):
    runs = {name: lab.run(policy.value, **split(name, load.value)) for name in SPLITS}
    _prompts = [one.trace.requests["prompt"] for one in runs.values()]
    _same = all(np.array_equal(_prompts[0], prompts) for prompts in _prompts)
    mo.vstack(
        [
            say(
                lab.table(
                    runs,
                    ("ttft_p50_s", "ttft_p90_s", "tpot_p90_s", "preemptions", "tps_within_slo"),
                    "GPUs",
                ),
                f"All four serve {'the same' if _same else 'DIFFERENT'} requests.",
            ),
            mo.hstack(
                [
                    show(bars({"TTFT p50": {n: r["ttft_p50_s"] for n, r in runs.items()}}, "TTFT p50 (s)")),
                    show(bars({"TPOT p90": {n: 1000 * r["tpot_p90_s"] for n, r in runs.items()}}, "TPOT p90 (ms)")),
                ],
                widths="equal",
            ),
        ]
    )
    return


@app.cell
def _(SPLITS, change, lab, measured, paper, percent, say, split, target):
    SEEDS = (0, 1)
    table = {name: lab.means("smetric", seeds=SEEDS, **split(name, 1.0)) for name in SPLITS}
    ours = {name: table[name]["tps_within_slo"] for name in SPLITS}
    best = max(ours, key=ours.get)
    disaggregated = max(list(SPLITS)[1:], key=ours.get)
    say(
        """
        ## The split decides
        """,
        lab.table(
            table, ("ttft_p90_s", "tpot_p90_s", "slo_attainment", "prefill_tps_within_slo", "tps_within_slo"), "GPUs"
        ),
        measured(
            f"""
            Counted by whole answers within the SLO, {best} is best. The best disaggregated split, {disaggregated},
            has {change(ours[disaggregated] / ours["8 colocated"])} against 8 colocated. Counted by prefill alone
            (prompts whose first token came in time) it has
            {change(table[disaggregated]["prefill_tps_within_slo"] / table["8 colocated"]["prefill_tps_within_slo"])}.
            """,
            f"SMetric, 8 GPUs, load 1, tier 1.6, mean of {len(SEEDS)} seeds",
        ),
        paper(
            f"""
            On the prefill side of a disaggregated cluster SMetric gains {percent(target("D1"))} to
            {percent(target("D2"))} in prefill tokens within the SLO over the strongest baseline, depending on the
            tier. The paper says nothing of the decode side.
            """,
            "Figure 22, 32 prefill instances",
        ),
        """
        So the two cannot be compared directly: which number you count decides what you find. That is why the gym
        reports both.
        """,
    )
    return SEEDS, disaggregated, table


@app.cell
def _(change, lab, measured, np, paper, say, split):
    KINDS = ("requests", "unprefilled_tokens")
    by_kind = {
        kind: lab.means("smetric", **split("5 + 3", 1.0), **{"policy.load": kind}) for kind in KINDS
    }
    _ratio = by_kind["unprefilled_tokens"]["prefill_tps_within_slo"] / by_kind["requests"]["prefill_tps_within_slo"]
    _per_seed = lab.over_seeds(
        "smetric", "prefill_tps_within_slo", **split("5 + 3", 1.0), **{"policy.load": "unprefilled_tokens"}
    ) / lab.over_seeds("smetric", "prefill_tps_within_slo", **split("5 + 3", 1.0), **{"policy.load": "requests"})
    _agree = (
        "All seeds agree on the sign."
        if len(set(np.sign(_per_seed - 1))) == 1
        else "The seeds disagree on the sign, so this does not tell which is better."
    )
    say(
        """
        ## What is load now?

        A prefill instance has no decodes. What keeps it busy are prompt tokens whose KV is not there yet, so SMetric
        counts *those* as the load of a prefill instance, instead of requests.
        """,
        lab.table(by_kind, ("load_imbalance", "overload_fallbacks", "ttft_p50_s", "prefill_tps_within_slo"), "load is"),
        measured(
            f"""
            Counting un-prefilled tokens instead of requests: {change(_ratio)} prefill tokens within the SLO; by seed
            {", ".join(change(value) for value in _per_seed)}. {_agree}
            """,
            f"SMetric on 5 + 3, load 1, {len(lab.SEEDS)} seeds",
        ),
        paper("Disaggregated, the load is the un-prefilled tokens; colocated, the request count.", "section 4.2"),
    )
    return


@app.cell
def _(lab, say, split):
    _run = lab.run("smetric", **split("5 + 3", 1.0))
    _cluster = _run.setup.cluster()
    _cluster.advance()
    KV_BYTES, CAPACITY = float(_cluster.kv_bytes_per_token), float(_cluster.view["capacity_tokens"][0])
    PROMPT, OUTPUT = float(_run.scored.prompt.mean()), float(_run.scored.output.mean())
    say(
        f"""
        ## Numbers for the exercises

        The mean scored prompt has {PROMPT:,.0f} tokens, the mean answer {OUTPUT:,.0f}. A token of KV is
        {KV_BYTES:,.0f} bytes. An instance holds the KV of {CAPACITY:,.0f} tokens.
        """
    )
    return CAPACITY, KV_BYTES, OUTPUT, PROMPT


@app.cell
def _(KV_BYTES, Number, OUTPUT, PROMPT):
    exercise_1 = Number(
        question="**Exercise 1.** How many GB of KV move from prefill to decode for a prompt of mean length?",
        answer=PROMPT * KV_BYTES / 1e9,
        unit="GB",
        hint="Tokens times bytes per token; a GB has 10^9 bytes.",
        why=f"""{PROMPT:,.0f} · {KV_BYTES:,.0f} B = {PROMPT * KV_BYTES / 1e9:.2f} GB. And that for every turn, less
        what the decode instance still holds of the session.""",
        mistakes={OUTPUT * KV_BYTES / 1e9: "that is the KV of the answer, which is made where it is needed."},
    )
    field_1 = exercise_1.field()
    return exercise_1, field_1


@app.cell
def _(exercise_1, field_1):
    exercise_1.show(field_1)
    return


@app.cell
def _(CAPACITY, Number, OUTPUT, PROMPT, SEEDS, table):
    _fit = CAPACITY / (PROMPT + OUTPUT)
    exercise_2 = Number(
        question="""**Exercise 2.** How many requests of mean length (prompt and answer) fit into one decode instance
        at once? Round or not, as you like.""",
        answer=_fit,
        unit="requests",
        within=0.08,
        hint="The KV of the prompt must be there as well as that of the answer.",
        why=f"""{CAPACITY:,.0f} / ({PROMPT:,.0f} + {OUTPUT:,.0f}) = {_fit:.1f}. Others wait, or push one out again.
        With 6 + 2 there are {table["6 + 2"]["preemptions"]:,.0f} preemptions of scored requests, with 4 + 4
        {table["4 + 4"]["preemptions"]:,.0f} (mean of {len(SEEDS)} seeds).""",
        mistakes={CAPACITY / OUTPUT: "a decode needs the KV of its whole prompt too."},
    )
    field_2 = exercise_2.field()
    return exercise_2, field_2


@app.cell
def _(exercise_2, field_2):
    exercise_2.show(field_2)
    return


@app.cell
def _(Choice, disaggregated, table):
    _words = {
        "6 + 2": f"TPOT p90 is {1000 * table['6 + 2']['tpot_p90_s']:,.0f} ms: two decode instances are too few.",
        "5 + 3": "Look at both sides again: another split serves more.",
        "4 + 4": f"TTFT p90 is {table['4 + 4']['ttft_p90_s']:,.1f} s: four prefill instances cannot keep up.",
    }
    exercise_3 = Choice(
        question="""**Exercise 3.** Of the three disaggregated splits, which serves most tokens of whole answers
        within the SLO, at load 1 with SMetric? Say what fails in the other two.""",
        options=_words,
        answer=disaggregated,
        why=" ".join(f"{name}: {words}" for name, words in _words.items() if name != disaggregated),
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

        - Disaggregation trades interference for moving KV and for a split that must fit the traffic.
        - "Load" is whatever keeps the instance busy. Ask that first for any router.
        - A score that looks at half of the request can hide the other half.
        """
    )
    return


if __name__ == "__main__":
    app.run()
