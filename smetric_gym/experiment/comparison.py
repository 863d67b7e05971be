"""What a comparison says: the maximum of each policy over the loads, its spread, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.settings import unknown
from smetric_gym.experiment.store import as_json, write_whole
from smetric_gym.experiment.tables import as_text, number, plain_table, write_csv
from smetric_gym.scoring import SCORES

TARGET = "tps_within_slo"
AT_MAXIMUM = (
    "local_hit_ratio", "global_hit_ratio", "load_imbalance", "slo_attainment", "largest_instance_share",
    "sacrificed_share",
)  # fmt: skip
"""Scores that the summary repeats from the run that gave each seed's maximum."""
TARGETS = (
    "tps_within_slo", "output_tps_within_slo", "prefill_tps_within_slo", "tps", "slo_attainment",
    "local_hit_ratio", "global_hit_ratio", "reuse_ratio",
)  # fmt: skip
"""Scores of a policy of which more is better."""


def check_summary(policies: Sequence[str], baseline: str | None, target: str) -> None:
    """Refuse a baseline that is not compared, or a target whose maximum is not the best."""
    if baseline is not None and baseline not in policies:
        raise SmetricError(unknown("baseline", baseline, policies))
    if target not in TARGETS:
        raise SmetricError(unknown("target", target, TARGETS))


