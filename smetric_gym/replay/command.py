"""`smetric-gym replay`: a stored result, or settings, as a page and on demand as a GIF and a trace for Perfetto."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.settings import compose, unknown
from smetric_gym.experiment.store import RUN_KEYS, write_whole
from smetric_gym.experiment.tables import terminal
from smetric_gym.experiment.tasks import progress_bar, say_if_compiling
from smetric_gym.replay.recording import Recording, record

USAGE = """\
smetric-gym replay RESULT [KEY=VALUE ...]: the run of a result.json again, as a page to look at.
smetric-gym replay KEY=VALUE ...           the same of settings (those of `smetric-gym evaluate --help`).

  RESULT             result.json of evaluate, or the folder that holds it; the files are written beside it

  page=true          replay.html: the timeline of the run, one file that opens in a browser without a network
  gif=false          replay.gif: the cluster at gif_frames moments
  gif_frames=120     pictures of the GIF, 2 to 2000
  gif_fps=8          of them per second, 1 to 50
  chrome_trace=false replay.trace.json: a trace for ui.perfetto.dev or chrome://tracing
  from_s=0           simulated s, where the shown time begins
  to_s=null          where it ends; null: the end of the scored window
  folder=null        where to write; null: beside RESULT, or outputs/replay/DATE/TIME for settings

Example: smetric-gym replay policy=smetric load=1.5 from_s=600 to_s=900 gif=true chrome_trace=true
"""
DIFFERS = 1e-9
"""Relative difference of a score from which a run counts as another one than that of the result."""


@dataclass(frozen=True)
class Wanted:
    """The keys of the command; `USAGE` says what they mean.

    Raises:
        SmetricError: for a value that makes no sense.
    """

    page: bool = True
    gif: bool = False
    gif_frames: int = 120
    gif_fps: float = 8
    chrome_trace: bool = False
    from_s: float = 0.0
    to_s: float | None = None
    folder: str | None = None

    def __post_init__(self) -> None:
        for name in ("page", "gif", "chrome_trace"):
            if not isinstance(getattr(self, name), bool):
                raise SmetricError(f"{name} is {getattr(self, name)!r}, allowed: true or false")
        if not (self.page or self.gif or self.chrome_trace):
            raise SmetricError("nothing is wanted, allowed: one of page=true, gif=true and chrome_trace=true")
        for name, least, most in (("gif_frames", 2, 2000), ("gif_fps", 1, 50)):
            value = getattr(self, name)
            if not _is_number(value) or not least <= value <= most or (name == "gif_frames" and value % 1):
                whole = "a whole number from " if name == "gif_frames" else ""
                raise SmetricError(f"{name} is {value!r}, allowed: {whole}{least} to {most}")
        if not _is_number(self.from_s) or self.from_s < 0:
            raise SmetricError(f"from_s is {self.from_s!r}, allowed: 0 s or more")
        if self.to_s is not None and not (_is_number(self.to_s) and self.to_s > self.from_s):
            raise SmetricError(f"to_s is {self.to_s!r}, allowed: more than from_s, which is {self.from_s:g} s")


OWN = tuple(field.name for field in fields(Wanted))


def command(arguments: Sequence[str]) -> None:
    """Run the command; see `USAGE`."""
    if "--help" in arguments or "-h" in arguments or not arguments:
        print(USAGE, end="")
        return
    console = terminal()
    wanted, result, settings = parsed(arguments)
    end_s = settings["warm_up_s"] + settings["window_s"]
    if wanted.to_s is None and wanted.from_s >= end_s:
        raise SmetricError(f"from_s is {wanted.from_s:g} s, allowed: before {end_s:g} s, where the run ends")
    say_if_compiling(console)
    with progress_bar(console, end_s, "simulated s") as progress:
        recording = record(settings, start_s=wanted.from_s, end_s=wanted.to_s, progress=progress)
    if result is not None:
        for words in differences(result.get("scores"), recording):
            console.print(f"not the run of the result, which another version made: {words}", style="yellow")
    _write_all(console, wanted, _folder(wanted, settings), recording)


def _write_all(console: Console, wanted: Wanted, folder: Path, recording: Recording) -> None:
    """Write the files that are wanted, and say where."""
    if wanted.page:
        from smetric_gym.replay.page import page

        _write(console, folder / "replay.html", page(recording), f"{len(recording.shown):,} requests")
    if wanted.chrome_trace:
        from smetric_gym.replay.chrome import chrome_trace

        _write(console, folder / "replay.trace.json", chrome_trace(recording), "open it in ui.perfetto.dev")
    if wanted.gif:
        from smetric_gym.replay.gif import gif

        frames = int(wanted.gif_frames)
        with progress_bar(console, frames, "pictures") as progress:
            content = gif(recording, frames=frames, per_s=wanted.gif_fps, progress=progress)
        _write(console, folder / "replay.gif", content, f"{frames} pictures")


def parsed(arguments: Sequence[str]) -> tuple[Wanted, dict[str, Any] | None, dict[str, Any]]:
    """What is wanted, the result if one is named, and the settings of the run.

    Raises:
        SmetricError: for a key that does not exist, a value that makes no sense, or a file that is no result.
    """
    own: dict[str, Any] = {}
    names, overrides = [], []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals and argument.startswith("-"):
            raise SmetricError(f"replay takes no {argument}, allowed: --help, RESULT and KEY=VALUE")
        if not equals or Path(argument).exists():
            names.append(argument)
        elif key in OWN:
            own[key] = _value(value)
        else:
            overrides.append(argument)
    wanted = Wanted(**own)
    if len(names) > 1:
        raise SmetricError(f"replay takes one RESULT, found {names[0]!r} and {names[1]!r}")
    if not names:
        defaults = compose()
        for override in overrides:
            name = override.lstrip("+").partition("=")[0].partition(".")[0]
            if name not in (*defaults, "instances", "global_tier", "hydra"):
                raise SmetricError(unknown("key", name, [*OWN, *defaults]))
        return wanted, None, compose(overrides)
    if overrides:
        found = overrides[0].partition("=")[0]
        raise SmetricError(f"RESULT has its own {found}, allowed beside it: {', '.join(OWN)}")
    result = read_result(Path(names[0]))
    if wanted.folder is None:
        beside = Path(names[0])
        wanted = Wanted(**own | {"folder": str(beside if beside.is_dir() else beside.parent)})
    return wanted, result, settings_of_result(result, names[0])


def read_result(path: Path) -> dict[str, Any]:
    """The record of a run.

    Args:
        path: ``result.json``, or the folder that it is in.

    Raises:
        SmetricError: when it is not there, or is something else.
    """
    path = path / "result.json" if path.is_dir() else path
    if not path.exists():
        raise SmetricError(f"{path}: no such file, allowed: a result.json of evaluate, or KEY=VALUE")
    try:
        found = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise SmetricError(f"{path}: no JSON ({error}), allowed: a result.json of evaluate") from error
    if not isinstance(found, dict) or not isinstance(found.get("settings"), dict):
        raise SmetricError(f"{path}: holds no settings of a run, allowed: a result.json of evaluate")
    return found


def settings_of_result(result: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The settings that repeat the run of a result; ``name`` is the file's, for messages."""
    stored = result["settings"]
    for key in RUN_KEYS:
        if key not in stored:
            raise SmetricError(f"{name}: its settings have no {key}, allowed: a result.json of evaluate")
    if (stored["policy"] or {}).get("name") is None:
        raise SmetricError(f"{name}: its policy was a Python function, which no file holds: use evaluate in Python")
    return compose() | {key: _finite(stored[key]) for key in RUN_KEYS}


