"""Checks of the H100, H200 and A100 presets, and of points whose load or settings are partly unknown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from smetric_gym.cluster import probes
from smetric_gym.cluster.checks import Check, compare, measured, summarise
from smetric_gym.cluster.hardware import Hardware, load_hardware
from smetric_gym.cluster.steptime import step_seconds, step_time

AIC = "AIConfigurator 0.12.0 op sums, vLLM 0.24"
H200 = "AIConfigurator silicon_sample.csv, H200, vLLM 0.12.0"
AIC_KV_LIMIT, AIC_SMALLEST_CHUNK = 1_000_000, 64

AIC_GRIDS = {
    "h100_30b": ("Qwen/Qwen3-30B-A3B", "h100_sxm", "vllm", "1", "1"),
    "h200_30b": ("Qwen/Qwen3-30B-A3B", "h200_sxm", "vllm", "1", "1"),
    "a100_30b": ("Qwen/Qwen3-30B-A3B", "a100_sxm", "vllm", "1", "1"),
    "h200_235b_fp8": ("Qwen/Qwen3-235B-A22B-FP8", "h200_sxm", "vllm", "4", "1"),
}


def aic() -> Iterator[Check]:
    """5: single steps against grids of op sums, which include no host time."""
    grid = measured("aic_iteration_latency.csv.gz")
    for preset, wanted in AIC_GRIDS.items():
        tp = wanted[3]
        hardware = load_hardware(preset)
        silent = replace(hardware.coefficients, host_ms=0.0, host_seq_us=0.0)
        table = step_time(replace(hardware, coefficients=silent), 2**15, 2**10)
        errors: dict[str, list[float]] = {"prefill": [], "decode": []}
        for row in grid:
            if tuple(row[key] for key in ("model", "system", "backend", "tp", "ep")) != wanted:
                continue
            batch, new, context = int(row["batch"]), int(row["new"]), int(row["context"])
            prefill = row["phase"] == "prefill"
            kv = batch * (new + context) if prefill else batch * context
            if kv <= AIC_KV_LIMIT * int(tp) and not (prefill and new < AIC_SMALLEST_CHUNK):
                step_s = step_seconds(
                    table, [(new, context)] * batch if prefill else (), () if prefill else [context] * batch
                )
                errors[row["phase"]].append(1e3 * step_s / float(row["ms"]) - 1)
        for phase, values in (*errors.items(), ("all", errors["prefill"] + errors["decode"])):
            yield summarise(
                f"aic/{preset}/{phase}",
                f"{phase} steps",
                values,
                0.05 if phase == "all" else None,
                AIC,
                "about 30 % of them were not fitted to; which ones is not known any more",
            )


H200_NOTES = {
    ("4", "TPOT"): "",
    ("2", "TPOT"): "known bad: the fit is to kernels of vLLM 0.24, which are faster",
}


def h200() -> Iterator[Check]:
    """6: Qwen3-235B-A22B-FP8 on H200, closed loop at the given concurrency."""
    for tp, hardware in (("4", load_hardware("h200_235b_fp8")), ("2", _h200_tp2())):
        errors: dict[str, list[float]] = {"TPOT": [], "TTFT": []}
        for row in measured(f"val_silicon_h200_sxm_vllm_tp{tp}.csv"):
            prompt, output, batch = int(row["isl"]), int(row["osl"]), int(float(row["batch_size"]))
            ttft_s, tpot_s = probes.closed_loop(hardware, batch, prompt, output)
            tpot = compare(
                f"h200/tp{tp}/{prompt}-{output}-{batch}",
                "TPOT, ms",
                row["silicon_tpot_ms"],
                1e3 * tpot_s,
                None,
                H200,
            )
            errors["TPOT"].append(tpot.error)
            errors["TTFT"].append(1e3 * ttft_s / float(row["silicon_ttft_ms"]) - 1)
            yield tpot
        for what, values in errors.items():
            yield summarise(
                f"h200/tp{tp}/{what.lower()}",
                f"{what} of the runs",
                values,
                0.10 if (tp, what) == ("4", "TPOT") else None,
                H200,
                H200_NOTES.get((tp, what), "known bad: the arrivals are unknown"),
            )


def _h200_tp2() -> Hardware:
    base = load_hardware("h200_235b_fp8")
    fit = next(
        row
        for row in measured("fit_aic_coeffs.csv")
        if row["model"].endswith("235B-A22B-FP8")
        and (row["system"], row["backend"], row["tp"], row["ep"]) == ("h200_sxm", "vllm", "2", "1")
    )
    names = ("t_layer_us", "e_bw", "e_gemm", "e_moe", "m_pad", "e_attn", "kv_ns", "phi", "ar_us", "ar_eff")
    fitted = replace(
        base.coefficients, **{name: float(fit[name]) for name in names}, kv_ns_mixed=float(fit["kv_ns"])
    )
    return replace(base, tensor_parallel=2, coefficients=fitted)


def others() -> Iterator[Check]:
    """7: single points whose load or settings are partly unknown."""
    for row in measured("misc_serving_points.csv"):
        name, value, source = f"misc/{row['hw']}/{row['metric']}/{row['input']}", row["value"], row["source"]
        concurrency, prompt, output = int(row["concurrency"]), int(row["input"]), int(row["output"])
        if row["hw"] == "H20 x2 DP2":
            simulated = probes.makespan_s(load_hardware("h20_30b"), 16, concurrency // 2, prompt, output)
            yield compare(
                name,
                "32 requests on two instances, s",
                value,
                simulated,
                None,
                source,
                "not independent: sets host_ms",
            )
        elif row["hw"] == "H100 x1":
            ttft_s, tpot_s = probes.closed_loop(load_hardware("h100_30b"), concurrency, prompt, output)
            seconds, note = (
                (tpot_s, "")
                if row["metric"] == "mean_TPOT_ms"
                else (ttft_s, "arrivals unknown, maybe all at once")
            )
            yield compare(
                name, row["metric"].replace("_ms", ", ms"), value, 1e3 * seconds, None, source, note
            )
        elif row["hw"] == "A100 x1":
            outcome = probes.serve(load_hardware("a100_30b"), [{"prompt": prompt, "output": output}])
            yield compare(
                name,
                "TPOT at batch 1, ms",
                value,
                1e3 * probes.tpot_s(outcome, output)[0],
                None,
                source,
                "engine of July 2025 with more host time",
            )
        else:
            yield Check(
                f"{name}/{row['engine']}",
                row["metric"],
                float(value),
                math.nan,
                math.nan,
                None,
                source,
                "dense model: no preset",
            )
    for row in measured("h20_sglang_throughput.csv"):
        preset = "h20_30b_sglang" if "30B" in row["model"] else "h20_235b_fp8_sglang"
        speed = probes.output_tokens_per_s(
            load_hardware(preset), 100, 10.0, int(row["input"]), int(row["output"])
        )
        for when in ("before", "after"):
            yield compare(
                f"sglang/{preset}/{row['input']}/{when}",
                f"output tokens/s {when} tuning",
                row[f"out_tps_{when}_tune"],
                speed,
                None,
                row["source"],
                "load not stated: 100 requests at 10/s assumed; batching was not fitted",
            )
