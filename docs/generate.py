"""Pages made from the package: every configuration key, every score, every policy; so they cannot be out of date."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from dataclasses import fields
from pathlib import Path

import smetric_gym.conf
from smetric_gym.agents.policy import POLICIES
from smetric_gym.cluster.cluster import OUTCOME
from smetric_gym.experiment.store import write_whole
from smetric_gym.scoring import SCORES
from smetric_gym.workload.synthetic_config import SyntheticConfig

FIRST = ("colocated", "h20_30b", "paper", "train")
"""Files that say what the keys of their group are; the others change values."""
RESULTS = Path(__file__).parents[1] / "results"
LINE = re.compile(r"^(?P<indent> *)(?P<key>[a-z_0-9]+): ?(?P<value>[^#]*?)(?:  ?# (?P<comment>.*))?$")
TITLES = {
    "": "The command line: `conf/config.yaml`",
    "cluster": "The cluster: `conf/cluster`",
    "hardware": "Hardware and model: `conf/hardware`",
    "workload": "The workload: `conf/workload`",
    "policy": "The policy: `conf/policy`",
    "slo": "The limits: `conf/slo`",
    "scenario": "Distributions of scenarios: `conf/scenario`",
    "train": "Training: `conf/train`",
    "tune": "Tuning: `conf/tune`",
    "heldout": "The held-out comparison: `conf/heldout`",
    "cells": "Cells of scenarios: `conf/cells`",
    "learners": "Trained routers side by side: `conf/learners`",
    "experiment": "Experiments: `conf/experiment`",
}


def write_all(folder: Path) -> None:
    """Write every generated page into a folder."""
    pages = {
        "configuration": configuration(), "environments": environments(), "metrics": metrics(), "policies": policies(),
        "results": _of_results("README"), "fidelity": _of_results("fidelity"),
    }  # fmt: skip
    for name, text in pages.items():
        write_whole(folder / f"{name}.md", text)


def configuration() -> str:
    """Every key of ``conf/`` with its default, and what its comment says of unit and range."""
    root = Path(smetric_gym.conf.__path__[0])
    parts = [
        "# Configuration",
        "",
        "Made from the files of `conf/`: a default, and after it the unit and the allowed range. On the command line a "
        "key is `group.key=value` (`cluster.nics_per_server=8`), a file of a group is `group=file` "
        "(`cluster=disaggregated`); in Python the same go as "
        '`evaluate(cluster="disaggregated", **{"cluster.nics_per_server": 8})`.',
        "",
    ]
    groups = ["", *sorted(path.name for path in root.iterdir() if path.is_dir() and any(path.glob("*.yaml")))]
    for group in groups:
        parts += [f"## {TITLES.get(group, f'`conf/{group}`')}", ""]
        files = sorted((root / group).glob("*.yaml"), key=lambda path: (path.stem not in FIRST, path.stem))
        said: dict[str, str] = {}
        for path in files:
            parts += _experiment(path) if group == "experiment" else _file(path, group, said)
        if group == "workload":
            parts += _synthetic()
    return "\n".join(parts) + "\n"


def _experiment(path: Path) -> list[str]:
    """An experiment sets keys that stand above; what it is for is enough."""
    comments = (line for line in path.read_text().splitlines() if line.startswith("#") and "@package" not in line)
    lines = [line.lstrip("# ") for line in comments]
    return [f"- `experiment={path.stem}`: {' '.join(lines)}"]


def _file(path: Path, group: str, said: dict[str, str]) -> list[str]:
    """One file: its first comment, and its keys; what was said of a key in an earlier file is said again."""
    head, rows, outer = [], [], []
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            if not rows and "@package" not in line:
                head.append(line.lstrip("# "))
            continue
        found = LINE.match(line)
        if found is None or found["key"] == "defaults":
            continue
        depth = len(found["indent"]) // 2
        outer = [*outer[:depth], found["key"]]
        if outer[0] in ("hydra", "defaults"):
            continue
        key = ".".join(([group] if group and group not in ("hardware", "scenario") else []) + outer)
        value = found["value"].strip()
        if value or found["comment"]:
            comment = found["comment"] or said.get(key, "")
            said.setdefault(key, comment)
            rows.append((f"`{key}`", f"`{value}`" if value else "", comment))
    title = [f"### `{group}={path.stem}`", ""] if group else []
    table = ["| key | default | what it is |", "|---|---|---|"]
    table += [f"| {key} | {value} | {_cell(comment)} |" for key, value, comment in rows]
    return [*title, " ".join(head), "", *(table if rows else []), ""]


def _synthetic() -> list[str]:
    """The fields of the synthetic workload, from their docstring."""
    text = inspect.cleandoc(SyntheticConfig.__doc__ or "")
    attributes = textwrap.dedent(text.partition("Attributes:\n")[2])
    what, name = {}, ""
    for line in attributes.splitlines():
        if (found := re.match(r"(\w+): (.*)", line)) is not None:
            name, what[found[1]] = found[1], found[2]
        elif name:
            what[name] += f" {line.strip()}"
    rows = [f"| `workload.{f.name}` | `{f.default}` | {_cell(what[f.name])} |" for f in fields(SyntheticConfig)]
    sources = " ".join(text.partition("Sources: ")[2].partition("Attributes:")[0].split())
    return ["### Keys of the generated workloads", "", f"Sources: {sources}", "",
            "| key | default (trace1) | what it is |", "|---|---|---|", *rows, ""]  # fmt: skip


def environments() -> str:
    """The specification of the environments, which is the docstrings of their classes."""
    from smetric_gym import envs

    lead = "The docstrings of the classes are the specification; this page is made of them."
    parts = ["# The environments", "", lead, ""]
    for kind in (envs.ColocatedEnv, envs.DisaggregatedEnv):
        text = inspect.cleandoc(kind.__doc__ or "").replace("\n## ", "\n### ")
        parts += [f"## `{kind.__name__}`", "", _doctests(text.replace("``", "`")), ""]
    return "\n".join(parts)


def _of_results(name: str) -> str:
    """A page of ``results/``: its pictures, and links to what has a page here; other links become plain text."""
    text = (RESULTS / f"{name}.md").read_text()
    text = re.sub(r"!\[([^]]*)\]\(([^):]+)\)", r"![\1](../../results/\2)", text)
    text = text.replace("](fidelity.md)", "](fidelity-page)").replace("](calibration_log.md)", "](calibration-page)")
    text = re.sub(r"(?<!!)\[([^]]*)\]\((?!https?:|\.\./\.\.|fidelity-page|calibration-page)[^)]*\)", r"\1", text)
    return text.replace("](fidelity-page)", "](fidelity.md)").replace("](calibration-page)", "](../model.md)")


def _doctests(text: str) -> str:
    """Examples of a docstring as fenced code."""
    return re.sub(r"((?:^>>> .*\n(?:(?!>>>|\n).*\n)*)+)", r"```pycon\n\1```\n", text, flags=re.MULTILINE)


def metrics() -> str:
    """Every score with its unit and definition, and the fields of the per-request table."""
    parts = [
        "# Metrics",
        "",
        "One definition each, in one place: `smetric_gym.scoring`. *Scored* requests arrived after the warm-up and "
        "before the end of the window; whatever finishes later still counts. A limit that was never reached is not "
        "met.",
        "",
        "| score | unit | definition |",
        "|---|---|---|",
    ]
    parts += [f"| `{s.name}` | {s.unit or '-'} | {_cell(' '.join(s.definition.split()))} |" for s in SCORES.values()]
    parts += [
        "",
        "## What a run records of every request",
        "",
        "`result.outcome` has one row per request, the fields of `smetric_gym.cluster.OUTCOME`: "
        + ", ".join(f"`{name}`" for name in OUTCOME.names or ())
        + ". `requests_table=csv` writes them with the request itself, its latencies and its limits.",
        "",
    ]
    return "\n".join(parts)


def policies() -> str:
    """Every reference policy: its rule and source, and its parameters."""
    lead = "Each is a screen of Python in `agents/`; `policy=NAME`, `policy.PARAMETER=VALUE`."
    parts = ["# Reference policies", "", lead, ""]
    for name in POLICIES:
        module = importlib.import_module(f"smetric_gym.agents.{name}")
        text = inspect.cleandoc(module.__doc__ or "")
        parts += [f"## `{name}`", "", _markdown(text), ""]
        params = getattr(module, "Params", None)
        if params is not None and params._field_defaults:
            parts += ["Parameters: " + ", ".join(f"`{k}={v}`" for k, v in params._field_defaults.items()) + ".", ""]
    return "\n".join(parts)


def _markdown(text: str) -> str:
    """A docstring as Markdown: its literal blocks fenced, its double backticks single."""
    lines, literal = [], False
    for line in text.splitlines():
        if literal and line and not line.startswith("    "):
            lines += ["```", ""]
            literal = False
        if not literal and line.endswith("::"):
            lines += [line[:-1], "", "```text"]
            literal = True
            continue
        lines.append(line[4:] if literal else line)
    if literal:
        lines.append("```")
    return "\n".join(line if line.startswith("```") else line.replace("``", "`") for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("``", "`")
