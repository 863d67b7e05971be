"""Presets, the checks of a preset file, and the step-time formula against tables computed elsewhere."""

import json
from dataclasses import asdict, replace
from importlib import resources

import numpy as np
import pytest
import yaml

from smetric_gym.cluster.checks import measured
from smetric_gym.cluster.hardware import hardware_names, load_hardware
from smetric_gym.cluster.steptime import TICKS_PER_S, step_seconds, step_time
from smetric_gym.errors import SmetricError

PRESETS = [
    "a100_30b", "h100_30b", "h200_235b_fp8", "h200_30b", "h20_235b_fp8", "h20_235b_fp8_sglang", "h20_30b",
    "h20_30b_fp8_sglang", "h20_30b_sglang",
]  # fmt: skip
TABLES = {"h20_30b": "Qwen3-Coder-30B-A3B", "h20_235b_fp8": "Qwen3-235B-A22B-FP8"}


def test_the_presets_are_these():
    assert hardware_names() == PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_loads_and_its_step_time_grows(name):
    hardware = load_hardware(name)
    assert hardware.name == name
    time = step_time(hardware, 8192, 1024)
    assert time.tokens_ticks.dtype == time.rows_ticks.dtype == np.int64
    assert len(time.tokens_ticks) == 8193 and len(time.rows_ticks) == 1025
    assert (np.diff(time.tokens_ticks) > 0).all() and (np.diff(time.rows_ticks) >= 0).all()
    assert (
        0 < time.tokens_ticks[0] < time.tokens_ticks[1] and time.mixed_context_ticks >= time.context_ticks > 0
    )
    assert time.instances_per_server * hardware.tensor_parallel == 8


@pytest.mark.parametrize("name", TABLES)
def test_prefill_steps_agree_with_the_report(name):
    time = step_time(load_hardware(name), 16384, 1024)
    for row in measured(f"table_prefill_{TABLES[name]}.csv"):
        chunk = int(row.pop("chunk"))
        for start, ms in row.items():
            assert 1e3 * step_seconds(time, [(chunk, int(start[1:]))]) == pytest.approx(float(ms), rel=0.002)


@pytest.mark.parametrize("name", TABLES)
def test_decode_steps_agree_with_the_report(name):
    time = step_time(load_hardware(name), 8192, 1024)
    for row in measured(f"table_decode_{TABLES[name]}.csv"):
        batch = int(row.pop("batch"))
        for context, ms in row.items():
            if ms:  # one decimal is given
                step_ms = 1e3 * step_seconds(time, decode_contexts=[int(context[1:])] * batch)
                assert step_ms == pytest.approx(float(ms), rel=0.001, abs=0.051)


def test_a_mixed_step_is_the_sum_of_its_parts():
    hardware = load_hardware("h20_30b")
    time = step_time(hardware, 8192, 1024)
    ticks = time.tokens_ticks[1002] + time.rows_ticks[3] + time.half_pair_ticks * 1000 * (2 * 500 + 1000)
    ticks += time.mixed_context_ticks * (70 + 80) + time.connector_ticks
    step_s = step_seconds(time, [(1000, 500), (1, 79)], [70], tier=True)
    assert step_s == pytest.approx(ticks / TICKS_PER_S)
    # attention of the chunk by hand: 4 * 32 heads * 128 * 48 layers FLOP per pair, 148 TFLOP/s
    pairs = 1000 * 500 + 1000**2 / 2
    by_hand = 4 * 32 * 128 * 48 * pairs / (hardware.coefficients.e_attn * 148e12)
    assert time.half_pair_ticks * 2 * pairs / TICKS_PER_S == pytest.approx(by_hand, rel=1e-3)


def test_kv_of_a_token():
    # 48 layers x K and V x 4 heads x 128 x 2 bytes; TP8 holds each of 4 KV heads twice
    assert load_hardware("h20_30b").kv_bytes_per_token == 98_304
    big = load_hardware("h20_235b_fp8")
    assert big.kv_bytes_per_token == 192_512
    assert replace(big, tensor_parallel=8).kv_bytes_per_token == 2 * 192_512


@pytest.mark.parametrize("name", PRESETS)
def test_kv_capacity_is_what_the_derivation_says(name):
    hardware = load_hardware(name)
    m, gpus = hardware.model, hardware.tensor_parallel
    layers = m.layers * (m.attention_parameters + m.experts * m.expert_parameters) * m.weight_bytes
    weights = (layers + 2 * 2 * m.vocabulary * m.hidden) / gpus
    reserve = (3 if gpus > 1 else 2) * 2**30
    kv = 0.9 * hardware.gpu.memory_gib * 2**30 - weights - reserve
    assert hardware.kv_capacity_tokens == pytest.approx(
        kv * gpus / hardware.kv_bytes_per_token, rel=0.05
    )  # the report rounds


