"""Question 4: what the links of the global tier must carry, and how long a fetch takes, over NICs and ways to load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from smetric_gym.experiment.compare import Job, plan
from smetric_gym.reproduce.grid import cells, seeds_of
from smetric_gym.reproduce.questions.fetches import WINDOW_S, fetched
from smetric_gym.reproduce.questions.pieces import make_all
from smetric_gym.reproduce.statistics import interval
from smetric_gym.reproduce.study import Outcome, Work
from smetric_gym.reproduce.style import line_of, name_of, new_figure

NICS, LOADS = "cluster.nics_per_server", "cluster.loads"
GIGA = 1e9


def question_4(work: Work) -> Outcome:
    """Read bandwidth over time, its peak, and the latency of a fetch, against NICs per server and kinds of loads."""
    planned: list[tuple[dict[str, Any], Job]] = []
    for cell, inside in cells(work.settings):
        for job in plan(inside, inside["policies"], inside["loads"], seeds_of(inside), target=inside["target"]):
            planned.append((cell, job))
    found = make_all(work, fetched, [job for _, job in planned], {})
    runs = [
        {"cell": cell, "policy": job["label"], "load": job["load"], "seed": job["seed"], **values}
        for (cell, job), values in zip(planned, found, strict=True)
    ]
    table = [
        _row([r for r in runs if r["cell"] == cell and r["policy"] == policy], cell, policy, _shown_load(work))
        for cell, _ in cells(work.settings)
        for policy in dict.fromkeys(r["policy"] for r in runs)
    ]
    over_time = _over_time(runs, work)
    return Outcome(table, _picture(table, over_time, work), _words(table, work), more={"over_time": over_time})


def _shown_load(work: Work) -> float:
    """The load in the middle of the experiment's: where bandwidths and latencies are compared."""
    loads = sorted(work.settings["loads"])
    return loads[len(loads) // 2]


def _row(runs: Sequence[Mapping[str, Any]], cell: Mapping[str, Any], policy: str, load: float) -> dict[str, Any]:
    """One policy in one cell: means over the seeds at one load, and the maximum of the target over the loads."""
    here = [r for r in runs if r["load"] == load]
    seeds = sorted({r["seed"] for r in runs})
    best = interval(np.array([max(r["tps_within_slo"] for r in runs if r["seed"] == seed) for seed in seeds]))

    def mean(of: Any) -> float:
        return float(np.mean([of(r) for r in here]))

    return {
        "nics_per_server": cell[NICS], "loads": cell[LOADS], "policy": policy, "load": load,
        "read_gb_per_s_per_server": mean(lambda r: np.mean(r["read_bytes_per_s"]) / r["servers"] / GIGA),
        "peak_gb_per_s_per_server": mean(lambda r: np.max(r["read_bytes_per_s"]) / r["servers"] / GIGA),
        "mean_nic": mean(lambda r: r["mean_nic"]), "busiest_nic": mean(lambda r: r["busiest_nic"]),
        "fetches": mean(lambda r: r["fetches"]), "gb_per_fetch": mean(lambda r: r["bytes_per_fetch"] / GIGA),
        "fetch_p50_s": mean(lambda r: r["fetch_p50_s"]), "fetch_p99_s": mean(lambda r: r["fetch_p99_s"]),
        "waited_share": mean(lambda r: r["waited_share"]),
        "max_tps_within_slo": best.mean, "low": best.low, "high": best.high, "seeds": len(seeds),
    }  # fmt: skip


def _used(work: Work) -> dict[str, Any]:
    """The cell of the set-up that the figures use, or the first where that is not among them."""
    cluster, all_cells = work.settings["cluster"], [cell for cell, _ in cells(work.settings)]
    used = {NICS: cluster["nics_per_server"], LOADS: cluster["loads"]}
    return used if used in all_cells else all_cells[0]


def _over_time(runs: Sequence[Mapping[str, Any]], work: Work) -> list[dict[str, Any]]:
    """Read bandwidth per window of the first seed, in the cell that the figures use."""
    seed, begin = seeds_of(work.settings)[0], work.settings["warm_up_s"]
    here = [r for r in runs if (r["cell"], r["load"], r["seed"]) == (_used(work), _shown_load(work), seed)]
    return [
        {"policy": r["policy"], "time_s": begin + k * WINDOW_S, "gb_per_s_per_server": value / r["servers"] / GIGA}
        for r in here
        for k, value in enumerate(r["read_bytes_per_s"])
    ]


def _words(table: Sequence[Mapping[str, Any]], work: Work) -> list[str]:
    policies = list(dict.fromkeys(row["policy"] for row in table))
    by = {(row["nics_per_server"], row["loads"], row["policy"]): row for row in table}
    used, cluster = _used(work), work.settings["cluster"]
    here = {policy: by[used[NICS], used[LOADS], policy] for policy in policies}
    line_rate = used[NICS] * cluster["nic_bytes_per_s"] / GIGA
    nics = sorted({row["nics_per_server"] for row in table})
    words = [
        f"At load {_shown_load(work):g} with {used[NICS]} NICs and {used[LOADS]} loads a server reads on average "
        + ", ".join(f"{here[p]['read_gb_per_s_per_server']:.2f} GB/s ({name_of(p)})" for p in policies)
        + f", of the {line_rate:g} GB/s that its NICs carry; in the busiest {WINDOW_S:g} s "
        + ", ".join(f"{here[p]['peak_gb_per_s_per_server']:.1f} ({name_of(p)})" for p in policies)
        + ".",
        "Half of the fetches take less than "
        + ", ".join(f"{here[p]['fetch_p50_s']:.2f} s ({name_of(p)})" for p in policies)
        + ", one in a hundred more than "
        + ", ".join(f"{here[p]['fetch_p99_s']:.1f} s ({name_of(p)})" for p in policies)
        + "; "
        + ", ".join(f"{here[p]['waited_share']:.0%}" for p in policies)
        + " of that time is spent waiting for links.",
    ]
    for kind in dict.fromkeys(row["loads"] for row in table):
        most, few = ({p: by[n, kind, p]["max_tps_within_slo"] for p in policies} for n in (nics[-1], nics[0]))
        words.append(
            f"From {nics[-1]} NICs to {nics[0]}, with {kind} loads, the maximum of TPS within SLO changes by "
            + ", ".join(f"{100 * (few[p] / most[p] - 1):+.1f} % ({name_of(p)})" for p in policies)
            + f"; at {nics[0]} the busiest NIC is taken "
            + ", ".join(f"{by[nics[0], kind, p]['busiest_nic']:.0%}" for p in policies)
            + " of the time."
        )
    return words


def _picture(table: Sequence[Mapping[str, Any]], over_time: Sequence[Mapping[str, Any]], work: Work) -> Figure:
    figure, axes = new_figure(11, 7, 2, 2)
    bandwidth, busy, fetch, target = axes.flat
    policies = list(dict.fromkeys(row["policy"] for row in table))
    nics = sorted({row["nics_per_server"] for row in table})
    used = _used(work)
    for k, policy in enumerate(policies):
        line = line_of(policy, k)
        colour = line["color"]
        points = [row for row in over_time if row["policy"] == policy]
        bandwidth.plot([p["time_s"] / 60 for p in points], [p["gb_per_s_per_server"] for p in points],
                       color=colour, linewidth=1, label=name_of(policy))  # fmt: skip
        for kind, dashes in (("blocking", "-"), ("async", "--")):
            rows = [r for r in table if (r["policy"], r["loads"]) == (policy, kind)]
            rows.sort(key=lambda r: r["nics_per_server"])
            x, style = range(len(rows)), line | {"linestyle": dashes, "markersize": 4}
            busy.plot(x, [100 * r["busiest_nic"] for r in rows], **style)
            fetch.plot(x, [r["fetch_p99_s"] for r in rows], **style)
            fetch.plot(x, [r["fetch_p50_s"] for r in rows], **(style | {"alpha": 0.45}))
            target.errorbar(x, [r["max_tps_within_slo"] / 1000 for r in rows], yerr=_ends(rows), capsize=2, **style)
    rate = used[NICS] * work.settings["cluster"]["nic_bytes_per_s"] / GIGA
    where = f"load {_shown_load(work):g}, {used[NICS]} NICs ({rate:g} GB/s), {used[LOADS]}"
    bandwidth.set(xlabel="time (min)", ylabel="GB/s per server", title=f"(a) reads over time, {where}")
    busy.set(ylabel="share of the time (%)", ylim=(0, 105), title="(b) the busiest NIC is taken")
    fetch.set(ylabel="s", yscale="log", title="(c) a fetch: 99th percentile, and median (pale)")
    target.set(ylabel="thousand tokens/s", title="(d) maximum of TPS within SLO")
    for axis in (busy, fetch, target):
        axis.set_xticks(range(len(nics)), [f"{n}" for n in nics])
        axis.set_xlabel("NICs per server (solid: blocking loads, dashed: asynchronous)")
    figure.legend(*bandwidth.get_legend_handles_labels(), loc="outside lower center", ncols=len(policies))
    return figure


def _ends(rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Lengths of error bars in thousands, [2, points]; 0 where there is no interval."""
    ends = [[r["max_tps_within_slo"] - r["low"] for r in rows], [r["high"] - r["max_tps_within_slo"] for r in rows]]
    return np.nan_to_num(np.array(ends)) / 1000