class Comparison:
    """Runs of policies over loads and seeds, and what follows from them.

    The maximum of a policy is taken over the loads for each seed, then averaged over the seeds; a spread is
    the sample standard deviation over seeds. Differences are paired: same seed, maximum against maximum.

    Args:
        records: from `evaluate.Result.record`, one per run, complete in policies x loads x seeds.
        baseline: policy that differences are taken to; None takes the best of the others.
        target: the score that is maximised, one of `TARGETS`; prefill_tps_within_slo for a disaggregated cluster.
    """

    def __init__(
        self, records: Sequence[Mapping[str, Any]], baseline: str | None = None, target: str = TARGET
    ) -> None:
        self.records, self.baseline, self.target = list(records), baseline, target
        self.policies = list(dict.fromkeys(r["policy"] for r in records))
        self.loads = sorted({r["load"] for r in records})
        self.seeds = list(dict.fromkeys(r["scores"]["seed"] for r in records))
        self._by = {(r["policy"], r["load"], r["scores"]["seed"]): r for r in records}
        check_summary(self.policies, baseline, target)

    def record(self, policy: str, load: float, seed: int) -> Mapping[str, Any]:
        """The record of one run."""
        return self._by[policy, load, seed]

    def values(self, policy: str, score: str) -> np.ndarray:
        """A score of a policy, [loads, seeds] float64; nan where a run has none."""
        rows = [[self._by[policy, load, seed]["scores"][score] for seed in self.seeds] for load in self.loads]
        return np.array([[np.nan if v is None else v for v in row] for row in rows], dtype=np.float64)

    def best_load(self, policy: str) -> np.ndarray:
        """Index of the load with the policy's maximum for each seed, [seeds]; the first of equals."""
        return self.values(policy, self.target).argmax(axis=0)

    def maximum(self, policy: str) -> np.ndarray:
        """Maximum over the loads for each seed, [seeds]."""
        return self.values(policy, self.target).max(axis=0)

    def rival(self, policy: str) -> str | None:
        """The policy that differences of ``policy`` are taken to; None where there is no other."""
        others = [p for p in self.policies if p != policy]
        if self.baseline is not None:
            return self.baseline if self.baseline != policy else None
        return max(others, key=lambda p: self.maximum(p).mean(), default=None)

    def summary(self) -> list[dict[str, Any]]:
        """One row per policy, the highest mean maximum first."""
        rows = []
        for policy in self.policies:
            best, maximum, rival = self.best_load(policy), self.maximum(policy), self.rival(policy)
            row: dict[str, Any] = {
                "policy": policy,
                f"max_{self.target}": maximum.mean(),
                "spread": _spread(maximum),
                "load_at_max": float(np.mean([self.loads[k] for k in best])),
                "lowest_load_at_max": self.loads[best.min()],
                "highest_load_at_max": self.loads[best.max()],
                "compared_to": rival or "",
                "difference": np.nan,
                "difference_spread": np.nan,
            }
            if rival is not None:
                other = self.maximum(rival)
                difference = np.divide(maximum, other, out=np.full_like(maximum, np.nan), where=other > 0) - 1
                row["difference"], row["difference_spread"] = difference.mean(), _spread(difference)
            for score in AT_MAXIMUM:
                values = self.values(policy, score)[best, np.arange(len(self.seeds))]
                row[score] = values.mean()
            row["outside_slo"] = 1 - row.pop("slo_attainment")
            states = [self.record(policy, self.loads[k], s)["scores"]["saturation"]
                      for k, s in zip(best, self.seeds, strict=True)]  # fmt: skip
            row["saturation_at_max"] = "/".join(dict.fromkeys(states))
            row["max_at_edge"] = bool((best == len(self.loads) - 1).any() and len(self.loads) > 1)
            rows.append(row)
        return sorted(rows, key=lambda row: -row[f"max_{self.target}"])

    def tables(self) -> list:
        """The score over the loads, the maxima, and each policy at its maximum, as rich tables."""
        target, unit, seeds = self.target.replace("_", " "), SCORES[self.target].unit, len(self.seeds)

        def shown(value: float) -> str:
            return number(value, unit)

        maxima, there = [], []
        for row in self.summary():
            maxima.append((
                row["policy"],
                _plus_minus(row[f"max_{self.target}"], row["spread"], shown),
                _loads(row) + "+" * row["max_at_edge"],
                row["compared_to"],
                _plus_minus(row["difference"], row["difference_spread"], _percent),
            ))  # fmt: skip
            there.append((
                row["policy"],
                *(number(row[name], "share") for name in ("local_hit_ratio", "global_hit_ratio")),
                number(row["load_imbalance"]),
                *(number(row[name], "share") for name in ("outside_slo", "largest_instance_share")),
                row["saturation_at_max"],
            ))  # fmt: skip
        over = []
        for policy in self.policies:
            values = self.values(policy, self.target)
            over.append((policy, *(_plus_minus(v.mean(), _spread(v), shown) for v in values)))
        words = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else f"seed {self.seeds[0]}"
        edge = any(row[2].endswith("+") for row in maxima)
        marked = "\n+: some seed has it at the highest load that was run, so more load may give more" if edge else ""
        taken = ", taken per seed, then averaged" if seeds > 1 else ""
        shares = ("policy", "local hit", "global hit", "max/ mean", "outside SLO", "largest share", "state")
        title = f"{target}{'' if unit == 'share' else f' ({unit})'}, {words}"
        return [
            plain_table(("policy", *(f"load {load:g}" for load in self.loads)), over, title),
            plain_table(("policy", "maximum", "at load", "compared to", "difference"), maxima,
                        f"Maximum over the loads{taken}{marked}"),
            plain_table(shares, there, "Each policy at its maximum"),
        ]  # fmt: skip

    def table(self) -> str:
        """The same as plain text."""
        return "\n\n".join(as_text(table) for table in self.tables())

    def save(self, folder: str | Path) -> None:
        """Write ``comparison.json``, ``runs.csv`` and ``summary.csv``."""
        folder = Path(folder)
        runs = [{"policy": r["policy"], "load": r["load"], **r["scores"]} for r in self.records]
        plain = [{k: v for k, v in r.items() if k != "curves"} for r in self.records]
        write_csv(folder / "runs.csv", runs)
        write_csv(folder / "summary.csv", self.summary())
        write_whole(folder / "comparison.json", as_json({"summary": self.summary(), "runs": plain}))

    def draw(self, folder: str | Path) -> list[Path]:
        """Draw all figures into a folder; see `figures`."""
        from smetric_gym.experiment.figures import draw_all

        return draw_all(self, Path(folder))


def _loads(row: Mapping[str, Any]) -> str:
    """The loads at which the seeds have their maxima: one, or the lowest and the highest."""
    low, high = row["lowest_load_at_max"], row["highest_load_at_max"]
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def _spread(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def _percent(value: float) -> str:
    return "" if np.isnan(value) else f"{100 * value:+.1f} %"


def _plus_minus(mean: float, spread: float, shown) -> str:
    return shown(mean) if np.isnan(spread) else f"{shown(mean)} ± {shown(spread).lstrip('+')}"
