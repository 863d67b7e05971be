"""The command line: ``smetric-gym COMMAND ...``; evaluate, compare and audit are Hydra applications."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smetric_gym.errors import SmetricError

if TYPE_CHECKING:
    from omegaconf import DictConfig

USAGE = """\
smetric-gym COMMAND [KEY=VALUE ...]: route the requests of LLM agents over a simulated cluster.

  audit        what a workload is like       smetric-gym audit workload=trace1
  evaluate     one run, all its scores       smetric-gym evaluate policy=smetric cluster=colocated load=1.5
               many runs, one table          smetric-gym evaluate --multirun policy.overload=1,2,inf
  compare      policies over loads, seeds    smetric-gym compare policies=[smetric,bailian,./mine.py:mine]
  reproduce    a figure of the paper         smetric-gym reproduce figure=16 (or all, beyond) [size=full]
  play         a page to see it and play it  smetric-gym play [--port 0] [--no-browser]
  lessons      eight lessons, as pages       smetric-gym lessons [--list] [--copy FOLDER]
  replay       a run as a page to look at    smetric-gym replay outputs/evaluate/DATE/TIME/result.json
  train        a router that learns          smetric-gym train agent=cmaes
  tune         parameters of a policy        smetric-gym tune policy=bailian
  heldout      learned beside tuned policies smetric-gym heldout heldout=quick
  learners     trained routers side by side  smetric-gym learners learners.policies=[FILE,FILE]
  explain      what a learned policy does    smetric-gym explain policy=learned load=1.25
  bench        speed and memory              smetric-gym bench [bench.path=FILE] [bench.large=true]
  calibration  the simulator and what was measured on real hardware
  fuzz         the event loop against the reference simulator    smetric-gym fuzz --clusters 300

`smetric-gym evaluate --help` shows every group and key with its unit and range. Bad input: exit code 2.
`smetric-gym --version` prints the version. The first run compiles the event loop, about half a minute.
"""

BENCH_USAGE = """\
smetric-gym bench [KEY=VALUE ...]: measure speed and memory on this machine.

  bench.path=FILE   a Mooncake JSONL trace for the first figure, instead of the built-in workload
  bench.large=true  also run 512 instances with a million requests
  output=FOLDER     where bench/bench.json is written (default: outputs)
"""
REPRODUCE_USAGE = """\
smetric-gym reproduce figure=NAME [size=full] [KEY=VALUE ...]: remake a figure of the paper, its data and its sentences.

  figure=16         one of {studies};
                    names with commas between; all: the paper's, with the fidelity table; beyond: the others
  size=full         more seeds (default: quick)
  jobs=N            processes (default: 2)
  to=FOLDER         where it is written (default: results; the quick size in its folder quick)
  KEY=VALUE         whatever `smetric-gym compare --help` shows; the experiment is conf/experiment/figure_16.yaml

Finished runs are kept (output=FOLDER/store), so an interrupted command goes on where it was. Hydra's launchers run
studies side by side, here or on a cluster, and fill the same store:
  smetric-gym reproduce --multirun figure=all hydra/launcher=joblib hydra.launcher.n_jobs=2 jobs=1
  smetric-gym reproduce --multirun figure=all hydra/launcher=submitit_slurm
