import numpy as np
import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.workload.sampling import sample_sessions, stretch_time, window
from smetric_gym.workload.trace import REQUEST, Trace


def prompts_of(rng, sessions, turns):
    """Prompts and outputs as tokens: a system prompt of 8, a group's 4, then the session's own turns."""
    rows = []
    for s in range(sessions):
        text = [0] * 8 + [1 + s % 3] * 4
        for turn in range(turns):
            text = text + [100 + s] * int(rng.integers(1, 6))
            output = [200 + s] * 3
            rows.append((s, turn, list(text), output))
            text = text + output
    order = sorted(range(len(rows)), key=lambda i: (rows[i][1], rng.random()))
    return [rows[i] for i in order]


def common(a, b):
    k = 0
    while k < min(len(a), len(b)) and a[k] == b[k]:
        k += 1
    return k


def best_shared(rows, r):
    return max((common(rows[r][2], rows[q][2] + rows[q][3]) for q in range(r)), default=0)


@pytest.fixture
def made():
    rows = prompts_of(np.random.default_rng(0), 20, 4)
    r = np.zeros(len(rows), dtype=REQUEST)
    last = {}
    for i, (s, turn, prompt, output) in enumerate(rows):
        r[i]["arrival"], r[i]["session"], r[i]["turn"], r[i]["gap"] = i, s, turn, 2.0 * (turn > 0)
        r[i]["prompt"], r[i]["output"], r[i]["parent"] = len(prompt), len(output), last.get(s, -1)
        r[i]["shared"] = best_shared(rows, i)
        same = [q for q in range(i) if common(prompt, rows[q][2] + rows[q][3]) == r[i]["shared"]]
        r[i]["base"] = same[-1] if r[i]["shared"] else -1
        last[s] = i
    return Trace.build(r, report={"x": 1}), rows


def test_sampled_sessions_are_whole_and_share_what_is_left(made):
    trace, rows = made
    sampled = sample_sessions(trace, 0.3, seed=5)
    assert sampled.sessions == 6 and len(sampled) == 24
    r = sampled.requests
    assert (np.bincount(r["session"]) == 4).all()
    left = [rows[int(t)] for t in r["arrival"]]
    assert r["shared"].tolist() == [best_shared(left, i) for i in range(24)]
    follow = r["parent"] >= 0
    assert follow.sum() == 18 and (r["session"][r["parent"][follow]] == r["session"][follow]).all()
    assert (r["turn"][r["parent"][follow]] == r["turn"][follow] - 1).all()
    assert len(trace) == 80 and trace.report == {"x": 1}


def test_sampling_tells_how_much_sharing_between_sessions_is_left(made):
    trace, rows = made
    report = sample_sessions(trace, 0.05).report
    total = sum(len(x[2]) for x in rows)
    across = sum(best_shared(rows, i) for i, x in enumerate(rows) if x[1] == 0) / total
    assert report["reuse across sessions before sampling"] == pytest.approx(across)
    assert report["reuse across sessions after sampling"] == 0 and report["sessions sampled"] == 1
    assert report["reuse after sampling"] > 0 and report["x"] == 1


def test_sampling_all_changes_nothing_and_seeds_matter(made):
    trace, _ = made
    same = sample_sessions(trace, 1.0).requests
    for name in ("arrival", "prompt", "session", "turn", "parent", "shared", "gap"):
        assert (same[name] == trace.requests[name]).all(), name
    times = [tuple(sample_sessions(trace, 0.5, seed=s).requests["arrival"]) for s in (0, 0, 1)]
    assert times[0] == times[1] != times[2]


def test_a_window_forgets_what_was_before_it(made):
    trace, rows = made
    cut = window(trace, 20, 50)
    assert len(cut) == 30 and cut.requests["arrival"].tolist() == list(range(30))
    assert cut.requests["shared"].tolist() == [best_shared(rows[20:50], i) for i in range(30)]
    gone = cut.requests["parent"] < 0
    assert gone.sum() == 20 and (cut.requests["gap"][gone] == 0).all()
    assert (cut.requests["turn"][gone] == 1).all() and sorted(set(cut.requests["session"])) == list(range(20))


def test_stretched_time(made):
    trace, _ = made
    slow = stretch_time(trace, 2.5)
    assert (slow.requests["arrival"] == trace.requests["arrival"] * 2.5).all()
    assert slow.requests["gap"].max() == 5.0 and trace.requests["gap"].max() == 2.0
    assert stretch_time(trace, 2.5, gaps=False).requests["gap"].max() == 2.0
    assert (slow.requests["shared"] == trace.requests["shared"]).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda t: sample_sessions(t, 0.0),
        lambda t: sample_sessions(t, 1.5),
        lambda t: sample_sessions(t, float("nan")),
        lambda t: sample_sessions(t, 0.5, seed=-1),
        lambda t: stretch_time(t, 0),
        lambda t: stretch_time(t, "2"),
        lambda t: window(t, -1, 5),
        lambda t: window(t, 5, 5),
        lambda t: window(t, 1000, 2000),
    ],
)
def test_bad_options(made, call):
    with pytest.raises(SmetricError, match="allowed"):
        call(made[0])
