"""Lesson 1: what agents send, measured beside what people send."""

# /// script
# [tool.marimo.display]
# theme = "system"
# ///

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="1 Why agents are not chat")


@app.cell
def _():
    import marimo as mo
    import numpy as np

    from smetric_gym.lessons import lab
    from smetric_gym.lessons.charts import lines, show
    from smetric_gym.lessons.claims import measured, paper, percent, say, target
    from smetric_gym.lessons.exercise import Choice, Number
    from smetric_gym.workload.audit import QUANTITIES, audit

    return (
        Choice,
        Number,
        QUANTITIES,
        audit,
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
        # 1 Why agents are not chat

        *20 minutes. You will know what a coding agent sends, how much of it some cache already holds, and why the
        router has to care.*

        A person types a question and reads the answer. An agent calls a tool, appends what it returned, and sends
        **everything** again: system prompt, tools, the whole history. A serving instance keeps the keys and values
        (KV) of prompts that it has computed. Whoever sends the next request to an instance that holds its history
        saves almost all of the prefill; whoever sends it elsewhere pays for all of it.

        Below, an hour of requests for 8 instances, twice: coding agents (`trace1`) and people who chat (`chat`). Both
        are synthetic: drawn so that they meet published statistics of real traffic, never a result of a policy. So
        where a number below agrees with the paper's, that is how the workload was made, and no finding.
        """
    )
    return


@app.cell
def _(QUANTITIES, audit, lab, measured, paper, percent, say, target):
    WARM_UP_S, HOUR_S = 600.0, 3600.0
    traces = {name: lab.workload(name, warm_up_s=WARM_UP_S, window_s=HOUR_S) for name in ("trace1", "chat")}
    audits = {name: audit(trace, instances=8, warm_up_s=WARM_UP_S) for name, trace in traces.items()}
    agents, chat = audits["trace1"], audits["chat"]
    SHOWN = (
        "requests", "prompt_p50", "prompt_p90", "output_p50", "gap_p50_s", "first_turns", "tool_triggered",
        "ideal_reuse", "same_session_share", "system_share", "reuse_within_100s", "top_25pct_sessions",
    )  # fmt: skip

    def row(key):
        """One number of both audits, as the table says it."""
        label, unit = QUANTITIES[key]
        said = [
            percent(one[key], 1) if unit == "fraction" else f"{one[key]:,.{int(one[key] < 10)}f} {unit}"
            for one in (agents, chat)
        ]
        return f"| {label} | {' | '.join(said)} |"

    say(
        "## The audit",
        "| | agents | chat |\n|---|---:|---:|\n" + "\n".join(map(row, SHOWN)),
        paper(
            f"""
            An infinite store would hold {percent(target("W1"))} of the prompt tokens of trace 1. Of these,
            {percent(target("W3"))} come from the same session and {percent(target("W4"))} from the system prompt.
            {percent(target("W6"))} of what is reused was last used within about 100 s; {percent(target("W7"), 1)} of
            the requests are sent after a tool's result, and the largest quarter of the sessions holds more than
            {percent(target("W9"))} of the tokens.
            """,
            "section 3, Figure 5",
        ),
        measured(
            f"""
            Agents: {percent(agents["ideal_reuse"], 1)} reusable, {percent(agents["same_session_share"], 1)} of it
            within the session. Chat: {percent(chat["ideal_reuse"], 1)} and {percent(chat["same_session_share"], 1)}.
            The median agent prompt is {agents["prompt_p50"] / chat["prompt_p50"]:.0f} times as long as the median
            chat prompt.
            """,
            "audit of one synthetic hour, seed 0",
        ),
    )
    return agents, chat, traces


@app.cell
def _(mo, say):
    rank = mo.ui.slider(1, 20, value=3, label="the session with the most turns, number", show_value=True)
    say(
        """
        ## One session grows

        Each request carries what came before it. Take one of the longest sessions and watch its prompt. A large step
        down is a compaction: the agent replaces its history by a summary, and the cache of that history is worthless.
        """
    )
    return (rank,)


@app.cell
def _(lines, mo, np, rank, show, traces):
    def prompts(trace):
        """Prompt tokens of each turn of the chosen session."""
        requests = trace.requests
        turns = np.bincount(requests["session"])
        session = np.argsort(-turns, kind="stable")[rank.value - 1]
        return requests["prompt"][requests["session"] == session]

    _curves = {name: prompts(trace) for name, trace in traces.items()}
    mo.vstack(
        [
            rank,
            show(lines({n: (np.arange(len(p)), p) for n, p in _curves.items()}, "turn", "prompt (tokens)")),
        ]
    )
    return


@app.cell
def _(agents, chat, lines, mo, np, say, show):
    def cumulated(report):
        """Share of the reused tokens whose last use is at most so long ago."""
        edges_s, tokens = report.interval_edges_s, report.interval_tokens
        return edges_s[1:], 100 * np.cumsum(tokens) / max(1, tokens.sum())

    mo.vstack(
        [
            say(
                """
                ## How long must a cache remember?

                A tool answers within seconds, a person thinks for minutes. The curve says which share of the reused
                tokens was used at most so many seconds before.
                """
            ),
            show(
                lines(
                    {"agents": cumulated(agents), "chat": cumulated(chat)},
                    "time since the last use (s)",
                    "reused tokens (%)",
                    type="log",
                    range=[-1, 3.6],
                )
            ),
        ]
    )
    return


@app.cell
def _(agents, lab, measured, say):
    POLICIES = ("load_balance", "smetric")
    outcome = {
        f"{workload}, {policy}": lab.run(policy, workload=workload, global_tier=0.0)
        for workload in ("trace1", "chat")
        for policy in POLICIES
    }
    gain = {
        workload: outcome[f"{workload}, smetric"]["tps_within_slo"]
        / outcome[f"{workload}, load_balance"]["tps_within_slo"]
        for workload in ("trace1", "chat")
    }
    say(
        """
        ## Does the router matter?

        Now serve both on 8 instances without any shared cache. `load_balance` sends each request to the instance with
        the fewest requests; `smetric` lets the follow-ups of a session stay where it began.
        """,
        lab.table(outcome, ("local_hit_ratio", "ttft_p50_s", "ttft_p90_s", "tps_within_slo"), "workload, policy"),
        measured(
            f"""
            For agents the router that keeps sessions together completes {gain["trace1"]:.1f} times the tokens within
            the SLO of the one that does not; for chat {gain["chat"]:.2f} times.
            """,
            f"{lab.WORDS}, load 1, no global tier, seed 0",
        ),
        "The audit says the same in words, for any trace that you bring (`smetric-gym audit workload=FILE`):",
        "\n".join(f"- {sentence}" for sentence in agents.words()),
    )
    return


@app.cell
def _(Number, agents):
    _reuse = agents["ideal_reuse"]
    exercise_1 = Number(
        question="""**Exercise 1.** Nobody reuses anything: every prompt of the agents is computed in full. How many
        times as many prompt tokens are computed then as with an infinite store? Take the audit's number for the
        agents.""",
        answer=1 / (1 - _reuse),
        unit="times",
        hint="With an infinite store only the tokens that nobody has seen are computed: 1 - reuse of all.",
        why=f"All tokens over the new ones: 1 / (1 - {_reuse:.3f}) = {1 / (1 - _reuse):.2f}.",
        mistakes={
            1 / _reuse: "that is all tokens over the reused ones; what is computed are the others.",
            _reuse / (1 - _reuse): "that is reused over new tokens; without reuse all are computed, the new too.",
        },
    )
    field_1 = exercise_1.field()
    return exercise_1, field_1


@app.cell
def _(exercise_1, field_1):
    exercise_1.show(field_1)
    return


@app.cell
def _(Choice, agents, percent):
    _shares = {
        "the system prompt and the tools": agents["system_share"],
        "earlier turns of the same session": agents["same_session_share"],
        "other sessions, past the system prompt": agents["other_sessions_share"],
    }
    _best = max(_shares, key=_shares.get)
    exercise_2 = Choice(
        question="**Exercise 2.** Where does most of what agents reuse come from?",
        options={
            name: f"That is {percent(share, 1)} of the reuse; something else gives more."
            for name, share in _shares.items()
        },
        answer=_best,
        why=f"It is {percent(_shares[_best], 1)} of the reuse, so an instance that keeps a session is worth more to it "
        "than any other.",
    )
    field_2 = exercise_2.field()
    return exercise_2, field_2


@app.cell
def _(exercise_2, field_2):
    exercise_2.show(field_2)
    return


@app.cell
def _(Number, agents, chat):
    _p90 = agents["reuse_interval_p90_s"]
    exercise_3 = Number(
        question="""**Exercise 3.** A cache forgets what was not used for T seconds. How large must T be so that it
        still finds 90 % of what agents reuse? Read it from the curve; 25 % off is near enough.""",
        answer=_p90,
        unit="s",
        within=0.25,
        hint="Follow the curve of the agents to 90 % and go down to the axis, which is logarithmic.",
        why=f"The audit says {_p90:.0f} s. For chat it would be {chat['reuse_interval_p90_s']:.0f} s.",
        mistakes={chat["reuse_interval_p90_s"]: "that is the curve of the chat."},
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

        - An agent's request is mostly history, and the history lies in one place.
        - Sessions are few, long, and of very different sizes. That is what makes balance hard: **lesson 2**.
        """
    )
    return


if __name__ == "__main__":
    app.run()
