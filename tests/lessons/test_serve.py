"""The command: the list, copies to change, and a server that answers its own pages only."""

import asyncio

import pytest

from smetric_gym.cli import main
from smetric_gym.lessons.catalogue import LESSONS
from smetric_gym.lessons.serve import own_pages_only


def test_the_list_is_printed_without_marimo(capsys):
    assert main(["lessons", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(LESSONS) and lines[2].startswith("3 The session is the unit: ")


def test_copies_are_whole_and_never_replace_anything(tmp_path, capsys):
    assert main(["lessons", "--copy", str(tmp_path / "mine")]) == 0
    assert "marimo edit" in capsys.readouterr().out
    for lesson in LESSONS:
        assert (tmp_path / "mine" / lesson.path.name).read_text() == lesson.path.read_text()
    changed = tmp_path / "mine" / LESSONS[0].path.name
    changed.write_text("my own")
    assert main(["lessons", "--copy", str(tmp_path / "mine")]) == 2
    assert changed.read_text() == "my own" and "would replace" in capsys.readouterr().err


def test_a_port_that_does_not_exist_is_refused(capsys):
    assert main(["lessons", "--port", "70000", "--no-browser"]) == 2
    assert "--port is 70000, allowed: 0" in capsys.readouterr().err


async def _inner(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:2719"}, 200),
        ({"host": "localhost:2719", "origin": "http://localhost:2719"}, 200),
        ({"host": "127.0.0.1:2719", "origin": "https://elsewhere.example"}, 403),
        ({"host": "127.0.0.1:2719", "origin": "http://127.0.0.1:8080"}, 403),
        ({"host": "elsewhere.example:2719", "origin": "http://elsewhere.example:2719"}, 403),
        ({}, 403),
    ],
)
def test_other_pages_are_refused(headers, status):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    asyncio.run(own_pages_only(_inner)(scope, None, send))
    assert sent[0]["status"] == status


def test_a_websocket_of_another_page_is_closed():
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "headers": [(b"host", b"127.0.0.1:2719"), (b"origin", b"http://elsewhere.example")]}
    asyncio.run(own_pages_only(_inner)(scope, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]
