"""One run from Python: names, objects and files in; scores, outcome and tables out."""

import numpy as np
import pytest

import smetric_gym
from smetric_gym import SLO, evaluate
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.evaluate import run
from smetric_gym.experiment.settings import compose
from smetric_gym.experiment.tables import request_columns, write_requests
from smetric_gym.scoring import SCORES

SMALL = {"instances": 3, "warm_up_s": 20.0, "window_s": 60.0, "load": 1.5}


def cheapest(view, request, memory, params):
    return int((request.prompt_tokens - view.local_hit_tokens + view.unprefilled_tokens).argmin())


def same(a, b):
    assert list(a) == list(b)
    for name in a:
        assert a[name] == b[name] or (a[name] != a[name] and b[name] != b[name]), name


@pytest.fixture(scope="module")
def result():
    return evaluate("smetric", **SMALL)


def test_a_result_is_a_dict_of_all_scores_with_what_they_come_from(result):
    assert list(result) == list(SCORES)
    assert result["requests"] > 20 and result["unfinished"] == 0
    assert len(result.outcome) == len(result.trace)
    assert result.config["cluster"]["instances"] == 3
    arrival = result.outcome["arrival_s"]
    assert result["requests"] == ((arrival >= 20) & (arrival < 80)).sum()


def test_the_table_shows_every_score_with_its_unit(result):
    text = result.table()
    for name, score in SCORES.items():
        assert name in text
        assert score.unit in ("", "share") or score.unit in text


def test_the_same_from_settings_as_on_the_command_line(result):
    same(run(compose([f"{key}={value}" for key, value in SMALL.items()])), result)


def test_a_function_a_file_and_their_text_are_the_same_policy(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def cheapest(view, request, memory, params):\n"
        "    return int((request.prompt_tokens - view.local_hit_tokens + view.unprefilled_tokens).argmin())\n"
    )
    from_function = evaluate(cheapest, **SMALL)
    same(from_function, evaluate(f"{tmp_path / 'mine.py'}:cheapest", **SMALL))
    assert from_function.policy == "cheapest"


def test_parameters_of_a_policy_by_dotted_name_or_mapping(result):
    one = evaluate("smetric", **SMALL, **{"policy.overload": 0.01})
    same(one, evaluate({"name": "smetric", "overload": 0.01}, **SMALL))
    assert one["overload_fallbacks"] > result["overload_fallbacks"]


def test_objects_for_trace_and_slo(result):
    again = evaluate("smetric", **SMALL | {"workload": result.trace, "load": 1.0, "slo": SLO(1e6, 0.0, 1e6)})
    assert again["requests"] == result["requests"] and again["slo_attainment"] == 1.0


def test_a_trace_is_squeezed_or_thinned_to_the_load(result):
    fast = evaluate("smetric", **SMALL | {"workload": result.trace, "load": 2.0, "load_by": "time"})
    assert fast.trace.span_s == pytest.approx(result.trace.span_s / 2)
    thin = evaluate("smetric", **SMALL | {"workload": result.trace, "load": 0.5})
    assert thin.trace.sessions == round(result.trace.sessions / 2)


def test_a_path_in_a_mapping_is_a_recorded_workload(tmp_path):
    row = '{"timestamp": %d, "input_length": 600, "output_length": 5, "hash_ids": [%d, %d]}\n'
    (tmp_path / "trace.jsonl").write_text("".join(row % (500 * k, k, 900 + k) for k in range(99)))
    how = SMALL | {"load": 1.0, "warm_up_s": 0.0, "arrival_mode": "open"}
    for workload in (str(tmp_path / "trace.jsonl"), {"path": str(tmp_path / "trace.jsonl")}):
        assert evaluate("round_robin", **how | {"workload": workload})["requests"] == 99


def test_nested_and_dotted_settings_are_the_same():
    a = evaluate("smetric", **SMALL, cluster={"loads": "async", "global_tier": 0.4})
    same(a, evaluate("smetric", **SMALL, **{"cluster.loads": "async"}, global_tier=0.4))


def test_progress_is_called_with_simulated_time(result):
    times = []
    evaluate("round_robin", progress=times.append, **SMALL | {"window_s": 2400.0, "load": 2.0})
    assert times and times == sorted(times)


@pytest.mark.parametrize(
    ("policy", "given", "words"),
    [
        ("smetric", {"windows_s": 10}, "did you mean window_s"),
        ("smetric", {"cluster": "colocate"}, "did you mean colocated"),
        ("smetrik", {}, "did you mean smetric"),
        ("smetric", {"policy.overlod": 1}, "did you mean overload"),
        ("smetric", {"warm_up_s": 5000.0, "workload": "TRACE", "load": 1.0}, "no request arrived in the scored window"),
        ("smetric", {"workload": "TRACE"}, "load is 1.5, but load_by=sessions only thins"),
        ("smetric", {"workload": lambda seed: None}, "workload is a function, which only environments take"),
        ("smetric", {"experiment": "demo"}, "experiment is a key of the command line"),
        ("smetric", {"debug": 1}, "debug is 1, allowed: true or false"),
        (lambda view, request, memory, params: 7, {}, "returned 7"),
        (lambda view, request: 7, {}, "takes"),
    ],
)
def test_bad_input_is_one_sentence(policy, given, words, result):
    given = {key: result.trace if value == "TRACE" else value for key, value in given.items()}
    with pytest.raises(SmetricError, match=words) as found:
        evaluate(policy, **SMALL | given)
    assert "\n" not in str(found.value)


def test_the_table_of_requests_agrees_with_the_scores(result, tmp_path):
    columns = request_columns(result.scored)
    within = columns["within_slo"]
    tokens = (columns["prompt"].astype(int) + columns["output"])[within].sum()
    assert tokens / 60.0 == pytest.approx(result["tps_within_slo"])
    assert columns["scored"].sum() == result["requests"] and not (within & ~columns["scored"]).any()
    path = write_requests(tmp_path, "csv", result.scored)
    lines = path.read_text().splitlines()
    assert len(lines) == 1 + np.isfinite(result.outcome["arrival_s"]).sum()
    assert lines[0].split(",") == list(columns)
    with pytest.raises(SmetricError, match="requests_table is 'xml'"):
        write_requests(tmp_path, "xml", result.scored)


def test_requests_as_parquet(result, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    path = write_requests(tmp_path, "parquet", result.scored)
    assert parquet.read_table(path).num_rows == len(request_columns(result.scored)["request"])


def test_public_names():
    for name in smetric_gym.__all__:
        assert getattr(smetric_gym, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        smetric_gym.nothing  # noqa: B018


def test_a_closed_loop_does_not_run_dry_before_the_window_ends():
    """Agents that get their answers sooner than recorded still have something to send."""
    result = evaluate("load_balance", instances=8, load=0.5, warm_up_s=300, window_s=900, seed=0)
    arrived = np.histogram(result.outcome["arrival_s"], bins=[0, 300, 600, 900, 1200])[0]
    assert arrived[-1] > 0.75 * arrived[1:3].mean()
