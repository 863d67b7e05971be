"""The list of lessons, the page that ``smetric-gym lessons`` opens."""

# /// script
# [tool.marimo.display]
# theme = "system"
# ///

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="smetric_gym lessons")


@app.cell
def _():
    from smetric_gym.lessons.catalogue import LESSONS
    from smetric_gym.lessons.claims import say

    return LESSONS, say


@app.cell
def _(LESSONS, say):
    say(
        """
        # Routing for LLM agents, in eight lessons

        A coding agent sends the whole history with every request, and most of it lies in the KV cache of *some*
        instance. Which instance should answer? Each lesson takes 15 to 30 minutes and runs a simulated cluster while
        you read: move a slider and it runs again. Each has three exercises whose answers are checked.

        Every claim says where it comes from: **the paper** (SMetric, arXiv 2607.08565v1), or **measured here**, in the
        page that you are looking at.
        """,
        "\n".join(f"{n}. [**{one.title}**](./{one.file}/): {one.about}" for n, one in enumerate(LESSONS, 1)),
        f"""
        To change the code of a lesson: `smetric-gym lessons --copy mine`, then `marimo edit mine/{LESSONS[0].file}.py`.
        """,
    )
    return


if __name__ == "__main__":
    app.run()
