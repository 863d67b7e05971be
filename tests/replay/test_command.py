"""The command: a result again, clear words for what makes no sense, files beside the result."""

import json
import math

import pytest

from smetric_gym import evaluate
from smetric_gym.cli import main
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.store import as_json
from smetric_gym.replay.command import OWN, USAGE, differences, parsed, settings_of_result
from smetric_gym.replay.recording import record

TINY = {"instances": 2, "warm_up_s": 10, "window_s": 40}


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "result.json"
    settings = {**TINY, "policy.overload": math.inf, "global_tier": math.inf}
    path.write_bytes(as_json(evaluate("smetric", **settings).record()))
    return path


def test_a_result_is_run_again_as_it_was(result):
    wanted, stored, settings = parsed([str(result), "page=false", "gif=true", "to_s=30"])
    assert wanted.gif and not wanted.page and wanted.to_s == 30 and wanted.folder == str(result.parent)
    assert settings["policy"]["overload"] == settings["cluster"]["global_tier"] == math.inf
    recording = record(settings)
    assert differences(stored["scores"], recording) == []
    changed = stored["scores"] | {"tps_within_slo": 1.0}
    assert len(differences(changed, recording)) == 1 and "tps_within_slo is " in differences(changed, recording)[0]


def test_the_files_are_written_beside_the_result(result, capsys):
    assert main(["replay", str(result.parent), "chrome_trace=true", "gif=true", "gif_frames=2"]) == 0
    names = {path.name for path in result.parent.iterdir()}
    assert names == {"result.json", "replay.html", "replay.gif", "replay.trace.json"}
    shown = capsys.readouterr().out
    assert all(name in shown for name in names - {"result.json"}) and "another version" not in shown


def test_another_result_is_said(result, tmp_path, capsys):
    stored = json.loads(result.read_bytes())
    stored["scores"]["migrations"] = -1
    (tmp_path / "result.json").write_bytes(as_json(stored))
    assert main(["replay", str(tmp_path)]) == 0
    assert "migrations is" in capsys.readouterr().out


def test_settings_are_those_of_evaluate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [f"{key}={value}" for key, value in TINY.items()]
    assert main(["replay", "policy=load_balance", *words, "folder=here"]) == 0
    assert (tmp_path / "here" / "replay.html").read_bytes().startswith(b"<!doctype html>")
    assert main(["replay", *words]) == 0
    assert len(list((tmp_path / "outputs" / "replay").rglob("replay.html"))) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.json"], "nowhere.json: no such file, allowed: a result.json of evaluate"),
        (["gfi=true"], "key is 'gfi' (did you mean gif?)"),
        (["lod=1"], "key is 'lod' (did you mean load?)"),
        (["policy=smetrik"], "did you mean smetric"),
        (["gif=1"], "gif is 1.0, allowed: true or false"),
        (["page=false"], "nothing is wanted"),
        (["gif_frames=1"], "gif_frames is 1.0, allowed: a whole number from 2 to 2000"),
        (["gif_fps=fast"], "gif_fps is 'fast', allowed: 1 to 50"),
        (["from_s=-1"], "from_s is -1.0, allowed: 0 s or more"),
        (["from_s=9", "to_s=9"], "to_s is 9.0, allowed: more than from_s"),
        (["from_s=1e5"], "from_s is 100000 s, allowed: before 2400 s"),
        (["--gif"], "replay takes no --gif"),
        (["a.json", "b.json"], "replay takes one RESULT"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["replay", *arguments]) == 2
    shown = capsys.readouterr().err
    assert words in shown and shown.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "no JSON"),
        ("[]", "holds no settings of a run"),
        ('{"settings": {"policy": {"name": "smetric"}}}', "its settings have no cluster"),
    ],
)
def test_a_file_that_is_no_result_is_said(content, words, tmp_path):
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(SmetricError, match=words):
        parsed([str(tmp_path)])


def test_what_a_result_cannot_repeat_or_change_is_said(result):
    with pytest.raises(SmetricError, match="RESULT has its own policy, allowed beside it: page"):
        parsed([str(result), "policy=lmetric"])
    stored = json.loads(result.read_bytes())
    stored["settings"]["policy"]["name"] = None
    with pytest.raises(SmetricError, match="its policy was a Python function"):
        settings_of_result(stored, "result.json")


def test_help_names_every_key(capsys):
    assert main(["replay", "--help"]) == 0
    assert capsys.readouterr().out == USAGE
    assert all(f"\n  {key}=" in USAGE or f"\n  {key} " in USAGE for key in OWN)
