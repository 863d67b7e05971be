"""Every learner from the command line to its file on tiny clusters; one of them has to beat chance."""

import csv
import json

import numpy as np
import pytest

from smetric_gym.agents.learned_file import read_learned
from smetric_gym.cli import main

for package in ("torch", "stable_baselines3", "sb3_contrib", "tensorboard"):
    pytest.importorskip(package, reason="needs the extra rl")

EPISODE = (
    "{max_instances: 3, shuffle: true, trace_seeds: [0, 99], "
    "draw: {instances: 3, load: 1.2, warm_up_s: 5.0, window_s: 20.0}}"
)
TINY = (
    "cells.settings={instances: 3, warm_up_s: 10.0, window_s: 40.0}",
    "cells.validation_seeds=[2000]",
    "cells.cells=[{cluster: colocated, global_tier: 1.6, load: 1.2}]",
    f"train.scenario={EPISODE}",
    "train.references=[lmetric]",
    "train.hidden=8",
    "train.last=8",
    "jobs=1",
)
SMALL = {
    "ppo": ("train.envs=4", "train.n_steps=32", "train.batch_size=64", "train.steps=256", "train.look_every=128"),
    "maskable_ppo": ("train.envs=4", "train.n_steps=32", "train.batch_size=64", "train.steps=256",
                     "train.look_every=128"),
    "ppo_single_file": ("train.envs=4", "train.n_steps=32", "train.batch_size=64", "train.steps=256",
                        "train.look_every=128", "train.critic_first=128"),
    "dqn": ("train.envs=4", "train.steps=256", "train.look_every=128", "train.learning_starts=64",
            "train.batch_size=32", "train.buffer_size=200", "train.n_steps=4"),
    "bc": ("train.envs=4", "train.steps=256", "train.look_every=128", "train.memory=200", "train.batch_size=32"),
    "bandit": ("train.steps=200", "train.look_every=100", "train.retrain_every=20", "train.newest=40",
               "train.coreset=20", "train.batch_size=16"),
}  # fmt: skip


def rows_of(path):
    with open(path) as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("agent", SMALL)
def test_a_learner_writes_its_policy_and_goes_on_after_an_interruption(agent, tmp_path, monkeypatch, capsys):
    from smetric_gym.experiment.train_network import NetworkStudy

    monkeypatch.chdir(tmp_path)
    command = ["train", f"agent={agent}", *TINY, *SMALL[agent], "hydra.run.dir=here"]
    keep, looks = NetworkStudy._keep, []

    def interrupted(self, steps, save):
        keep(self, steps, save)
        looks.append(steps)
        if steps > 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(NetworkStudy, "_keep", interrupted)
    assert main(command) == 130
    assert not (tmp_path / "here" / "policy.safetensors").exists()
    first = looks[-1]
    monkeypatch.setattr(NetworkStudy, "_keep", keep)
    assert f"{first:,} decisions are kept in outputs/store/train" in " ".join(capsys.readouterr().out.split())
    assert main(command) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"going on after {first:,} decisions" in said and "smetric" in said

    history = rows_of(tmp_path / "here" / "history.csv")
    steps = [int(row["steps"]) for row in history]
    assert steps == sorted(set(steps)) and steps[-1] >= 200 > first in steps
    found = read_learned(tmp_path / "here" / "policy.safetensors")
    assert found.kind == "mlp" and found.training["train"]["agent"] == agent
    worth = {int(row["steps"]): float(row["validation_percent"]) for row in history}
    assert worth[found.training["kept_steps"]] == max(worth.values()), "the best is kept"
    (state,) = (path for path in (tmp_path / "outputs" / "store" / "train").iterdir() if path.is_dir())
    assert any((state / "tensorboard").iterdir()) and len(list(state.glob("checkpoint-*"))) == 1
    assert main(["evaluate", "policy=learned", "policy.path=here/policy.safetensors", "instances=2", "warm_up_s=5",
                 "window_s=20", "hydra.run.dir=run"]) == 0  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["agent=ppo", "train.steps=0"], "train.steps is 0, allowed: a whole number, 1 or more"),
        (["agent=bc", "train.cluster=colocted"], "train.cluster is 'colocted' (did you mean colocated?)"),
        (["agent=dqn", "train.learning_rate=-1"], "train.learning_rate is -1, allowed: a number above 0"),
        (["agent=bandit", "train.outcome=luck"], "train.outcome is 'luck', allowed: ttft, goodput"),
        (["agent=ppo", "train.start=none.safetensors"], "none.safetensors does not exist"),
        (["agent=ppo", "train.scenario=hel"], "scenario"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", arguments[0], *TINY[:3], *TINY[4:], *arguments[1:]]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_a_missing_package_is_named(tmp_path, monkeypatch, capsys):
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    monkeypatch.delitem(sys.modules, "smetric_gym.agents.maskable_ppo", raising=False)
    assert main(["train", "agent=maskable_ppo", *TINY]) == 2
    assert "agent=maskable_ppo needs the package sb3_contrib" in capsys.readouterr().err


def test_the_coreset_is_a_sample_of_what_left_the_queue():
    from smetric_gym.agents.bandit import Experience

    experience = Experience(newest=5, coreset=10, random=np.random.default_rng(0))
    for k in range(200):
        experience.add(np.full((2, 1), k, dtype=np.float32), k % 2, float(k))
    rows, choices, outcomes = experience.everything()
    assert rows.shape == (15, 2, 1) and outcomes[:5].tolist() == [195, 196, 197, 198, 199]
    old = outcomes[5:].tolist()
    assert len(set(old)) == 10 and max(old) < 195 and 40 < np.mean(old) < 155
    assert choices.tolist() == (outcomes % 2).long().tolist()


def test_ppo_from_nothing_beats_chance_by_half(tmp_path, monkeypatch):
    """About half a minute of CPU: 4 instances, random weights to begin with; 1.5 times the tokens of random choice."""
    monkeypatch.chdir(tmp_path)
    command = [
        "train", "agent=ppo_single_file", "train.start=null", "train.sharpness=1.0", "train.critic_first=2000",
        "cells.settings={instances: 4, warm_up_s: 60.0, window_s: 240.0}", "cells.validation_seeds=[2000,2001]",
        "cells.cells=[{cluster: colocated, global_tier: 0.0, load: 1.0}]", "train.reward=goodput",
        "train.scenario={max_instances: 4, shuffle: true, trace_seeds: [0, 9999], draw: {instances: 4, "
        "global_tier: 0.0, load: 1.0, warm_up_s: 10.0, window_s: 120.0}}",
        "train.references=[random_choice]", "train.clip=3.0",
        "train.guard=0.0", "train.steps=24000", "train.look_every=6000", "train.learning_rate=1e-3", "train.envs=8",
        "train.n_steps=128", "train.horizon_s=20.0", "jobs=1", "hydra.run.dir=here",
    ]  # fmt: skip
    assert main(command) == 0
    made = json.loads((tmp_path / "here" / "training.json").read_text())
    gains = next(row for row in made["validation"] if row["cell"] == "all")
    ratio = (1 + gains["learned"] / 100) / (1 + gains["random_choice"] / 100)
    assert ratio > 1.5, gains
