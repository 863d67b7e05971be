"""What the controls say becomes settings; nonsense is refused in one sentence."""

import pytest

from smetric_gym.agents.params import RANGES
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.settings import choices
from smetric_gym.play.scenario import (
    FILE,
    STEPS,
    Router,
    Scenario,
    disaggregated,
    fixed_size,
    parameters,
    record,
    workloads,
)


def test_the_controls_reach_the_settings():
    scenario = Scenario(instances=8, load=0.75, global_tier=0.8, loads="async", nics=2, nic_gbytes_per_s=5, slo_scale=2)
    settings = scenario.settings(Router("smetric", (("overload", 4.0),)))
    cluster = settings["cluster"]
    assert (cluster["instances"], cluster["global_tier"], cluster["loads"]) == (8, 0.8, "async")
    assert (cluster["nics_per_server"], cluster["nic_bytes_per_s"]) == (2, 5e9)
    assert settings["slo"]["tpot_s"] == pytest.approx(0.06)
    assert settings["policy"]["overload"] == 4.0 and settings["policy"]["hit_ratio"] == 0.5
    assert settings["load"] == 0.75


@pytest.mark.parametrize("name", choices("cluster"))
def test_every_architecture_is_offered_with_a_size_that_fits(name):
    cluster = Scenario(cluster=name, instances=6).settings(Router("smetric"))["cluster"]
    if fixed_size(name):
        assert cluster["instances"] == 8
    else:
        assert cluster["instances"] == 6
        assert cluster["decode_instances"] == (6 if disaggregated(name) else 0)


@pytest.mark.parametrize("name", sorted(STEPS))
def test_sliders_offer_only_what_policies_take(name):
    assert all(value in RANGES[name] for value in STEPS[name])


def test_a_slider_stops_at_the_default():
    steps, default = parameters("bailian")["lam"]
    assert default in steps and list(steps) == sorted(steps)
    assert parameters("nobody") == {}


def test_a_file_needs_a_path():
    assert workloads()[-1] == FILE
    with pytest.raises(SmetricError, match="no trace file is named"):
        Scenario(workload=FILE).settings(Router("smetric"))
    with pytest.raises(SmetricError, match="nowhere.jsonl"):
        record(Scenario(workload=FILE, path="nowhere.jsonl"), Router("smetric"))


def test_a_policy_of_ones_own_is_named_by_its_function(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def first(view, request, memory, params):\n    return int(view.in_flight.argmin())\n")
    run = record(Scenario(instances=2, warm_up_s=20.0, window_s=40.0), Router(f"{file}:first"))
    assert run.label == "first" and len(run) > 0


def test_a_recording_is_made_once():
    scenario = Scenario(instances=2, warm_up_s=20.0, window_s=40.0)
    assert record(scenario, Router("smetric")) is record(scenario, Router("smetric"))
    assert record(scenario, Router("smetric")) is not record(scenario, Router("smetric", (("overload", 1.0),)))


def test_labels_say_what_was_changed():
    assert Router("smetric").label == "smetric"
    assert Router("smetric", (("overload", 1.5),)).label == "smetric (overload 1.5)"
