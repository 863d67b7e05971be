"""``smetric-gym play``: serves the page on this machine, in this process, without a network."""

from __future__ import annotations

import argparse
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.compiled import COMPILING, is_compiled

HOST = "127.0.0.1"
PORT = 2718
APP = Path(__file__).with_name("app.py")
HEAD = Path(__file__).with_name("head.html")


def main(arguments: list[str]) -> None:
    """The command: serve until Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="smetric-gym play",
        description="A page on this machine: two policies side by side on the same sessions, and a game against them.",
    )
    parser.add_argument("--port", type=int, default=PORT, help=f"0 takes a free one (default {PORT})")
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open nothing")
    parser.add_argument("--policy", action="append", default=[], metavar="FILE.py:FUNCTION", help="one of your own")
    parser.add_argument("--trace", metavar="FILE", help="a recorded trace to begin with")
    given = parser.parse_args(arguments)
    check_port(given.port)
    if given.trace and not Path(given.trace).exists():
        raise SmetricError(f"--trace is {given.trace}, which does not exist, allowed: a file or folder of a trace")
    check_policies(given.policy)
    serve(given.port, not given.no_browser, {"policies": given.policy, "trace": given.trace})


def check_port(port: int) -> None:
    """Refuse a number that is no port."""
    if not 0 <= port <= 65535:
        raise SmetricError(f"--port is {port}, allowed: 0 (a free one) to 65535")


def check_policies(policies: list[str]) -> None:
    """Refuse a policy that cannot be loaded before anything is served."""
    from smetric_gym.agents.policy import load_policy

    for name in policies:
        load_policy(name)


def application(meta: dict[str, Any]) -> Callable:
    """The page as an ASGI application.

    Args:
        meta: what the command line gave, read by the page: "policies" (list of str) and "trace" (str or None).

    Raises:
        SmetricError: when the extra ``play`` is not installed.
    """
    try:
        import marimo
        import plotly  # noqa: F401  (the page needs it)
    except ImportError as error:
        raise SmetricError(
            f"smetric-gym play needs {error.name}, which is not installed: pip install 'smetric-gym[play]'"
        ) from error

    def with_meta(app: Callable) -> Callable:
        async def outer(scope, receive, send):
            await app({**scope, "meta": meta}, receive, send)

        return outer

    builder = marimo.create_asgi_app(quiet=True, html_head=HEAD.read_text(encoding="utf-8"))
    return builder.with_app(path="", root=str(APP), middleware=[with_meta]).build()


def serve(port: int, browser: bool, meta: dict[str, Any]) -> None:
    """Serve the page until Ctrl-C."""
    host(application(meta), port, browser, "The playground is", warm_up)


def host(app: Callable, port: int, browser: bool, words: str, warm_up: Callable[[], None]) -> None:
    """Serve an application on this machine until Ctrl-C.

    Args:
        app: ASGI.
        port: 0 for a free one.
        browser: whether to open it.
        words: how the line with the address begins.
        warm_up: called when the port is ours, before the address is told.

    Raises:
        SmetricError: for a port that cannot be used.
    """
    import uvicorn

    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        why = error.strerror
        raise SmetricError(f"port {port} cannot be used ({why}), allowed: --port 0 takes a free one") from error
    if not is_compiled():
        print(COMPILING, flush=True)
    warm_up()
    address = f"http://{HOST}:{listener.getsockname()[1]}"
    print(f"{words} at {address}  (Ctrl-C ends it)", flush=True)
    if browser:
        webbrowser.open(address)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


def warm_up() -> None:
    """Compile, or load what is compiled, and run once what the page begins with and the game ends with."""
    from smetric_gym.play.game import Game
    from smetric_gym.play.scenario import Router, Scenario, record

    for name in ("smetric", "load_balance"):
        record(Scenario(), Router(name))
    game = Game()
    game.autopilot()
    game.standings()
