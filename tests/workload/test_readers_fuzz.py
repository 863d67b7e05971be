"""Damaged files end in a SmetricError or in a trace, never in another exception."""

import json
import random
import re

import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.workload.readers import read_trace

TURN = {
    "t": 5,
    "type": "n",
    "in": 130,
    "out": 5,
    "hash_ids": [1, 2],
    "input_types": ["text"],
    "api_time": 1.0,
}
AGENT = {
    "t": 9,
    "type": "subagent",
    "duration_ms": 3000,
    "tool_tokens": 64,
    "system_tokens": 9,
    "requests": [TURN],
}
WEKA = {"block_size": 64, "tool_tokens": 64, "system_tokens": 1, "requests": [TURN, AGENT, {**TURN, "t": 20}]}
CHAT = {"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "turn": 1}
ROW = {"input_length": 20, "output_length": 4, "hash_ids": [5, 6]}
FILES = {
    "weka": json.dumps(WEKA),
    "bailian": json.dumps(CHAT | ROW)
    + "\n"
    + json.dumps(CHAT | ROW | {"chat_id": 2, "parent_chat_id": 1})
    + "\n",
    "mooncake": json.dumps({"session_id": "a", "timestamp": 3} | ROW)
    + "\n"
    + json.dumps({"session_id": "a", "delay": 3} | ROW)
    + "\n",
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "2023-11-16 18:17:03.9799600,4808,10\n" * 4,
    "burstgpt": "Timestamp,Session ID,Request tokens,Response tokens\n5,7,472,18\n6,7,490,0\n7,8,9,1\n",
}
ODD = ["null", "-1", "1e30", '"x"', "[]", "{}", "true", "99999999999999999999", "0", "1.5", "NaN", '""']
VALUE = re.compile(r'(?<=[:,\[ \n])(-?[\d.]+|"[^"]*"|null)(?=[,\]}\n])')


def damaged(text, rng):
    kind = rng.random()
    values = list(VALUE.finditer(text))
    if kind < 0.7 and values:
        found = rng.choice(values)
        return text[: found.start()] + rng.choice(ODD) + text[found.end() :]
    at = rng.randrange(len(text) // 2, len(text))
    return text[:at] if kind < 0.8 else text[:at] + text[at + rng.randint(1, 5) :]


@pytest.mark.parametrize("format", FILES)
def test_damaged_files(tmp_path, format):
    rng = random.Random(0)
    read = failed = 0
    for _ in range(80):
        (tmp_path / "t").write_text(damaged(damaged(FILES[format], rng), rng))
        for on_bad in ("error", "skip"):
            try:
                trace = read_trace(tmp_path / "t", format=format, on_bad=on_bad, block_tokens=None)
                read += 1
                assert len(trace)
            except SmetricError as error:
                failed += 1
                assert "\n" not in str(error)
    assert read and failed
