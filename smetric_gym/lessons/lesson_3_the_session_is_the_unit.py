"""Lesson 3: SMetric from its pseudocode, line by line."""

# /// script
# [tool.marimo.display]
# theme = "system"
# ///

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="3 The session is the unit")


@app.cell
def _():
    from inspect import getsource
    from textwrap import dedent

    import numpy as np

    from smetric_gym.agents.load import REQUESTS, load_of, mean_alive
    from smetric_gym.agents.memory import HIT_CURSOR
    from smetric_gym.agents.ties import ROUND_ROBIN, argmin, most_hits
    from smetric_gym.lessons import lab
    from smetric_gym.lessons.claims import measured, paper, percent, say, target
    from smetric_gym.lessons.exercise import Code, Number

    return (
        Code,
        HIT_CURSOR,
        Number,
        REQUESTS,
        ROUND_ROBIN,
        argmin,
        dedent,
        getsource,
        lab,
        load_of,
        mean_alive,
        measured,
        most_hits,
        np,
        paper,
        percent,
        say,
        target,
    )


@app.cell
def _(paper, say):
    say(
        """
        # 3 The session is the unit

        *30 minutes. You will have written SMetric yourself, and it will decide as the reference does.*

        Lesson 2 weighed cache against balance for every request. SMetric weighs them once per session: the **first**
        request goes where there is room, the **follow-ups** stay. Two guards let a session leave. The paper's Figure
        13, in full:

        ```
        req = receive()
        c = kvc.hit_len(req.prompt)        # KV$, per instance
        l = load()                         # load, per instance
        s = instances.argmax(c)            # highest KV$ hit
        if req.turn != 0 and not_overloaded(s, l) and session_not_evicted(req, s, c):
            sched_to = s                   # stick
        else:
            score    = load_balance(req, c, l)
            sched_to = instances.rr_argmin(score)
        req.forward(sched_to)

        not_overloaded(s, l):            return l[s] <= OVERLOAD * mean(l)
        session_not_evicted(req, s, c):  return c[s] > HIT_RATIO * est_hit(req)
        load_balance(req, c, l):         return l
        ```
        """,
        paper(
            """
            The router keeps no table of sessions. That a request is a follow-up it sees from the number of messages
            in the payload, and where its session lives from the cache itself: the instance with the most hits.
            """,
            "section 4.2",
        ),
        """
        A policy here is one function of four arguments. `view` has a row per instance (`local_hit_tokens` is `c`,
        `in_flight` the request count `l`), `request` is what the router knows of the request, `memory` an array that
        lasts for the run, `params` are parameters (none here). It returns the index of an instance.
        """,
    )
    return


@app.cell
def _(
    HIT_CURSOR,
    REQUESTS,
    ROUND_ROBIN,
    argmin,
    dedent,
    getsource,
    lab,
    load_of,
    mean_alive,
    most_hits,
):
    def balance(view, request, memory, params):
        load = load_of(view, REQUESTS)  # l
        return argmin(load, view, memory, ROUND_ROBIN)

    def stick(view, request, memory, params):
        load = load_of(view, REQUESTS)
        if request.messages > 0:  # req.turn != 0
            return most_hits(load, view, memory, ROUND_ROBIN)  # argmax(c)
        return argmin(load, view, memory, ROUND_ROBIN)

    def with_overload(view, request, memory, params):
        load = load_of(view, REQUESTS)
        before = memory[HIT_CURSOR]
        s = most_hits(load, view, memory, ROUND_ROBIN)
        not_overloaded = load[s] <= 2.0 * mean_alive(load, view)
        if request.messages > 0 and not_overloaded:
            return s
        memory[HIT_CURSOR] = before
        return argmin(load, view, memory, ROUND_ROBIN)

    def with_both(view, request, memory, params):
        load = load_of(view, REQUESTS)
        before = memory[HIT_CURSOR]
        s = most_hits(load, view, memory, ROUND_ROBIN)
        hit, est_hit = float(view.local_hit_tokens[s]), float(request.history_tokens)
        not_overloaded = load[s] <= 2.0 * mean_alive(load, view)
        session_not_evicted = hit > 0.5 * est_hit
        if request.messages > 0 and not_overloaded and session_not_evicted:
            return s
        memory[HIT_CURSOR] = before
        return argmin(load, view, memory, ROUND_ROBIN)

    steps = {step.__name__: lab.plain(step) for step in (balance, stick, with_overload, with_both)}
    SET_UP = {"load": 1.0, "global_tier": 1.6}

    def compared(*names):
        """The scores of the steps so far."""
        scores = ("local_hit_ratio", "first_turn_return_ratio", "load_imbalance", "ttft_p90_s", "tps_within_slo")
        return lab.table({name: lab.means(steps[name], **SET_UP) for name in names}, scores, "step")

    def code(name):
        """The source of a step, to be read."""
        return f"```python\n{dedent(getsource(steps[name].function))}\n```"

    how = f"{lab.WORDS}, load 1, tier 1.6, mean of {len(lab.SEEDS)} seeds"
    return SET_UP, code, compared, how, steps