"""
CALIBRATION_USAGE = """\
smetric-gym calibration: print what the simulator says beside what was measured on real hardware. It takes no keys.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for bad input, 130 for Ctrl-C."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"smetric-gym {version('smetric-gym')}")
        return 0
    command, rest = arguments[0], arguments[1:]
    try:
        if command not in COMMANDS:
            from smetric_gym.experiment.settings import unknown

            raise SmetricError(unknown("command", command, list(COMMANDS)))
        COMMANDS[command](rest)
    except SmetricError as error:
        print(f"smetric-gym: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("smetric-gym: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"smetric-gym: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    except MemoryError as error:
        words = str(error) or "an array did not fit"
        print(f"smetric-gym: out of memory ({words}), allowed: fewer requests or instances", file=sys.stderr)
        return 2
    return 0


def _hydra(name: str, task: Callable[[DictConfig], Any], arguments: list[str]) -> None:
    """Run a task as the Hydra application ``name``; bad input becomes a SmetricError."""
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.errors import HydraException
    from hydra.types import RunMode
    from omegaconf.errors import OmegaConfBaseException

    from smetric_gym.experiment.settings import CONF, command_line, explained

    refused: list[SmetricError] = []

    def quiet_task(config: DictConfig) -> None:
        try:
            task(config)
        except SmetricError as error:
            if HydraConfig.get().mode == RunMode.MULTIRUN:
                raise  # Hydra says which job it was
            refused.append(error)

    before, shown = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    given = command_line(arguments)
    keys = [word for word in given if _is_override(word)]
    flags = [word for word in given if not _is_override(word)]
    sys.argv = [f"smetric-gym {name}", *keys, f"hydra.job.name={name}", *flags]  # Hydra wants them in this order
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises, and we say it
    try:
        application = hydra.main(version_base="1.3", config_path=f"pkg://{CONF}", config_name="config")
        application(quiet_task)()
    except (HydraException, OmegaConfBaseException) as error:
        raise explained(error) from error
    finally:
        sys.argv = before
        os.environ.pop("HYDRA_FULL_ERROR")
        if shown is not None:
            os.environ["HYDRA_FULL_ERROR"] = shown
    if refused:
        raise refused[0]


def _is_override(word: str) -> bool:
    """True for KEY=VALUE, False for a flag and for what belongs to one."""
    return "=" in word and not word.startswith("-")


def _wants_help(arguments: list[str]) -> bool:
    return "--help" in arguments or "-h" in arguments


def _evaluate(arguments: list[str]) -> None:
    from smetric_gym.experiment.tasks import evaluate_task

    _hydra("evaluate", evaluate_task, arguments)


def _compare(arguments: list[str]) -> None:
    from smetric_gym.experiment.tasks import compare_task

    if "--multirun" in arguments or "-m" in arguments:
        raise SmetricError("compare sweeps by itself, allowed: loads=[...], policies=[...] and seeds=[...]")
    _hydra("compare", compare_task, arguments)


def _audit(arguments: list[str]) -> None:
    from smetric_gym.experiment.tasks import audit_task

    _hydra("audit", audit_task, arguments)


def _train(arguments: list[str]) -> None:
    from smetric_gym.experiment.train import agent_argument, train_task

    _hydra("train", train_task, arguments if _wants_help(arguments) else agent_argument(arguments))


def _tune(arguments: list[str]) -> None:
    from smetric_gym.experiment.tune import tune_task

    _hydra("tune", tune_task, ["tune=default", *arguments])


def _heldout(arguments: list[str]) -> None:
    from smetric_gym.experiment.heldout import heldout_task

    chosen = any(word.startswith("heldout=") for word in arguments)
    _hydra("heldout", heldout_task, arguments if chosen else ["heldout=full", *arguments])


def _learners(arguments: list[str]) -> None:
    from smetric_gym.experiment.learners import learners_task

    _hydra("learners", learners_task, ["learners=default", *arguments])


def _explain(arguments: list[str]) -> None:
    from smetric_gym.experiment.explain import explain_task

    _hydra("explain", explain_task, ["policy=learned", *(word for word in arguments if word != "policy=learned")])


def _bench(arguments: list[str]) -> None:
    from smetric_gym.experiment.bench import bench
    from smetric_gym.experiment.settings import unknown
    from smetric_gym.experiment.store import as_json, write_whole
    from smetric_gym.experiment.tables import plain_table, terminal
    from smetric_gym.experiment.tasks import say_if_compiling

    if _wants_help(arguments):
        print(BENCH_USAGE, end="")
        return
    given: dict[str, Any] = {"bench.path": None, "bench.large": "false", "output": "outputs"}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name not in given or not equals:
            raise SmetricError(unknown("key", name, list(given)) + " as KEY=VALUE")
        given[name] = value
    large = given["bench.large"].lower()
    if large not in ("true", "false"):
        raise SmetricError(f"bench.large is {given['bench.large']!r}, allowed: true or false")
    console = terminal()
    say_if_compiling(console)
    rows = bench(given["bench.path"], large == "true", say=lambda words: console.print(words, style="dim"))
    columns = ("what", "value", "unit", "note")
    shown = [[row[name] for name in columns] for row in rows]
    console.print(plain_table(columns, shown, "Speed and memory on this machine"))
    path = Path(given["output"]) / "bench" / "bench.json"
    write_whole(path, as_json(rows))
    console.print(f"written to {path}")


def _replay(arguments: list[str]) -> None:
    from smetric_gym.replay.command import command

    command(arguments)


def _calibration(arguments: list[str]) -> None:
    from smetric_gym.cluster.calibration import calibration_table
    from smetric_gym.experiment.tables import number, plain_table, terminal

    if _wants_help(arguments):
        print(CALIBRATION_USAGE, end="")
        return
    if arguments:
        raise SmetricError(f"calibration takes nothing, found {arguments[0]!r}")
    rows = []
    for check in calibration_table():
        error, tolerance = check.error, check.tolerance
        state = "" if tolerance is None else "ok" if abs(error) <= tolerance else "MISSED"
        allowed = "" if tolerance is None else f"{100 * tolerance:.0f} %"
        shown = "-" if math.isnan(error) else f"{100 * error:+.1f} %"
        numbers = (number(check.measured), number(check.simulated), shown)
        rows.append((check.name, check.what, *numbers, allowed, state, check.source))
    columns = ("check", "what", "measured", "simulated", "error", "allowed", "", "source")
    terminal().print(plain_table(columns, rows, "The simulator against measurements on real hardware"))


def _reproduce(arguments: list[str]) -> None:
    from smetric_gym.reproduce.study import STUDIES
    from smetric_gym.reproduce.task import experiment, names_of, reproduce, reproduce_task

    if _wants_help(arguments):
        print(REPRODUCE_USAGE.format(studies=", ".join(STUDIES)), end="")
        return
    chosen = [word.partition("=")[2] for word in arguments if word.startswith("figure=")]
    if len(chosen) != 1:
        raise SmetricError(f"reproduce needs one figure=NAME, allowed: {', '.join(STUDIES)}, all, beyond")
    rest = [word for word in arguments if not word.startswith("figure=")]
    if all(_is_override(word) for word in rest):
        reproduce(chosen[0], rest)
        return
    experiments = ",".join(experiment(name).partition("=")[2] for name in names_of(chosen[0]))
    _hydra("reproduce", reproduce_task, [f"experiment={experiments}", *rest])


def _fuzz(arguments: list[str]) -> None:
    from smetric_gym.experiment.fuzz import main as fuzz

    fuzz(arguments)


def _play(arguments: list[str]) -> None:
    from smetric_gym.play.serve import main as play

    play(arguments)


def _lessons(arguments: list[str]) -> None:
    from smetric_gym.lessons.serve import main as lessons

    lessons(arguments)


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "audit": _audit,
    "evaluate": _evaluate,
    "compare": _compare,
    "reproduce": _reproduce,
    "play": _play,
    "lessons": _lessons,
    "replay": _replay,
    "train": _train,
    "tune": _tune,
    "heldout": _heldout,
    "learners": _learners,
    "explain": _explain,
    "bench": _bench,
    "calibration": _calibration,
    "fuzz": _fuzz,
}
