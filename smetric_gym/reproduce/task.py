"""The task of ``smetric-gym reproduce``: studies one after the other, and the fidelity table after the paper's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import check_boolean
from smetric_gym.experiment.settings import compose, settings_of, unknown
from smetric_gym.experiment.store import write_whole
from smetric_gym.experiment.tables import plain_table, terminal, write_csv
from smetric_gym.experiment.tasks import progress_bar, say_if_compiling
from smetric_gym.reproduce import fidelity
from smetric_gym.reproduce.causes import sentences
from smetric_gym.reproduce.fidelity import Found
from smetric_gym.reproduce.grid import SIZES
from smetric_gym.reproduce.study import BEYOND, OF_PAPER, STUDIES, Outcome, Work, save, study

ALL = {"all": OF_PAPER, "beyond": BEYOND}
"""Names for many studies: ``all`` also makes the fidelity table."""
MOST_SHOWN = 100
"""Rows of a table that is printed; a longer one is only written."""


def names_of(figure: str) -> tuple[str, ...]:
    """The studies that ``figure=`` asks for: a name, names with commas between, ``all`` or ``beyond``.

    Raises:
        SmetricError: for a name that there is no study of.
    """
    if figure in ALL:
        return ALL[figure]
    names = tuple(name.strip() for name in figure.strip("[]").split(","))
    for name in names:
        if name not in STUDIES:
            raise SmetricError(unknown("figure", name, [*STUDIES, *ALL]))
    return names


def reproduce(figure: str, arguments: Sequence[str]) -> None:
    """Make the studies that ``figure`` asks for, one after the other; the command without Hydra's launchers.

    Args:
        figure: as for `names_of`.
        arguments: the other KEY=VALUE of the command line.
    """
    console = terminal()
    found: dict[str, Found] = {}
    settings: dict[str, Any] = {}
    for name in names_of(figure):
        settings = compose([experiment(name), *arguments])
        found |= make(settings, arguments, console).rows
    if figure == "all":
        tried = make(compose([experiment("causes"), *arguments]), arguments, console).table
        command = " ".join(["smetric-gym reproduce figure=all", *arguments])
        _write_fidelity(fidelity.table(found, sentences(tried)), settings, command, console)


def reproduce_task(config: DictConfig) -> None:
    """One study as a job of Hydra, which a launcher may run elsewhere."""
    given = [word for word in HydraConfig.get().overrides.task if not word.startswith("experiment=")]
    make(settings_of(config), given, terminal())


def experiment(name: str) -> str:
    """The override that chooses the experiment of a study."""
    return f"experiment=figure_{name}" if name.isdigit() else f"experiment={name}"


def make(settings: Mapping[str, Any], arguments: Sequence[str], console: Console) -> Outcome:
    """Run, print and write one study; what is finished survives an interruption."""
    if settings["size"] not in SIZES:
        raise SmetricError(unknown("size", settings["size"], SIZES))
    check_boolean("force", settings["force"])
    name, begun = str(settings["figure"]), time.monotonic()
    store, folder = Path(settings["output"]) / "store", folder_of(settings) / experiment(name).partition("=")[2]
    say_if_compiling(console)
    with progress_bar(console, 1, "pieces of work") as progress:
        try:
            outcome = study(name)(Work(settings, settings["jobs"], store, progress))
        except KeyboardInterrupt:
            console.print(f"interrupted: what is finished is kept in {store}; the same command goes on from there")
            raise
    if 0 < len(outcome.table) <= MOST_SHOWN:
        columns = list(outcome.table[0])
        rows = [[row[column] for column in columns] for row in outcome.table]
        console.print(plain_table([c.replace("_", " ") for c in columns], rows, f"Study {name}"))
    for sentence in outcome.words:
        console.print(f"- {sentence}", highlight=False)
    paths = save(outcome, folder, settings, " ".join([f"smetric-gym reproduce figure={name}", *arguments]))
    write_whole(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(dict(settings))))
    names = ", ".join(path.name for path in paths)
    console.print(f"{time.monotonic() - begun:.0f} s, written to {folder}: {names}, config.yaml", highlight=False)
    return outcome


def folder_of(settings: Mapping[str, Any]) -> Path:
    """Where studies are written: the full size to ``to`` itself, the quick one beside it."""
    return Path(settings["to"]) if settings["size"] == "full" else Path(settings["to"]) / "quick"


def _write_fidelity(
    rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], command: str, console: Console
) -> None:
    folder = folder_of(settings)
    write_csv(folder / "fidelity.csv", rows)
    write_whole(folder / "fidelity.md", fidelity.markdown(rows, command))
    columns = ("id", "quantity", "policy", "paper", "ours", "rule", "verdict")
    judged = len(rows) - fidelity.count(rows, "reported")
    title = f"{fidelity.count(rows, 'agrees')} of {judged} rows agree with the paper ({settings['size']} size)"
    console.print(plain_table(columns, [[row[c] for c in columns] for row in rows], title))
    console.print(f"written to {folder}: fidelity.md, fidelity.csv")