@app.cell
def _(code, compared, say):
    say(
        """
        ## Step 1: the last line

        Begin with `rr_argmin(l)`: the least load, and round robin among equals. Ties matter: on an idle cluster all
        loads are equal, and a rule that takes the first index sends everything to instance 0.
        """,
        code("balance"),
        compared("balance"),
    )
    return


@app.cell
def _(
    SET_UP,
    code,
    compared,
    how,
    lab,
    measured,
    paper,
    percent,
    say,
    steps,
    target,
):
    _stay = {name: lab.means(steps[name], **SET_UP)["first_turn_return_ratio"] for name in ("balance", "stick")}
    say(
        """
        ## Step 2: `req.turn != 0`

        One more line: a request with history goes to the instance that holds most of it. A first request holds
        nothing but a system prompt, which everybody has; following *that* would pile new sessions up.
        """,
        code("stick"),
        compared("balance", "stick"),
        measured(
            f"""
            Follow-ups that go to the instance of their session's first request: {percent(_stay["balance"])} before,
            {percent(_stay["stick"])} now. It is not all of them: a cached copy may lie elsewhere too (sub-agents
            share their parent's context), and evicted sessions are found nowhere.
            """,
            how,
        ),
        paper(
            f"""
            {percent(target("C10"), 1)} of follow-ups return under load balance, {percent(target("C11"), 1)} under
            Bailian's rule.
            """,
            "Figure 12, 32 instances",
        ),
    )
    return


@app.cell
def _(code, compared, say):
    say(
        """
        ## Step 3: `not_overloaded`

        Sessions grow, and some grow very long. A session whose instance has more than OVERLOAD = 2 times the mean
        load is sent away, to the least loaded one.

        A detail of `rr_argmin`: our `most_hits` also goes round robin among equals, and remembers in
        `memory[HIT_CURSOR]` whose turn it is. If its answer is not used, its turn is put back; otherwise the rotation
        would skip instances.
        """,
        code("with_overload"),
        compared("stick", "with_overload"),
    )
    return


@app.cell
def _(SET_UP, code, compared, how, lab, measured, np, percent, say, steps):
    _same = np.mean(
        [
            np.mean(lab.run(steps["with_both"], seed=seed, **SET_UP).outcome["instance"]
                    == lab.run("smetric", seed=seed, **SET_UP).outcome["instance"])
            for seed in lab.SEEDS
        ]
    )  # fmt: skip
    agreement = float(_same)
    say(
        """
        ## Step 4: `session_not_evicted`

        If the cache of the session is gone, sticking to its instance is worth nothing, and the system prompt alone
        makes the hit look positive everywhere. So the hit must be more than HIT_RATIO = 0.5 of the carried history.
        """,
        code("with_both"),
        compared("stick", "with_overload", "with_both"),
        measured(
            f"""
            Your SMetric and the registered policy `smetric` choose the same instance for {percent(agreement, 2)} of
            the requests.
            """,
            how,
        ),
        """
        Look at the table again before you believe that each step must help: on 8 instances and at this load, the
        guards have little to do. Lesson 4 looks for where they have.
        """,
    )
    return


