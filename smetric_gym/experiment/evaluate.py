"""One run: a policy routes a workload over a cluster, and what it is worth comes back as a dict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import Setup, at_load, prepare
from smetric_gym.experiment.prepare import policy as policy_of
from smetric_gym.experiment.settings import GROUPS, choices, compose
from smetric_gym.experiment.store import RUN_KEYS
from smetric_gym.measures import Scored
from smetric_gym.scoring import Scores
from smetric_gym.slo import SLO
from smetric_gym.workload.trace import Trace

if TYPE_CHECKING:
    from smetric_gym.agents.policy import Policy

COMMAND_LINE = {
    "experiment": "its values, one by one",
    "requests_table": "tables.write_requests(folder, kind, result.scored)",
    "output": "compare(..., store=FOLDER)",
    **dict.fromkeys(("policies", "loads", "seeds", "baseline", "target", "jobs", "force"), "compare(...)"),
}
"""Keys of ``conf/config.yaml`` that a run from Python would not heed, and what does the same."""
QUANTILES = 401
HEAT_WINDOW_S = 30.0
MINUTE_S = 60.0


class Result(Scores):
    """The scores of a run by name (see ``scoring.SCORES``), with what they come from.

    Attributes:
        policy: name of the policy.
        setup: the trace, cluster and limits of the run.
        outcome: [requests] ``cluster.OUTCOME``, what became of every request.
        scored: the requests that count, and helpers on them.
    """

    policy: str
    setup: Setup
    outcome: np.ndarray
    scored: Scored

    @property
    def trace(self) -> Trace:
        """What arrived."""
        return self.setup.trace

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings of the run, nested."""
        return self.setup.settings

    def table(self) -> str:
        """The scores as text: name, value, unit and definition."""
        from smetric_gym.experiment.tables import as_text, scores_table

        return as_text(scores_table(self, self.policy))

    def record(self) -> dict[str, Any]:
        """The run for JSON: its settings, scores, and the curves that figures need."""
        return {
            "policy": self.policy,
            "load": self.config["load"],
            "scores": dict(self),
            "settings": {name: self.config[name] for name in RUN_KEYS},
            "trace": {"name": self.trace.name, "requests": len(self.trace), "report": self.trace.report},
            "curves": curves(self.scored),
        }


def evaluate(
    policy: str | Callable | Policy | Mapping[str, Any] = "smetric",
    *,
    progress: Callable[[float], Any] | None = None,
    **settings: Any,
) -> Result:
    """Run one policy on one workload and cluster, and score it.

    Args:
        policy: a name, a function ``(view, request, memory, params) -> instance``, ``"file.py:function"``,
            a Policy, or a mapping of a name and parameters.
        progress: called now and then with the simulated time in s.
        **settings: whatever ``conf/config.yaml`` has. A group takes the name of one of its files
            (``cluster="mixed"``), a mapping of changes, or an object: ``workload`` a Trace or a path, ``slo``
            an SLO. A Trace comes at ``load`` times its own rate, as a file does (``load_by``). Nested values
            also go by dotted names: ``**{"cluster.loads": "async"}``.

    Returns:
        The scores by name, with ``outcome``, ``trace``, ``config`` and ``table()``.

    Raises:
        SmetricError: one sentence about what makes no sense.

    Example:
        >>> evaluate("smetric", workload="trace1", load=1.5)["tps_within_slo"]  # doctest: +SKIP
    """
    values, trace, function = resolve(policy, settings)
    return run(values, trace=trace, function=function, progress=progress)


def run(
    settings: Mapping[str, Any],
    *,
    trace: Trace | None = None,
    function: Callable | Policy | None = None,
    progress: Callable[[float], Any] | None = None,
) -> Result:
    """The run that settings describe, of ``trace`` at their load if it is given; see `evaluate`."""
    setup = prepare(settings, trace)
    if trace is not None:
        served = at_load(trace, settings["load"], settings["load_by"], setup.seed)
        setup = replace(setup, trace=served)
    policy = policy_of(settings, function)
    policy.compile()
    cluster = setup.cluster(debug=settings["debug"])
    cluster.run(policy, seed=setup.seed, progress=progress)
    scored = setup.scored(cluster)
    if not len(scored.outcome):
        last_s = setup.trace.requests["arrival"][-1]
        raise SmetricError(
            f"no request arrived in the scored window of {setup.warm_up_s:g} to {scored.end_s:g} s, and the "
            f"last of {setup.trace.name} is recorded at {last_s:.0f} s: change warm_up_s, window_s or load"
        )
    result = Result(Scores.of(scored))
    result.policy, result.setup, result.outcome, result.scored = policy.name, setup, scored.all, scored
    return result