def differences(scores: Mapping[str, Any] | None, recording: Recording) -> list[str]:
    """Where the scores of a result and of its repetition differ, at most one, in words."""
    for name, now in recording.scores.items():
        then = (scores or {}).get(name, now)
        both = all(isinstance(value, (int, float)) for value in (then, now))
        same = math.isclose(then, now, rel_tol=DIFFERS) if both else then is None or then == now
        if not same:
            return [f"{name} is {now:.10g}, there {then:.10g}" if both else f"{name} is {now}, there {then}"]
    return []


def _folder(wanted: Wanted, settings: Mapping[str, Any]) -> Path:
    if wanted.folder is not None:
        return Path(wanted.folder)
    return Path(settings["output"]) / "replay" / datetime.now().strftime("%Y-%m-%d/%H-%M-%S")


def _write(console: Console, path: Path, content: bytes, words: str) -> None:
    write_whole(path, content)
    console.print(f"{path}  ({len(content) / 1e6:.1f} MB, {words})", soft_wrap=True)


def _value(text: str) -> Any:
    """A value of the command line: true, false, null, a number, or the text itself."""
    plain = {"true": True, "false": False, "null": None, "none": None}
    if text.lower() in plain:
        return plain[text.lower()]
    try:
        return float(text)
    except ValueError:
        return text


def _finite(value: Any) -> Any:
    """Settings as they were before `store.as_json`, which writes infinite numbers as words."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return float(value) if value in ("inf", "-inf") else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
