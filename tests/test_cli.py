"""The command line, in processes of its own."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from smetric_gym.cli import COMMANDS, main

SMALL = ("instances=2", "warm_up_s=10", "window_s=40")


def smetric_gym(*arguments, cwd):
    variables = {**os.environ, "COLUMNS": "150"}
    command = [sys.executable, "-m", "smetric_gym", *arguments]
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=120)


def test_evaluate_writes_what_it_prints(tmp_path):
    done = smetric_gym("evaluate", *SMALL, "requests_table=csv", "hydra.run.dir=here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    scores = json.loads((tmp_path / "here" / "result.json").read_bytes())["scores"]
    assert all(name in done.stdout for name in scores)
    assert f"{scores['tps_within_slo']:,.0f}" in done.stdout
    assert len((tmp_path / "here" / "requests.csv").read_text().splitlines()) > 5


def test_multirun_ends_with_one_table_and_is_not_run_twice(tmp_path):
    command = ("evaluate", *SMALL, "policy.overload=1,inf", "--multirun", "hydra.sweep.dir=sweep")
    done = smetric_gym(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "policy.overload=1" in done.stdout and "+" not in done.stdout
    assert "2 runs" in done.stdout and "overload" in done.stdout
    assert len((tmp_path / "sweep" / "sweep.csv").read_text().splitlines()) == 3
    assert smetric_gym(*command, cwd=tmp_path).stdout.count("from the store") == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evaluate", "lod=1"], "unknown key 'lod', did you mean load?"),
        (["evaluate", "instances=2", "slo.tpot_s=-1"], "slo.tpot_s is -1, allowed: more than 0 s"),
        (["evalute"], "did you mean evaluate"),
        (["evaluate", "loads=[1]"], "evaluate takes no loads, which only compare heeds"),
        (["compare", "policy=smetric"], "compare takes no policy, allowed: policies=[...]"),
        (["evaluate", "load=1", "output=file/below"], "Not a directory"),
        (["bench", "bench.large=1"], "bench.large is '1', allowed: true or false"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, words, tmp_path):
    (tmp_path / "file").write_text("")
    done = smetric_gym(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


def test_compare_audit_and_help(tmp_path):
    compared = smetric_gym(
        "compare",
        *SMALL,
        "policies=[smetric,round_robin]",
        "loads=[1,2]",
        "seeds=[0]",
        "hydra.run.dir=c",
        cwd=tmp_path,
    )
    assert compared.returncode == 0, compared.stderr
    assert {"load.png", "runs.csv", "comparison.json"} <= {path.name for path in (tmp_path / "c").iterdir()}
    audited = smetric_gym("audit", "workload=trace1", "instances=2", "hydra.run.dir=a", cwd=tmp_path)
    assert audited.returncode == 0, audited.stderr
    assert {"audit.json", "audit.png"} <= {path.name for path in (tmp_path / "a").iterdir()}
    shown = smetric_gym("evaluate", "policy=smetric", "--help", cwd=tmp_path)
    assert "s before the scored window, 0 or more" in shown.stdout and "paper_v2" in shown.stdout


def test_flags_may_follow_keys(tmp_path):
    shown = smetric_gym("evaluate", "load=1.25", "--cfg", "job", cwd=tmp_path)
    assert shown.returncode == 0 and "load: 1.25" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--version"], "smetric-gym "), (["bench", "--help"], "bench.large"), (["calibration", "-h"], "takes no keys")],
)
def test_short_answers(arguments, words, capsys):
    assert main(arguments) == 0 and words in capsys.readouterr().out


def test_too_little_memory_is_one_sentence(monkeypatch, capsys):
    def much(arguments):
        raise MemoryError("Unable to allocate 1 TiB")

    monkeypatch.setitem(COMMANDS, "audit", much)
    assert main(["audit"]) == 2
    assert capsys.readouterr().err == (
        "smetric-gym: out of memory (Unable to allocate 1 TiB), allowed: fewer requests or instances\n"
    )


@pytest.mark.parametrize("jobs", ["jobs=1", "jobs=2"])
def test_ctrl_c_keeps_finished_runs_and_says_how_to_go_on(jobs, tmp_path):
    sweep = ["policies=[smetric,round_robin]", "loads=[1,1.5,2]", "seeds=[0,1,2,3,4,5,6,7]", jobs]
    command = [sys.executable, "-m", "smetric_gym", "compare", "instances=8", *sweep]
    running = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background shell ignores it
    )  # fmt: skip
    store, deadline = tmp_path / "outputs" / "store", time.monotonic() + 100
    while not (store.exists() and list(store.glob("*.json"))) and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, error = running.communicate(timeout=60)
    assert running.returncode == 130, error
    assert "the same command goes on from there" in " ".join(out.split()) and "Traceback" not in error
    assert list(store.glob("*.json"))


def test_import_is_light():
    code = (
        "import sys, smetric_gym; "
        "heavy = {'torch', 'matplotlib', 'numba', 'stable_baselines3', 'hydra', 'rich'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
