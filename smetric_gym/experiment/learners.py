"""`smetric-gym learners`: trained routers side by side, with the command that made each."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from smetric_gym.agents.learned_file import Learned, read_learned
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.cells import label, scenarios
from smetric_gym.experiment.rollouts import Rollouts
from smetric_gym.experiment.settings import settings_of
from smetric_gym.experiment.store import write_whole
from smetric_gym.experiment.tables import plain_table, terminal, write_csv
from smetric_gym.experiment.tasks import progress_bar, say_if_compiling
from smetric_gym.experiment.train import POLICY_FILE
from smetric_gym.experiment.validation import Scored, Validation

TEXT = """\
# Trained routers

Made by `{command}`. Gains are in % over the best of the references ({references}; all at their defaults) on the same
trace, then the mean of the logarithms over traces. *Validation*: the seeds that chose which weights were kept, less the
guard. *Held out*: {traces} traces of {cells}, {seeds}, that nobody was trained on. The other columns are of these
runs: means over them, and the largest share that one instance got of the requests in any of them.

| router | validation | held out | worst cell | p99 TTFT (s) | sacrificed | largest share | CPU min |
|---|---|---|---|---|---|---|---|
{rows}

How they were made:

{commands}
"""


def learners_task(config: DictConfig) -> None:
    """Run every policy on the cells; ``learners.csv`` and ``learners.md`` go into Hydra's output folder."""
    console = terminal()
    settings, folder = settings_of(config), Path(HydraConfig.get().runtime.output_dir)
    values = settings["learners"]
    paths = [Path(path) for path in values["policies"]]
    if not paths:
        raise SmetricError("learners.policies is empty, allowed: files that smetric-gym train has written")
    found = {name_of(path): read_learned(path) for path in paths}
    where = scenarios(settings["cells"], settings["cells"]["seeds"])
    say_if_compiling(console)
    rows: list[dict[str, Any]] = []
    with Rollouts(settings["jobs"]) as rollouts, progress_bar(console, len(found) + 1, "routers") as progress:
        validation = Validation(values, where, rollouts, Path(settings["output"]) / "store" / "train")
        for reference, scored in validation.references().items():
            rows.append(row_of(reference, None, scored, validation))
        for k, (name, policy) in enumerate(found.items()):
            progress(k + 1)
            rows.append(row_of(name, policy, validation.of(policy.weights).scored, validation))
    rows.sort(key=lambda row: -row["held_out_percent"])
    shown = [list(row.values())[:-1] for row in rows]
    console.print(plain_table(list(rows[0])[:-1], shown, "To the best reference on the same trace, %"))
    write_csv(folder / "learners.csv", rows)
    words = [word for word in HydraConfig.get().overrides.task if not word.startswith("learners=")]
    command = shlex.join(["smetric-gym", "learners", *words])
    write_whole(folder / "learners.md", text(rows, where, values, command))
    console.print(f"written to {folder}")


def name_of(path: Path) -> str:
    """A trained router's name: that of its folder, unless the file has one of its own."""
    return path.resolve().parent.name if path.name == POLICY_FILE else path.stem


def row_of(name: str, policy: Learned | None, scored: Scored, validation: Validation) -> dict[str, Any]:
    """One line of the table."""
    gains = {row["cell"]: row["learned"] for row in validation.rows(scored)}
    made = policy.training if policy else {}
    return {
        "router": name,
        "validation_percent": made.get("validation_percent", float("nan")),
        "held_out_percent": gains.pop("all"),
        "worst_cell_percent": min(gains.values()),
        "ttft_p99_s": float(np.mean(scored["ttft_p99_s"])),
        "sacrificed_share": float(np.mean(scored["sacrificed_share"])),
        "largest_instance_share": float(np.max(scored["largest_instance_share"])),
        "cpu_minutes": made.get("cpu_s", float("nan")) / 60,
        "command": made.get("command", ""),
    }


def text(rows: list[dict[str, Any]], where: list[dict[str, Any]], values: dict[str, Any], command: str) -> str:
    """``learners.md``."""

    def line(row: dict[str, Any]) -> str:
        percents = (row[f"{name}_percent"] for name in ("validation", "held_out", "worst_cell"))
        cells = ["-" if np.isnan(value) else f"{value:+.1f} %" for value in percents]
        cells.append(f"{row['ttft_p99_s']:.1f}")
        cells += [f"{100 * row[name]:.1f} %" for name in ("sacrificed_share", "largest_instance_share")]
        cells.append("-" if np.isnan(row["cpu_minutes"]) else f"{row['cpu_minutes']:.1f}")
        return f"| `{row['router']}` | " + " | ".join(cells) + " |"

    seeds = sorted({one["seed"] for one in where})
    return TEXT.format(
        command=command,
        references=", ".join(values["references"]),
        traces=len(where),
        cells="; ".join(dict.fromkeys(label(one) for one in where)),
        seeds=f"seeds {', '.join(map(str, seeds))}",
        rows="\n".join(map(line, rows)),
        commands="\n".join(f"- `{row['router']}`: `{row['command']}`" for row in rows if row["command"]),
    )