@app.cell
def _(Code, np):
    def _examine(function):
        for loads, s, overload, right in (
            ([4, 2, 2, 0], 0, 2.0, True), ([4, 2, 2, 0], 0, 1.9, False), ([5, 2, 2, 0], 0, 2.0, False),
            ([1, 2, 9, 0], 0, 1.0, True), ([9, 0, 0, 0], 0, np.inf, True),
        ):  # fmt: skip
            found = bool(function(s, np.array(loads, dtype=float), overload))
            if found != right:
                return f"s = {s}, l = {loads}, OVERLOAD = {overload:g}: the pseudocode says {right}, yours {found}."
        return None

    exercise_1 = Code(
        question="""**Exercise 1.** Write the first guard. `s` is an index, `l` an array of loads, `overload` a number
        (it may be infinite). Do not take it from above; think of what happens at equality.""",
        name="not_overloaded",
        start="def not_overloaded(s, l, overload):\n    return l[s] < overload * max(l)",
        answer="def not_overloaded(s, l, overload):\n    return l[s] <= overload * np.mean(l)",
        examine=_examine,
        why="The mean, not the maximum, and `<=`: with OVERLOAD = 1 on a balanced cluster everybody may stay.",
    )
    field_1 = exercise_1.field()
    return exercise_1, field_1


@app.cell
def _(exercise_1, field_1):
    exercise_1.show(field_1)
    return


@app.cell
def _(Number):
    _history, _block = 26_000 + 1_003, 16
    _est = _history // _block * _block
    exercise_2 = Number(
        question="""**Exercise 2.** The last request of a session had a prompt of 26,000 tokens and got an answer of
        1,003 tokens. The next one carries both and 4,100 new tokens. A cache keeps whole blocks of 16 tokens only.
        What is `est_hit`, the hit that an instance which has evicted nothing would give?""",
        answer=_est,
        unit="tokens",
        within=1e-6,
        hint="The carried history without the new turn, in whole blocks.",
        why=f"26,000 + 1,003 = {_history:,}, rounded down to whole blocks: {_est:,}. The new turn is never cached.",
        mistakes={
            _history: "blocks that are not full are not cached: round down to a multiple of 16.",
            _history + 4_100: "the new turn has never been computed, so no cache holds it.",
            (_history + 4_100) // _block * _block: "the new turn has never been computed, so no cache holds it.",
            26_000: "the answer is in the cache as well: it was computed token by token.",
        },
    )
    field_2 = exercise_2.field()
    return exercise_2, field_2


@app.cell
def _(exercise_2, field_2):
    exercise_2.show(field_2)
    return


@app.cell
def _(Code, dedent, getsource, np):
    def route(turn, hits, loads, est_hit):
        s = int(np.argmax(hits))
        if turn != 0 and loads[s] <= 2.0 * np.mean(loads) and hits[s] > 0.5 * est_hit:
            return s
        return int(np.argmin(loads))

    def _examine(function):
        random = np.random.default_rng(0)
        for _ in range(400):
            hits = random.permutation(8)[:4] * 1000.0
            loads = random.permutation(12)[:4] * 1.0
            turn, est_hit = int(random.integers(0, 3)), float(random.integers(1, 14)) * 1000.0
            right, found = route(turn, hits, loads, est_hit), function(turn, hits.copy(), loads.copy(), est_hit)
            if found != right:
                return (
                    f"turn {turn}, hits {hits.tolist()}, loads {loads.tolist()}, est_hit {est_hit:,.0f}: "
                    f"the pseudocode goes to {right}, yours to {found}."
                )
        return None

    exercise_3 = Code(
        question="""**Exercise 3.** The whole of it. `turn` is 0 for a first request, `hits` and `loads` have a
        number per instance (without ties), `est_hit` is a number; OVERLOAD is 2, HIT_RATIO 0.5. Return the index.""",
        name="route",
        start="def route(turn, hits, loads, est_hit):\n    return int(np.argmin(loads))",
        answer=dedent(getsource(route)),
        examine=_examine,
        why="""It chose as the pseudocode does in 400 random cases. Put it into a file, with the four arguments of a
        policy, and `smetric-gym compare policies=[smetric,./mine.py:route]` runs it.""",
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

        - SMetric is a dozen lines. What it needs is a view of the caches, a view of the load, and to know a first
          turn.
        - It has two numbers, OVERLOAD and HIT_RATIO: **lesson 4**.
        """
    )
    return


if __name__ == "__main__":
    app.run()
