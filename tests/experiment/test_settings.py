"""The files of conf/, and the one sentence that a user gets for each kind of bad input."""

import dataclasses
import re
from importlib import import_module
from pathlib import Path

import pytest

import smetric_gym.conf
from smetric_gym.cluster import ClusterConfig
from smetric_gym.errors import SmetricError
from smetric_gym.experiment import prepare, settings
from smetric_gym.reproduce.study import STUDIES
from smetric_gym.slo import SLO, SLO_PRESETS
from smetric_gym.workload.readers import read_trace
from smetric_gym.workload.readers.detect import FORMATS


@pytest.mark.parametrize("name", settings.choices("cluster"))
def test_every_cluster_file_gives_a_cluster(name):
    values = settings.compose([f"cluster={name}"])["cluster"]
    config = prepare.cluster_config(values)
    assert set(values) == {f.name for f in dataclasses.fields(ClusterConfig)}
    assert config.disaggregated == (name == "disaggregated")


def test_the_defaults_of_the_file_are_those_of_python():
    assert prepare.cluster_config(settings.compose()["cluster"]) == ClusterConfig()


@pytest.mark.parametrize("name", settings.choices("slo"))
def test_slo_files_are_the_presets(name):
    assert SLO(**settings.compose([f"slo={name}"])["slo"]) == SLO_PRESETS[name]


def test_there_is_a_workload_file_for_every_format():
    assert set(FORMATS) <= set(settings.choices("workload"))
    import inspect

    known = set(inspect.signature(read_trace).parameters)
    for name in (*FORMATS, "file"):
        values = settings.group_file("workload", name)
        assert set(values) == known - {"seed"}
        assert values["format"] == ("auto" if name == "file" else name)


def test_every_registered_policy_has_a_file():
    from smetric_gym.agents.policy import POLICIES

    assert set(POLICIES) == set(settings.choices("policy")) - {"custom"}


@pytest.mark.parametrize("name", settings.choices("experiment"))
def test_experiments_compose(name):
    values = settings.compose([f"experiment={name}"])
    assert values["policies"] and all(load > 0 for load in values["loads"])
    assert values["figure"] is None or str(values["figure"]) in STUDIES


def test_shortcuts_go_into_the_cluster():
    values = settings.compose(["instances=4", "global_tier=inf"])
    assert values["cluster"]["instances"] == 4 and values["cluster"]["global_tier"] == float("inf")
    assert "instances" not in values


