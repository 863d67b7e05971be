"""`smetric-gym explain`: what a learned policy leans on, and where it departs from SMetric."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numba
import numpy as np
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from smetric_gym.agents.features import FEATURES, observe
from smetric_gym.agents.learned import Weights, scores
from smetric_gym.agents.memory import REASON, Reason
from smetric_gym.agents.policy import load_policy
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import policy as policy_of
from smetric_gym.experiment.prepare import prepare
from smetric_gym.experiment.settings import settings_of
from smetric_gym.experiment.store import as_json, write_whole
from smetric_gym.experiment.tables import number, plain_table, terminal, write_csv
from smetric_gym.experiment.tasks import say_if_compiling

BESIDE = "smetric"
SHOWN = {"miss": "share of the prompt not cached there", "log_batch": "requests in flight (ln)",
         "ttft_tier": "predicted TTFT / limit", "context_of_mean": "context in flight / mean",
         "stall": "decodes stalled by it (ln)"}  # fmt: skip
"""Features of which the decision table shows the difference, and what they are called there."""
DECISIONS = 4000


class Explanation:
    """Decisions of a learned policy on one run, with what SMetric would have done at each of them.

    Args:
        settings: of the run; their policy must be a learned one.

    Attributes:
        rows: [decisions, instances, FEATURES] float32, at most `DECISIONS` of them, evenly spaced.
        ours: [decisions] the instance that was chosen.
        theirs: [decisions] what SMetric would have chosen.
        reasons: [decisions] why SMetric would have (`Reason`).
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        policy = policy_of(settings).compile()
        if not isinstance(policy.params, Weights):
            raise SmetricError(f"explain takes policy=learned, found policy {policy.name}")
        self.weights = policy.params
        setup = prepare(settings)
        other = load_policy(BESIDE, disaggregated=setup.config.disaggregated).compile()
        cluster, look = setup.cluster(), numba.njit(observe)
        memories = [p.new_memory(setup.trace.sessions, setup.seed) for p in (policy, other)]
        every = max(1, len(setup.trace) // DECISIONS)
        rows, chosen, count = [], [], 0
        more = cluster.advance()
        while more:
            view, request = cluster.view.view(np.ndarray), cluster.request
            ours, theirs = policy(view, request, memories[0]), other(view, request, memories[1])
            if count % every == 0 and cluster.now_s >= setup.warm_up_s:
                rows.append(look(view, request))
                chosen.append((ours, theirs, int(memories[1][REASON])))
            count += 1
            more = cluster.step(ours, int(memories[0][REASON]))
        if not rows:
            raise SmetricError("no request arrived after the warm-up: change warm_up_s, window_s or load")
        self.rows = np.array(rows)
        self.ours, self.theirs, self.reasons = np.array(chosen).T

    def leans_on(self) -> list[dict[str, Any]]:
        """Per feature of a weighted sum: its weight, how much it says, and how many decisions hang on it.

        ``spread`` is |weight| times the mean standard deviation over the instances of a decision; ``decides`` the
        share of decisions that another instance would win without the feature.
        """
        linear = self.weights.linear
        whole = self._score(self.weights)
        best = whole.argmax(axis=1)
        spread = self.rows.std(axis=1).mean(axis=0)
        found = []
        for k, name in enumerate(FEATURES):
            if linear[k]:
                without = whole - linear[k] * self.rows[:, :, k]
                changed = float((without.argmax(axis=1) != best).mean())
                found.append({"feature": name, "weight": float(linear[k]), "spread": float(abs(linear[k]) * spread[k]),
                              "decides": changed})  # fmt: skip
        return sorted(found, key=lambda row: -row["decides"])

    def departures(self) -> list[dict[str, Any]]:
        """Per reason of SMetric: how often the policy does the same, and what is different where it does not.

        A tie that is broken another way counts as different.
        """
        found = []
        for reason in Reason:
            here = self.reasons == reason
            if not here.any():
                continue
            apart = np.flatnonzero(here & (self.ours != self.theirs))
            gap = self.rows[apart, self.ours[apart]] - self.rows[apart, self.theirs[apart]]
            row: dict[str, Any] = {
                "smetric": reason.name,
                "share": float(here.mean()),
                "same": float(1 - len(apart) / here.sum()),
            }
            for name in SHOWN:
                column = gap[:, list(FEATURES).index(name)]
                row[f"{name}_difference"] = float(column.mean()) if len(apart) else float("nan")
            found.append(row)
        return found

    def _score(self, weights: Weights) -> np.ndarray:
        """[decisions, instances]; -inf for instances that are not alive, whose features are all 0."""
        compiled, alive = numba.njit(scores), np.asarray(self.rows.any(axis=2))
        found = np.array([compiled(rows, up, weights) for rows, up in zip(self.rows, alive, strict=True)])
        return np.where(alive, found, -np.inf)


def explain_task(config: DictConfig) -> None:
    """Explain the learned policy of the configuration; results go into Hydra's output folder."""
    console = terminal()
    settings, folder = settings_of(config), Path(HydraConfig.get().runtime.output_dir)
    say_if_compiling(console)
    found = Explanation(settings)
    leans, departs = found.leans_on(), found.departures()
    if leans:
        shown = [
            (r["feature"], f"{r['weight']:+.3f}", number(r["spread"]), number(r["decides"], "share")) for r in leans
        ]
        console.print(plain_table(("feature", "weight", "weight x spread", "decides"), shown, "What it leans on"))
        write_csv(folder / "features.csv", leans)
    columns = ("smetric would", "of all", "same choice", *SHOWN.values())
    shown = [
        (r["smetric"], number(r["share"], "share"), number(r["same"], "share"),
         *(f"{r[f'{name}_difference']:+.2f}".replace("+nan", "-") for name in SHOWN))
        for r in departs
    ]  # fmt: skip
    title = f"{len(found.ours):,} decisions; last columns: its choice minus {BESIDE}'s, where they differ"
    console.print(plain_table(columns, shown, title))
    write_csv(folder / "departures.csv", departs)
    write_whole(folder / "explanation.json", as_json({"features": leans, "departures": departs}))
    console.print(f"written to {folder}")
