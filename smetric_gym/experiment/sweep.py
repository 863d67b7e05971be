"""The end of ``evaluate --multirun``: one table of all its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from smetric_gym.experiment.store import as_json, write_whole
from smetric_gym.experiment.tables import sweep_table, terminal, write_csv

RUN_FILE, SWEPT_FILE = "result.json", "swept.json"


class Summary(Callback):
    """Hydra calls this around a multirun; it reads what the jobs have written, so every launcher will do."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Print the table of all runs of the sweep, and write it beside them."""
        folder = Path(OmegaConf.select(config, "hydra.sweep.dir"))
        rows = read_sweep(folder)
        if not rows:
            return
        write_csv(folder / "sweep.csv", [{**labels, **scores} for labels, scores in rows])
        write_whole(folder / "sweep.json", as_json([{"swept": a, "scores": b} for a, b in rows]))
        console = terminal()
        console.print(sweep_table(rows, f"{len(rows)} runs"))
        console.print(f"written to {folder}")


def read_sweep(folder: Path) -> list[tuple[dict[str, str], dict[str, Any]]]:
    """(what was swept, scores) of every finished job of a sweep, in the order of the jobs."""
    rows = []
    for path in sorted(folder.glob(f"*/{RUN_FILE}"), key=lambda p: (len(p.parent.name), p.parent.name)):
        labels = orjson.loads((path.parent / SWEPT_FILE).read_bytes())
        scores = orjson.loads(path.read_bytes())["scores"]
        rows.append((labels, {k: float("nan") if v is None else v for k, v in scores.items()}))
    return rows
