"""`smetric-gym heldout`: the fair comparison of a learned policy with every reference, default and tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.cells import scenarios
from smetric_gym.experiment.compare import Job, choice, run_all
from smetric_gym.experiment.heldout_summary import Heldout
from smetric_gym.experiment.prepare import check_boolean
from smetric_gym.experiment.prepare import policy as policy_of
from smetric_gym.experiment.settings import settings_of
from smetric_gym.experiment.tables import terminal
from smetric_gym.experiment.tasks import progress_bar, say_if_compiling

LEARNED = "learned"


def heldout_task(config: DictConfig) -> None:
    """Compare on the held-out cells; finished runs are kept in the store, results go into Hydra's output folder."""
    console = terminal()
    settings, folder = settings_of(config), Path(HydraConfig.get().runtime.output_dir)
    values = settings["heldout"]
    check_boolean("force", settings["force"])
    if type(values["resamples"]) is not int or values["resamples"] < 1:
        raise SmetricError(f"heldout.resamples is {values['resamples']!r}, allowed: a whole number, 1 or more")
    chosen = [choice(name) for name in values["references"]] + tuned_policies(values["tuned"])
    chosen.append((LEARNED, {"name": LEARNED, "path": values["learned"], "ties": "round_robin"}, None))
    runs = jobs_of(settings["cells"], chosen)
    console.print(f"{len(runs)} runs of {len(chosen)} policies: {', '.join(label for label, _, _ in chosen)}")
    say_if_compiling(console)
    store = Path(settings["output"]) / "store"
    with progress_bar(console, len(runs), "runs") as progress:
        how: dict[str, Any] = {"jobs": settings["jobs"], "store": store, "force": settings["force"]}
        records = run_all(runs, **how, progress=lambda done, of: progress(done))
    result = Heldout(records, LEARNED, target=values["target"], resamples=values["resamples"])
    for table in result.tables():
        console.print(table)
    result.save(folder)
    result.draw(folder)
    console.print(f"tables, figure and their data written to {folder}")


def tuned_policies(folder: str | None) -> list[tuple[str, dict[str, Any], Any]]:
    """The tuned references of a folder: label, settings and None, as `compare.choice` gives them.

    Raises:
        SmetricError: if the folder holds none.
    """
    if folder is None:
        return []
    paths = sorted(Path(folder).glob("*.json"))
    if not paths:
        raise SmetricError(
            f"heldout.tuned is {folder}, which holds nothing that smetric-gym tune has written, allowed: a folder that "
            "does, or null to leave tuned references out"
        )
    found = [orjson.loads(path.read_bytes()) for path in paths]
    changed = [one for one in found if one["tuned"] != one["default"]]
    return [(f"{one['policy'].rpartition(':')[2]}, tuned", one["tuned"], None) for one in changed]


def jobs_of(cells: Mapping[str, Any], chosen: Sequence[tuple[str, dict[str, Any], Any]]) -> list[Job]:
    """Runs of every policy in every cell with every seed, policies innermost, so that neighbours serve one trace."""
    for _, parameters, function in chosen:
        anywhere = {"policy": parameters, "cluster": {"decode_instances": 0}}
        policy_of(anywhere, function)  # says now what is wrong with it
    return [
        {**scenario, "policy": parameters, "label": label, "function": function}
        for scenario in scenarios(cells, cells["seeds"])
        for label, parameters, function in chosen
    ]
