"""The command says what is wrong before it serves anything."""

import builtins
import socket

import pytest

from smetric_gym.cli import main
from smetric_gym.errors import SmetricError
from smetric_gym.play import serve


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "70000"], "--port is 70000, allowed: 0"),
        (["--trace", "nowhere.jsonl"], "--trace is nowhere.jsonl, which does not exist"),
        (["--policy", "nobody"], "policy is 'nobody'"),
    ],
)
def test_bad_arguments_end_with_one_sentence(arguments, words, capsys):
    assert main(["play", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_missing_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without_marimo(name, *more, **fields):
        if name == "marimo":
            raise ImportError("No module named 'marimo'", name="marimo")
        return real(name, *more, **fields)

    monkeypatch.setattr(builtins, "__import__", without_marimo)
    with pytest.raises(SmetricError, match=r"needs marimo, which is not installed: pip install 'smetric-gym\[play\]'"):
        serve.application({})


def test_a_port_that_is_taken_is_said():
    pytest.importorskip("marimo")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SmetricError, match=f"port {port} cannot be used"):
            serve.serve(port, False, {})