def test_a_policy_in_a_file_and_keys_that_only_it_knows():
    values = settings.compose(["policy=./mine.py:cheapest", "policy.alpha=2"])
    assert values["policy"] == {"name": "./mine.py:cheapest", "alpha": 2}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("lod=1", "unknown key 'lod', did you mean load?"),
        ("cluster.global_teir=1", "did you mean cluster.global_tier?"),
        ("nics_per_server=1", "did you mean cluster.nics_per_server?"),
        ("cluster=colocatd", r"cluster is 'colocatd' \(did you mean colocated\?\), allowed: colocated"),
        ("policy=smetrik", r"did you mean smetric\?"),
        ("hardware=h20_30b", "cluster.hardware=NAME"),
        ("workload=mooncake", "workload.path is not given"),
        ("~load", "'~load' removes a key"),
        ("+lod=1", "unknown key 'lod', did you mean load?"),
        ("policy=./mine.py", r"names no function, allowed: ./mine.py:FUNCTION"),
        ("load=[1", "cannot read 'load=\\[1'"),
    ],
)
def test_one_sentence_from_composing(override, words):
    with pytest.raises(SmetricError, match=words) as found:
        settings.compose([override])
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("load=0", "^load is 0, allowed: a finite number above 0"),
        ("load=fast", "^load is 'fast'"),
        ("window_s=1e9", "^window_s is 1000000000.0, allowed: up to 4e"),
        ("warm_up_s=-1", "^warm_up_s is -1"),
        ("seed=-1", "^seed is -1"),
        ("seed=1.5", "^seed is 1.5"),
        ("cluster.instances=many", "^cluster.instances is 'many'"),
        ("cluster.loads=fast", "^cluster.loads is 'fast'"),
        ("cluster.schedule=7", "^cluster.schedule is 7"),
        ("cluster.schedule=[7]", "^cluster.schedule has the row 7"),
        ("cluster.schedule=[{at:7}]", "^cluster.schedule has the row {'at': 7}"),
        ("load_by=session", r"^load_by is 'session' \(did you mean sessions"),
        ("arrival_mode=close", "^arrival_mode is 'close'"),
        ("debug=2", "^debug is 2, allowed: true or false"),
        ("load=1e6", "^the workload has about 1.4e"),
        ("workload.foo=1", "^unknown key workload.foo, allowed: "),
        ("workload.single_share=abc", "^workload.single_share is 'abc', allowed: a number"),
        ("workload.system_tokens=[many]", "^workload.system_tokens is .*, allowed: a list of numbers"),
        ("workload.system_tokens=5", "^workload.system_tokens is 5, allowed: a list of numbers"),
        ("workload.turns_median=[5]", "^workload.turns_median is .*, allowed: a number"),
        ("workload.name=5", "^workload.name is 5, allowed: a text"),
        ("slo.tpot_s=0", "^slo.tpot_s is 0"),
        ("global_tier=-1", "^global_tier is -1"),
        ("workload.preset=trace9", "^workload.preset is 'trace9'"),
        ("workload.turns_medain=3", "did you mean turns_median"),
    ],
)
def test_one_sentence_from_preparing(override, words):
    with pytest.raises(SmetricError, match=words) as found:
        prepare.prepare(settings.compose([override]))
    assert "\n" not in str(found.value)


def test_a_recorded_trace_is_thinned_or_squeezed(tmp_path):
    row = '{"timestamp": %d, "input_length": 600, "output_length": 5, "hash_ids": [%d, %d]}\n'
    rows = [row % (1000 * k, k, 900 + k) for k in range(100)]
    (tmp_path / "trace.jsonl").write_text("".join(rows))

    def trace(*overrides):
        path = f"workload.path={tmp_path / 'trace.jsonl'}"
        return prepare.workload(settings.compose(["workload=file", path, *overrides]), instances=2)

    assert len(trace()) == 100
    assert 35 <= len(trace("load=0.5")) <= 65
    fast = trace("load=2", "load_by=time")
    assert len(fast) == 100 and fast.span_s == pytest.approx(trace().span_s / 2)
    with pytest.raises(SmetricError, match="load_by=sessions only thins"):
        trace("load=2")
    with pytest.raises(SmetricError, match="did you mean max_gap_s"):
        trace("workload.max_gap=2")


def test_the_help_lists_every_key_of_a_cluster_and_of_a_recorded_workload():
    text = (Path(smetric_gym.conf.__path__[0]) / "config.yaml").read_text()
    keys = [f.name for f in dataclasses.fields(ClusterConfig)] + list(settings.group_file("workload", "file"))
    for name in (*keys, *settings.choices("policy"), *settings.choices("hardware"), *settings.choices("cluster")):
        assert re.search(rf"^ {{8,}}.*\b{name}\b", text, re.MULTILINE) or name == "custom", name


def test_composing_inside_another_hydra_application(tmp_path):
    import hydra
    from hydra.core.global_hydra import GlobalHydra

    (tmp_path / "theirs.yaml").write_text("mine: 1\n")
    with hydra.initialize_config_dir(str(tmp_path), version_base="1.3"):
        assert settings.compose()["load"] == 1.0
        assert hydra.compose("theirs").mine == 1
    assert not GlobalHydra.instance().is_initialized()


def test_modules_of_the_package_import_alone():
    for name in ("evaluate", "compare", "store", "figures", "tables", "sweep", "tasks", "bench"):
        import_module(f"smetric_gym.experiment.{name}")
