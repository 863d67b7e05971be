"""What the held-out runs say: maxima over the loads, paired differences with intervals, and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.bootstrap import limits
from smetric_gym.experiment.cells import label
from smetric_gym.experiment.comparison import TARGETS, Comparison
from smetric_gym.experiment.settings import unknown
from smetric_gym.experiment.store import as_json, write_whole
from smetric_gym.experiment.tables import number, plain_table, write_csv
from smetric_gym.scoring import SCORES

SMETRIC = "smetric"
BESIDE = "prefill_tps_within_slo"
"""Reported beside the target: the paper's figure for disaggregated clusters."""


class Heldout:
    """Runs of policies over cells, loads and seeds, and the learned policy's place among them.

    The maximum of a policy is taken over the loads of a cell for each seed. The rival of a cell is the
    reference whose mean maximum is highest there, at its defaults or tuned; as it is picked on the same runs,
    that favours the references. Differences are means over seeds of ln(learned / rival), as %, and their
    intervals come from resampling the seeds (bootstrap, 95 %).

    Args:
        records: from `compare.run_all`.
        learned: the policy that is compared with all others.
        target: the score that is maximised.
        resamples: of the seeds.
    """

    def __init__(
        self, records: Sequence[Mapping[str, Any]], learned: str, *, target: str, resamples: int = 10_000
    ) -> None:
        if target not in TARGETS:
            raise SmetricError(unknown("heldout.target", target, TARGETS))
        self.records, self.learned, self.target, self.resamples = list(records), learned, target, resamples
        cells: dict[str, list[Mapping[str, Any]]] = {}
        for record in records:
            cells.setdefault(label(record["settings"]), []).append(record)
        self.cells = {name: Comparison(runs, target=target) for name, runs in cells.items()}
        self.policies = next(iter(self.cells.values())).policies
        self.seeds = next(iter(self.cells.values())).seeds

    def rival(self, cell: str) -> str:
        """The best reference of a cell."""
        others = [policy for policy in self.policies if policy != self.learned]
        return max(others, key=lambda policy: self.cells[cell].maximum(policy).mean())

    def log_ratio(self, cell: str, rival: str, score: str | None = None) -> np.ndarray:
        """ln(learned / rival) of the maxima, [seeds]; of another score: of its own maxima."""
        runs = self.cells[cell] if score is None else Comparison(self.cells[cell].records, target=score)
        return np.log(runs.maximum(self.learned) / runs.maximum(rival))

    def interval(self, ratios: np.ndarray) -> tuple[float, float, float]:
        """Mean and limits in % of log-ratios, [seeds] or [cells, seeds]; seeds are resampled together."""
        ratios = np.atleast_2d(ratios)
        low, high = limits(ratios.mean(axis=0), self.resamples)
        return tuple(float(100 * np.expm1(value)) for value in (ratios.mean(), low, high))  # type: ignore[return-value]

    def rows(self) -> list[dict[str, Any]]:
        """One row per cell, and one for their mean."""
        rows, best, to_smetric = [], [], []
        smetrics = [policy for policy in self.policies if policy.split(",")[0] == SMETRIC]
        for cell, runs in self.cells.items():
            rival = self.rival(cell)
            smetric = max(smetrics, key=lambda policy: runs.maximum(policy).mean(), default=rival)
            best.append(self.log_ratio(cell, rival))
            to_smetric.append(self.log_ratio(cell, smetric))
            mean, low, high = self.interval(best[-1])
            rows.append({
                "cell": cell,
                f"max_{self.target}": runs.maximum(self.learned).mean(),
                "best_reference": rival,
                "difference_percent": mean, "low_percent": low, "high_percent": high,
                "to_smetric_percent": self.interval(to_smetric[-1])[0],
                f"{BESIDE}_percent": self.interval(self.log_ratio(cell, rival, BESIDE))[0],
                "ttft_p99_s": self._at_maximum(runs, self.learned, "ttft_p99_s"),
                "reference_ttft_p99_s": self._at_maximum(runs, rival, "ttft_p99_s"),
                "sacrificed_share": self._at_maximum(runs, self.learned, "sacrificed_share"),
                "reference_sacrificed_share": self._at_maximum(runs, rival, "sacrificed_share"),
                "largest_instance_share": self._at_maximum(runs, self.learned, "largest_instance_share"),
                "max_at_edge": bool((runs.best_load(self.learned) == len(runs.loads) - 1).any()),
            })  # fmt: skip
        mean, low, high = self.interval(np.array(best))
        overall = dict.fromkeys(rows[0], float("nan")) | {
            "cell": "mean of the cells", "best_reference": "best of each", "difference_percent": mean,
            "low_percent": low, "high_percent": high, "to_smetric_percent": self.interval(np.array(to_smetric))[0],
            f"{BESIDE}_percent": float(np.mean([row[f"{BESIDE}_percent"] for row in rows])), "max_at_edge": False,
        }  # fmt: skip
        return [*rows, overall]

    def maxima(self) -> list[dict[str, Any]]:
        """One row per cell and policy: mean maximum over the seeds, and its spread."""
        rows = []
        for cell, runs in self.cells.items():
            for row in runs.summary():
                p99 = self._at_maximum(runs, row["policy"], "ttft_p99_s")
                rows.append({"cell": cell, **row, "ttft_p99_s": p99})
        return rows

    def tables(self) -> list:
        """Rich tables: the differences, and the maximum of every policy in every cell."""
        unit = SCORES[self.target].unit
        shown = []
        for row in self.rows():
            shown.append((
                row["cell"], row["best_reference"],
                f"{row['difference_percent']:+.1f} % ({row['low_percent']:+.1f} to {row['high_percent']:+.1f})",
                f"{row['to_smetric_percent']:+.1f} %", f"{row[f'{BESIDE}_percent']:+.1f} %",
                number(row["ttft_p99_s"]), number(row["reference_ttft_p99_s"]),
            ))  # fmt: skip
        names = ("cell", "best reference", f"{self.learned}: difference (95 %)", "to best smetric", "prefill only",
                 "p99 TTFT (s)", "its reference's")  # fmt: skip
        title = f"Maximum of {self.target} over the loads, paired over {len(self.seeds)} seeds"
        maxima = [
            (cell, *(number(runs.maximum(policy).mean(), unit) for policy in self.policies))
            for cell, runs in self.cells.items()
        ]
        return [
            plain_table(("cell", *self.policies), maxima, f"Mean maximum of {self.target} ({unit})"),
            plain_table(names, shown, title),
        ]

    def markdown(self) -> str:
        """The differences as a Markdown table."""
        head = "| cell | best reference | difference (95 % interval) | to the best smetric | prefill only | "
        lines = [head + "p99 TTFT, its reference's (s) | sacrificed |", "|---|---|---|---|---|---|---|"]
        for row in self.rows():
            between = f"{row['low_percent']:+.1f} to {row['high_percent']:+.1f}"
            p99 = f"{number(row['ttft_p99_s'])}, {number(row['reference_ttft_p99_s'])}"
            cells = (row["cell"], row["best_reference"], f"{row['difference_percent']:+.1f} % ({between})",
                     f"{row['to_smetric_percent']:+.1f} %", f"{row[f'{BESIDE}_percent']:+.1f} %", p99,
                     number(row["sacrificed_share"], "share"))  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"

    def save(self, folder: Path) -> None:
        """Write ``heldout.csv``, ``maxima.csv``, ``runs.csv``, ``heldout.json`` and ``heldout.md``."""
        runs = []
        for record in self.records:
            what = {"cell": label(record["settings"]), "policy": record["policy"], "load": record["load"]}
            runs.append({**what, **record["scores"]})
        write_csv(folder / "heldout.csv", self.rows())
        write_csv(folder / "maxima.csv", self.maxima())
        write_csv(folder / "runs.csv", runs)
        found = {"target": self.target, "seeds": self.seeds, "cells": self.rows()}
        write_whole(folder / "heldout.json", as_json(found))
        write_whole(folder / "heldout.md", self.markdown())

    def draw(self, folder: Path) -> Path:
        """The difference of every policy to the best reference of each cell, as a figure."""
        from smetric_gym.experiment.heldout_figure import draw

        return draw(self, folder)

    def _at_maximum(self, runs: Comparison, policy: str, score: str) -> float:
        """A score at the load of each seed's maximum, mean over seeds."""
        values = runs.values(policy, score)[runs.best_load(policy), np.arange(len(runs.seeds))]
        return float(values.mean())
