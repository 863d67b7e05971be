"""The tasks of the command line: what evaluate, compare and audit do with a composed configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.compare import plan, run_all
from smetric_gym.experiment.comparison import Comparison
from smetric_gym.experiment.compiled import COMPILING, is_compiled
from smetric_gym.experiment.evaluate import run
from smetric_gym.experiment.prepare import check_boolean, workload
from smetric_gym.experiment.settings import settings_of
from smetric_gym.experiment.store import Store, as_json, write_whole
from smetric_gym.experiment.sweep import RUN_FILE, SWEPT_FILE
from smetric_gym.experiment.tables import REQUEST_TABLES, number, plain_table, scores_table, terminal, write_requests

OF_COMPARE = ("policies", "loads", "seeds", "baseline", "target", "jobs")
OF_RUN = ("policy", "load", "seed")
"""Keys that only one of the commands heeds, so that the other refuses them."""


def evaluate_task(config: DictConfig) -> None:
    """One run: the table on the terminal, JSON (and the table of requests) in Hydra's output folder."""
    console, hydra = terminal(), HydraConfig.get()
    settings, folder = settings_of(config), Path(hydra.runtime.output_dir)
    wanted = settings["requests_table"]
    _refuse(hydra.overrides.task, OF_COMPARE, "evaluate takes no {0}, which only compare heeds")
    check_boolean("force", settings["force"])
    if wanted not in REQUEST_TABLES:
        raise SmetricError(f"requests_table is {wanted!r}, allowed: {', '.join(REQUEST_TABLES)}")
    store = Store(Path(settings["output"]) / "store")
    key = store.key(settings)
    again = settings["force"] or settings["debug"] or wanted != "none"
    record = None if again else store.load(key)
    found = record is not None
    if record is None:
        say_if_compiling(console)
        with progress_bar(console, settings["warm_up_s"] + settings["window_s"], "simulated s") as progress:
            result = run(settings, progress=progress)
        write_requests(folder, wanted, result.scored)
        store.save(key, result.record())
        record = store.load(key)
        assert record is not None  # saved a moment ago
    write_whole(folder / RUN_FILE, as_json(record))
    if hydra.mode == RunMode.MULTIRUN:
        swept = dict(item.lstrip("+~").partition("=")[::2] for item in hydra.overrides.task)
        write_whole(folder / SWEPT_FILE, as_json({name: value for name, value in swept.items() if value}))
        words = f"{record['scores']['tps_within_slo']:,.0f} tokens/s within SLO"
        changed = ", ".join(item.lstrip("+") for item in hydra.overrides.task)
        console.print(f"{changed}: {words}{' (from the store)' if found else ''}")
        return
    scores = {name: float("nan") if value is None else value for name, value in record["scores"].items()}
    cluster, name = settings["cluster"], record["trace"]["name"]
    title = f"{record['policy']} on {cluster['instances']} instances, {name}, load {settings['load']:g}"
    console.print(scores_table(scores, f"{title}, global tier {cluster['global_tier']:g}", console.width))
    print_report(console, record["trace"]["report"])
    console.print(f"{'from the store (force=true runs it again), ' if found else ''}written to {folder}")


def compare_task(config: DictConfig) -> None:
    """A comparison: tables on the terminal; files and figures in Hydra's output folder."""
    console = terminal()
    settings, folder = settings_of(config), Path(HydraConfig.get().runtime.output_dir)
    instead = "compare takes no {0}, allowed: policies=[...], loads=[...] and seeds=[...]"
    _refuse(HydraConfig.get().overrides.task, OF_RUN, instead)
    how = {"baseline": settings["baseline"], "target": settings["target"]}
    runs = plan(settings, settings["policies"], settings["loads"], settings["seeds"], **how)
    check_boolean("force", settings["force"])
    say_if_compiling(console)
    store, finished = Path(settings["output"]) / "store", 0
    with progress_bar(console, len(runs), "runs") as progress:

        def after(done: int, of: int) -> None:
            nonlocal finished
            finished = done
            progress(done)

        try:
            records = run_all(
                runs, jobs=settings["jobs"], store=store, force=settings["force"], progress=after
            )
        except KeyboardInterrupt:
            console.print(
                f"interrupted: {finished} of {len(runs)} runs are finished and kept in {store}; the same "
                "command goes on from there"
            )
            raise
    comparison = Comparison(records, **how)
    for table in comparison.tables():
        console.print(table)
    comparison.save(folder)
    comparison.draw(folder)
    console.print(f"tables, figures and their data written to {folder}")


def audit_task(config: DictConfig) -> None:
    """An audit: numbers and words on the terminal; figure and JSON in Hydra's output folder."""
    from smetric_gym.workload.audit import audit
    from smetric_gym.workload.audit_figure import draw

    console = terminal()
    settings, folder = settings_of(config), Path(HydraConfig.get().runtime.output_dir)
    instances = settings["cluster"]["instances"]
    trace = workload({**settings, "arrival_mode": "open"}, instances)  # an audit reads the recorded times
    warm_up_s = settings["warm_up_s"] if trace.requests["arrival"][-1] > settings["warm_up_s"] else 0.0
    found = audit(trace, block=settings["cluster"]["block_tokens"], instances=instances, warm_up_s=warm_up_s)
    rows = []
    for label, value, unit in found.rows():
        share = unit in ("fraction", "share")
        rows.append((label, number(value, "share" if share else unit), "" if share else unit))
    console.print(plain_table(["", "value", "unit"], rows, f"{trace.name}: {len(trace):,} requests"))
    for sentence in found.words():
        console.print(f"- {sentence}")
    print_report(console, trace.report)
    write_whole(folder / "audit.json", as_json(found.as_dict()))
    draw(found, folder / "audit.png")
    console.print(f"numbers and figure written to {folder}")


def _refuse(overrides: Iterable[str], keys: Iterable[str], words: str) -> None:
    """Refuse keys on the command line that would change nothing."""
    for override in overrides:
        key = override.lstrip("+").partition("=")[0]
        if key.partition(".")[0] in keys:
            raise SmetricError(words.format(key))


@contextmanager
def progress_bar(console: Console, total: float, what: str) -> Iterator[Callable[..., None]]:
    """A progress bar where there is a terminal, nothing where there is none; yields ``advance(completed, total)``."""
    amount = TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + what)
    columns = (BarColumn(), amount, TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda completed, of=total: bar.update(task, completed=min(completed, of), total=of)


def say_if_compiling(console: Console) -> None:
    """Tell a first user what takes so long."""
    if not is_compiled():
        console.print(COMPILING)


def print_report(console: Console, report: dict[str, float]) -> None:
    """What the reader or the generator of the workload met."""
    for words, count in report.items():
        console.print(f"workload: {words}: {number(count)}", style="dim", highlight=False)