def resolve(policy: Any, given: Mapping[str, Any]) -> tuple[dict[str, Any], Trace | None, Any]:
    """Settings, trace and policy function from what a Python caller gives (names, mappings or objects)."""
    given = dict(given)
    for key in given:
        if key in COMMAND_LINE:
            raise SmetricError(f"{key} is a key of the command line, allowed in Python: {COMMAND_LINE[key]}")
    overrides, changes, trace, function = [], {}, None, None
    if isinstance(policy, str) and policy in choices("policy"):
        given["policy"] = policy
    elif isinstance(policy, Mapping):
        changes.update(_flat("policy", {k: v for k, v in policy.items() if k != "name"}))
        given["policy"] = policy.get("name", "smetric")
    else:
        function = policy
        overrides.append("policy=custom")
        changes["policy.name"] = None
    workload = given.get("workload")
    if isinstance(workload, Trace):
        trace = given.pop("workload")
    elif callable(workload):
        raise SmetricError("workload is a function, which only environments take, allowed: a Trace, a path or a name")
    elif isinstance(workload, Mapping) and "path" in workload:
        changes.update(_flat("workload", workload))
        given["workload"] = "file"
    elif isinstance(workload, (str, Path)) and set(str(workload)) & set("/."):
        given["workload"], changes["workload.path"] = "file", str(workload)
    if isinstance(given.get("slo"), SLO):
        changes.update(_flat("slo", vars(given.pop("slo"))))
    for key, value in given.items():
        if key in GROUPS and isinstance(value, str):
            overrides.append(f"{key}={value}")
        else:
            changes.update(_flat(key, value) if isinstance(value, Mapping) else {key: value})
    settings = compose(overrides, changes)
    return settings, trace, function


def curves(scored: Scored) -> dict[str, Any]:
    """Distributions as quantiles (0 to 1 in equal steps), and the load of every instance over time.

    Loads cover the whole run, warm-up included: ``in_flight_tokens`` are prompt tokens in flight, averaged over windows
    of 30 s; ``sent_tokens`` are prompt + output tokens of the requests sent to an instance in each minute.
    """
    levels = np.linspace(0, 1, QUANTILES)

    def quantiles(times: np.ndarray) -> list[float]:
        times = times[np.isfinite(times)]
        return np.quantile(times, levels).tolist() if len(times) else []

    windows = max(1, round(scored.end_s / HEAT_WINDOW_S))
    edges = np.linspace(0, scored.end_s, windows + 1)
    minutes = max(1, round(scored.end_s / MINUTE_S))
    return {
        "ttft_s": quantiles(scored.ttft_s),
        "ttft_of_limit": quantiles(scored.ttft_s / scored.slo.ttft_limit_s(scored.prompt)),
        "tpot_s": quantiles(scored.tpot_s),
        "edges_s": edges.tolist(),
        "in_flight_tokens": np.rint(scored.in_flight_tokens(edges)).astype(int).tolist(),
        "sent_tokens": _sent_tokens(scored, minutes).tolist(),
    }


def _sent_tokens(scored: Scored, minutes: int) -> np.ndarray:
    """Prompt + output tokens of the requests sent to each instance in each minute, [minutes, instances] int64."""
    sent, minute = np.zeros((minutes, scored.instances), dtype=np.int64), scored.all["arrival_s"] // MINUTE_S
    counted = (scored.all["instance"] >= 0) & (minute < minutes)  # nan (never arrived) is False
    requests = scored.trace.requests[counted]
    tokens = requests["prompt"].astype(np.int64) + requests["output"]
    np.add.at(sent, (minute[counted].astype(np.int64), scored.all["instance"][counted]), tokens)
    return sent


def _flat(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    result = {}
    for key, value in values.items():
        name = f"{prefix}.{key}"
        result.update(_flat(name, value) if isinstance(value, Mapping) else {name: value})
    return result
