"""The page of a recording: one HTML file with everything in it, which opens without a network."""

from __future__ import annotations

import base64
import html
import math
from importlib.resources import files
from typing import Any

import numpy as np

from smetric_gym.agents.memory import Reason
from smetric_gym.experiment.tables import number
from smetric_gym.replay.pack import pack, quantised
from smetric_gym.replay.recording import Recording
from smetric_gym.replay.series import lane_names, lane_samples, lane_tokens, strips, worst_moments
from smetric_gym.scoring import SCORES, Score

SCRIPTS = ("data.js", "view.js", "lanes.js", "overlay.js", "card.js", "main.js")
"""Parts of the page's one script, in order: each uses only those before it."""
SHOWN_SCORES = ("tps_within_slo", "slo_attainment", "ttft_p50_s", "ttft_p99_s", "tpot_p95_s", "local_hit_ratio",
                "global_hit_ratio", "load_imbalance", "migrations", "saturation")  # fmt: skip
MEASURES = (
    ("tokens", "prompt tokens in flight", "tokens"),
    ("waiting", "requests waiting", "requests"),
    ("running", "requests running", "requests"),
    ("unprefilled_s", "prefill work queued", "s"),
    ("kv_use", "KV cache in use", "share"),
)
"""What the colour of a lane can mean: key, words, unit. The first is exact, the others as the router saw them."""
IN_TIME, LATE, SLOW, UNFINISHED = range(4)
"""Verdicts of the page: both limits met, TTFT missed, only TPOT missed, no last token."""


def page(recording: Recording) -> bytes:
    """The HTML page of a recording, complete."""
    header, arrays = content(recording)
    parts = files("smetric_gym.replay")

    def part(name: str) -> str:
        return parts.joinpath(name).read_text(encoding="utf-8")

    data = base64.b64encode(pack(header, arrays)).decode("ascii")
    text = part("page.html")
    for name, value in (
        ("TITLE", html.escape(f"{header['title']} · replay")),
        ("STYLE", part("page.css")),
        ("SCRIPT", "\n".join(part(name) for name in SCRIPTS)),
        ("DATA", data),
    ):
        text = text.replace(f"<!--{name}-->", value, 1)
    return text.encode()


def content(recording: Recording) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the page shows: a header of words and numbers, and the arrays that `pack` takes."""
    setup = recording.setup
    tokens = lane_tokens(recording)
    over = strips(recording, tokens)
    load, tier = setup.settings["load"], setup.config.global_tier
    where = f"{setup.trace.name}, load {load:g}, global tier {tier:g}"
    header: dict[str, Any] = {
        "title": f"{recording.policy.name} on {setup.config.instances} instances",
        "subtitle": f"{where}, seed {setup.seed}, {setup.arrival_mode} arrivals",
        "parameters": {k: v for k, v in (setup.settings.get("policy") or {}).items() if k != "name"},
        "disaggregated": setup.config.disaggregated,
        "view_lag_s": setup.config.view_lag_s,
        "start_s": recording.start_s,
        "end_s": recording.end_s,
        "warm_up_s": setup.warm_up_s,
        "scored_end_s": setup.warm_up_s + setup.window_s,
        "tpot_limit_s": setup.slo.tpot_s if math.isfinite(setup.slo.tpot_s) else None,
        "lanes": lane_names(recording),
        "targets": setup.config.instances,
        "reasons": [reason.name for reason in Reason],
        "scores": [_shown(SCORES[name], recording.scores[name]) for name in SHOWN_SCORES],
        "moments": [vars(moment) for moment in worst_moments(recording, tokens, over)],
        "measures": [],
    }
    arrays = requests(recording)
    for name in ("tps_within_slo", "arrived", "late", "imbalance"):
        arrays[f"strip_{name}"] = getattr(over, name).astype(np.float32)
    for name, words, unit in MEASURES:
        values = tokens if name == "tokens" else lane_samples(recording, name)
        arrays[f"lane_{name}"], step = quantised(values)
        known = values[np.isfinite(values) & (values > 0)]
        top = float(np.percentile(known, 99)) if len(known) else 1.0
        header["measures"].append({"name": name, "words": words, "unit": unit, "step": step, "top": top})
    arrays["lane_alive"] = (np.nan_to_num(lane_samples(recording, "alive"), nan=1.0) > 0).astype(np.uint8)
    return header, arrays


def requests(recording: Recording) -> dict[str, np.ndarray]:
    """The requests of the shown time as flat arrays, in order of arrival; times after ``arrival`` in s from it."""
    shown, run = recording.shown, recording.scored.all[recording.shown]
    source, seen = recording.setup.trace.requests[shown], recording.decisions[shown]
    columns = {"request": shown.astype(np.uint32), "arrival": run["arrival_s"]}
    for name, field in (("admitted", "admitted_s"), ("first", "first_token_s"), ("handed", "handed_over_s"),
                        ("finish", "finish_s")):  # fmt: skip
        columns[name] = (run[field] - run["arrival_s"]).astype(np.float32)
    columns["limit"] = recording.setup.slo.ttft_limit_s(source["prompt"]).astype(np.float32)
    for name in ("session", "turn", "prompt", "output", "history"):
        columns[name] = source[name].astype(np.uint32)
    for name in ("local_hit_tokens", "global_hit_tokens", "preemptions", "retries"):
        columns[name] = run[name].astype(np.uint32)
    for name in ("instance", "decode_instance"):
        columns[name] = run[name].astype(np.int16)
    columns["reason"] = run["reason"].astype(np.uint8)
    columns["verdict"] = verdicts(recording)[shown]
    columns["scored"] = recording.scored.mask[shown].astype(np.uint8)
    for name in seen.dtype.names or ():
        columns[name] = seen[name].astype(np.int16) if name == "best" else seen[name]
    return columns


def verdicts(recording: Recording) -> np.ndarray:
    """[requests] uint8: how each request of the trace stands to its limits; `UNFINISHED` if it never arrived."""
    every = recording.everything
    result = np.full(len(every.mask), UNFINISHED, np.uint8)
    how = np.where(every.met, IN_TIME, np.where(every.met_ttft, SLOW, LATE))
    result[every.mask] = np.where(every.finished, how, UNFINISHED)
    return result


def _shown(score: Score, value: Any) -> list[str]:
    """Name, value, unit and definition of a score; a share is shown in %."""
    unit = "" if score.unit == "share" else score.unit
    return [score.name.removesuffix("_s").replace("_", " "), number(value, score.unit), unit, score.definition]