def test_coefficients_are_those_of_the_fits():
    folder = resources.files("smetric_gym.cluster") / "measured"
    recommended = json.loads((folder / "recommended_h20_vllm012.json").read_text())
    sglang = json.loads((folder / "fit_h20_coeffs.json").read_text())
    fits = {
        "h20_30b": recommended["h20_96|Qwen3-Coder-30B-A3B|bf16|tp1|vllm0.12"],
        "h20_235b_fp8": recommended["h20_96|Qwen3-235B-A22B-FP8|fp8|tp4|vllm0.12"],
        "h20_30b_sglang": sglang["h20_96|30b_bf16|sglang0.4.6.post1"],
        "h20_30b_fp8_sglang": sglang["h20_96|30b_fp8|sglang0.4.6.post1"],
        "h20_235b_fp8_sglang": sglang["h20_96|235b_fp8_tp4|sglang0.4.6.post1"],
    }
    for row in measured("fit_aic_coeffs.csv"):
        if (
            row["backend"] == "vllm"
            and row["ep"] == "1"
            and (row["tp"], "30B" in row["model"]) in (("1", True), ("4", False))
        ):
            gpu, size = row["system"].removesuffix("_sxm"), "30b" if "30B" in row["model"] else "235b"
            fits[f"{gpu}_{size}" + ("_fp8" if row["model"].endswith("FP8") else "")] = row
    found = set(PRESETS) & set(fits)
    assert found == set(PRESETS)
    for name in found:
        for key, value in asdict(load_hardware(name).coefficients).items():
            key = {"api_token_us": "tok_us_per_input_token"}.get(key, key)
            if key in fits[name]:
                assert value == pytest.approx(float(fits[name][key]), rel=1e-12), f"{name} {key}"


def test_presets_agree_on_models_and_gpus():
    seen = {}
    for name in PRESETS:
        hardware = load_hardware(name)
        for part in (hardware.model, hardware.gpu):
            assert seen.setdefault(part.name, part) == part


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(SmetricError, match="hardware is 'h20_30B'.*nearest: h20_30b"):
        load_hardware("h20_30B")


def test_a_file_of_your_own(tmp_path):
    file = tmp_path / "mine.yaml"
    values = asdict(replace(load_hardware("h100_30b"), name="mine", kv_capacity_tokens=50_000))
    file.write_text(yaml.safe_dump(values))
    assert load_hardware(str(file)).kv_capacity_tokens == 50_000


def test_bad_files_are_refused_in_one_sentence(tmp_path):
    file = tmp_path / "mine.yaml"
    good = asdict(load_hardware("h20_30b"))

    def refused(match, **changes):
        values = json.loads(json.dumps(good))
        for path, value in changes.items():
            place, _, key = path.rpartition("__")
            target = values[place] if place else values
            target.pop(key) if value is None else target.__setitem__(key, value)
        file.write_text(yaml.safe_dump(values))
        with pytest.raises(SmetricError, match=match) as error:
            load_hardware(str(file))
        assert "allowed" in str(error.value) and "\n" not in str(error.value)

    refused(r"coefficients.e_bw is 1.7, allowed: a number 0.01 .. 1", coefficients__e_bw=1.7)
    refused(r"coefficients.e_bw is '0.8'", coefficients__e_bw="0.8")
    refused(r"coefficients.e_bw is nan", coefficients__e_bw=float("nan"))
    refused(r"tensor_parallel is True", tensor_parallel=True)
    refused(r"model.layers is 48.5, allowed: a whole number", model__layers=48.5)
    refused(r"gpu.hbm_tb_per_s is missing", gpu__hbm_tb_per_s=None)
    refused(r"unknown key coefficients.e_bandw, allowed: .*nearest: ", coefficients__e_bandw=0.5)
    refused(r"model is 'qwen'", model="qwen")
    refused(r"fp8_tflops is 0", model__weight_bytes=1, gpu__fp8_tflops=0)
    with pytest.raises(SmetricError, match="does not exist"):
        load_hardware(str(tmp_path / "no.yaml"))
    file.write_text("a: [1")
    with pytest.raises(SmetricError, match="not readable as YAML"):
        load_hardware(str(file))
    file.write_text("")
    with pytest.raises(SmetricError, match="the file is None"):
        load_hardware(str(file))
