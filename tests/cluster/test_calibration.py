"""Every row of the calibration table that has a tolerance, by name, so that none can go missing."""

import csv
import math

import pytest

from smetric_gym.cluster.calibration import HEADINGS, calibration_table, rows
from smetric_gym.cluster.checks import Check

QWEN_PROMPTS = (1, 6144, 14336, 30720, 63488, 129042)
TOLERANCES = {
    "cold/tiers/65536": 0.05,
    **{f"cold/mb1/8x{n}": 0.05 for n in (2048, 8192, 32768, 65536, 131072)},
    **{f"cold/mb1/1x{n}": 0.05 for n in (2048, 16384)},
    **{f"hit/gpu/{n}": 0.20 for n in (1024, 2048, 4096, 8192, 16384, 65536)},
    **{f"hit/cpu/{n}": 0.20 for n in (1024, 65536)},
    "hit/rdma/65536": 0.20,
    **{f"beside/window/{n}": 0.25 for n in (2048, 8192, 32768, 65536, 131072)},
    **{
        f"qwen/{preset}/{n}": 0.03
        for preset in ("h20_30b_sglang", "h20_30b_fp8_sglang", "h20_235b_fp8_sglang")
        for n in QWEN_PROMPTS
    },
    **{f"aic/{preset}/all": 0.05 for preset in ("h100_30b", "h200_30b", "a100_30b", "h200_235b_fp8")},
    "h200/tp4/tpot": 0.10,
}


@pytest.fixture(scope="module")
def table():
    checks = calibration_table()
    assert len({c.name for c in checks}) == len(checks)
    return {c.name: c for c in checks}


def test_the_table_has_these_tolerances_and_no_others(table):
    assert {c.name: c.tolerance for c in table.values() if c.tolerance is not None} == TOLERANCES


@pytest.mark.parametrize("name", TOLERANCES)
def test_simulated_is_near_measured(table, name):
    check = table[name]
    assert abs(check.error) <= TOLERANCES[name], f"{check.measured} measured, {check.simulated} simulated"


def test_what_is_known_to_be_off_is_shown(table):
    shown = {name.split("/")[0] for name, c in table.items() if c.tolerance is None}
    assert {"cold", "beside", "decode", "qwen", "h200", "link", "misc", "sglang"} <= shown
    assert table["decode/mb1/8"].error > 0.25 and table["h200/tp2/tpot"].error > 0.25


def test_errors_are_what_they_say(table):
    for c in table.values():
        if not math.isnan(c.measured) and not math.isnan(c.simulated):
            assert c.error == pytest.approx(c.simulated / c.measured - 1)
    tpot = [c.error for name, c in table.items() if name.startswith("h200/tp4/") and name[9].isdigit()]
    assert len(tpot) == 11
    assert table["h200/tp4/tpot"].error == pytest.approx(sum(map(abs, tpot)) / 11)


def test_rows_are_texts_for_a_table(table):
    lines = rows(list(table.values()))
    assert all(len(line) == len(HEADINGS) and all(isinstance(cell, str) for cell in line) for line in lines)
    line = next(line for line in lines if line[0] == "hit/cpu/1024")
    assert line[HEADINGS.index("verdict")] == "ok" and line[HEADINGS.index("measured")] == "57"
    assert (
        Check("a", "b", 2.0, 3.0, 0.5, 0.5, "c").passes
        and Check("a", "b", 2, 3, 0.5, None, "c").passes is None
    )


def test_the_measurements_name_their_source():
    from smetric_gym.cluster.checks import measured

    for name in ("h20_kv_tier_ttft.csv", "h20_vllm_mb1_interference.csv", "h20_qwen_official_speed.csv"):
        assert all(row["source"] for row in measured(name))
    with pytest.raises((FileNotFoundError, csv.Error)):
        measured("no_such.csv")
