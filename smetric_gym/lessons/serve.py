"""``smetric-gym lessons``: the list of lessons and the lessons themselves, served on this machine without a network."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.store import write_whole
from smetric_gym.lessons.catalogue import LESSONS
from smetric_gym.play.serve import HEAD, check_port, host

PORT = 2719
CONTENTS = Path(__file__).with_name("contents.py")
NEEDS = "smetric-gym lessons needs {}, which is not installed: pip install 'smetric-gym[lessons]'"


def main(arguments: list[str]) -> None:
    """The command: serve until Ctrl-C, print the list, or copy the notebooks."""
    parser = argparse.ArgumentParser(
        prog="smetric-gym lessons",
        description="Eight lessons on routing for LLM agents, as pages on this machine: 15 to 30 minutes each.",
    )
    parser.add_argument("--list", action="store_true", help="print the lessons, and serve nothing")
    parser.add_argument("--copy", metavar="FOLDER", type=Path, help="copy the notebooks, to change them")
    parser.add_argument("--port", type=int, default=PORT, help=f"0 takes a free one (default {PORT})")
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open nothing")
    given = parser.parse_args(arguments)
    if given.list:
        for number, lesson in enumerate(LESSONS, 1):
            print(f"{number} {lesson.title}: {lesson.about}")
    elif given.copy:
        copy(given.copy)
    else:
        check_port(given.port)
        serve(given.port, not given.no_browser)


def copy(folder: Path) -> None:
    """Copy the notebooks into a folder.

    Raises:
        SmetricError: where a file is there already; then nothing is copied.
    """
    there = [lesson.path.name for lesson in LESSONS if (folder / lesson.path.name).exists()]
    if there:
        raise SmetricError(f"--copy would replace {folder / there[0]}, allowed: a folder without the lessons")
    for lesson in LESSONS:
        write_whole(folder / lesson.path.name, lesson.path.read_bytes())
    print(f"{len(LESSONS)} lessons are in {folder}; change one with: marimo edit {folder / LESSONS[0].path.name}")


def application() -> Callable:
    """The list and the lessons as one ASGI application.

    Raises:
        SmetricError: when the extra ``lessons`` is not installed.
    """
    try:
        import marimo
        import plotly  # noqa: F401  (the lessons need it)
    except ImportError as error:
        raise SmetricError(NEEDS.format(error.name)) from error

    builder = marimo.create_asgi_app(quiet=True, html_head=HEAD.read_text(encoding="utf-8"))
    for lesson in LESSONS:
        builder = builder.with_app(path=f"/{lesson.file}", root=str(lesson.path))
    return own_pages_only(builder.with_app(path="", root=str(CONTENTS)).build())


def own_pages_only(app: Callable) -> Callable:
    """Refuse what other web pages send here: exercises run code, and marimo answers requests from any origin."""

    async def guarded(scope, receive, send):
        if scope["type"] in ("http", "websocket"):
            headers = dict(scope["headers"])
            host = headers.get(b"host", b"")
            ours = host.rpartition(b":")[0] in (b"127.0.0.1", b"localhost")  # no name that was made to point here
            if not ours or headers.get(b"origin", b"http://" + host) != b"http://" + host:
                return await _refuse(scope, receive, send)
        await app(scope, receive, send)

    return guarded


async def _refuse(scope, receive, send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"This server answers its own pages only."})


def serve(port: int, browser: bool) -> None:
    """Serve the list and the lessons until Ctrl-C."""
    host(application(), port, browser, "The lessons are", warm_up)


def warm_up() -> None:
    """Compile what most lessons run, or load it."""
    from smetric_gym.lessons.lab import run

    for policy in ("smetric", "load_balance"):
        run(policy)
