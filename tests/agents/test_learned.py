"""Learned policies: references as special cases, the network against NumPy, the file and what it refuses."""

import numpy as np
import pytest
from policy_views import make_request, make_view, random_case

from smetric_gym.agents.features import COUNT, FEATURES, observe
from smetric_gym.agents.learned import Weights, learned, scores
from smetric_gym.agents.learned_file import read_learned, save_learned
from smetric_gym.agents.linear import REFERENCES, linear
from smetric_gym.agents.load import REQUESTS, UNPREFILLED_TOKENS, load_of
from smetric_gym.agents.memory import REASON, Reason
from smetric_gym.agents.policy import Policy, load_policy
from smetric_gym.errors import SmetricError


@pytest.fixture(scope="module")
def compiled():
    return Policy(learned, linear({})).compile()


def cost(name, view, request):
    """What the reference minimises."""
    batch, new = load_of(view, REQUESTS), request.prompt_tokens - view.local_hit_tokens.astype(float)
    if name == "lmetric":
        return (load_of(view, UNPREFILLED_TOKENS) + new) * (batch + 1)
    if name == "bailian":
        return 0.7 * new / request.prompt_tokens + 0.3 * batch / max(1, batch[view.alive > 0].max())
    return batch


@pytest.mark.parametrize("name", ["lmetric", "bailian", "load_balance"])
def test_a_weighted_sum_is_the_reference(compiled, name):
    rng = np.random.default_rng(2)
    reference, ours = load_policy(name).compile(), compiled.with_params(linear(REFERENCES[name]))
    memories = reference.new_memory(20), ours.new_memory(20)
    for _ in range(5000):
        view, request = random_case(rng, 8)
        theirs = reference(view.view(np.ndarray), request, memories[0])
        mine = ours(view.view(np.ndarray), request, memories[1])
        score = cost(name, view, request)
        assert score[mine] == pytest.approx(score[theirs], rel=2e-6, abs=2e-6) and view.alive[mine]


def guarded_case(rng):
    """A random view in which SMetric's guards have work: hits on few instances, often little or busy ones."""
    view, request = random_case(rng, 8)
    held = rng.random(8) < 0.2
    view["local_hit_tokens"] = np.where(held, view["local_hit_tokens"] * rng.choice([0.3, 1.0]), 0)
    for load in ("in_flight", "unprefilled_tokens"):
        view[load] *= np.where(held, rng.choice([1, 4]), 1)
    return view, request


@pytest.mark.parametrize("disaggregated", [False, True])
def test_a_weighted_sum_is_smetric(compiled, disaggregated):
    rng = np.random.default_rng(3)
    reference = load_policy("smetric", disaggregated=disaggregated).compile()
    ours = compiled.with_params(linear(REFERENCES["smetric" + "_disaggregated" * disaggregated]))
    memories, reasons = (reference.new_memory(20), ours.new_memory(20)), np.zeros(6, dtype=int)
    for _ in range(5000):
        view, request = guarded_case(rng)
        theirs = reference(view.view(np.ndarray), request, memories[0])
        mine = ours(view.view(np.ndarray), request, memories[1])
        load = load_of(view, UNPREFILLED_TOKENS if disaggregated else REQUESTS)
        reason = int(memories[0][REASON])
        reasons[reason] += 1
        assert load[mine] == load[theirs] and view.alive[mine]
        if reason == Reason.STICK:
            assert view.local_hit_tokens[mine] == view.local_hit_tokens[theirs]
    assert (reasons[[Reason.STICK, Reason.FIRST_TURN, Reason.OVERLOAD, Reason.EVICTED]] > 100).all()


def network(rng, features=COUNT, hidden=5, last=4):
    shapes = {
        "layer1.weight": (hidden, features), "layer1.bias": (hidden,), "layer2.weight": (last, 3 * hidden),
        "layer2.bias": (last,), "score.weight": (1, last), "linear.weight": (1, features),
    }  # fmt: skip
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def by_numpy(tensors, rows, alive):
    """The formula of the module, whole arrays at once, in float64."""
    t = {name: array.astype(float) for name, array in tensors.items()}
    h = np.maximum(rows @ t["layer1.weight"].T + t["layer1.bias"], 0)
    pooled = np.concatenate([h[alive].mean(axis=0), h[alive].max(axis=0)])
    both = np.concatenate([h, np.tile(pooled, (len(h), 1))], axis=1)
    out = np.maximum(both @ t["layer2.weight"].T + t["layer2.bias"], 0)
    return rows @ t["linear.weight"][0] + out @ t["score.weight"][0]


def test_a_network_is_the_formula_for_any_number_of_instances(tmp_path, compiled):
    rng = np.random.default_rng(4)
    tensors, path = network(rng), tmp_path / "mine.safetensors"
    save_learned(path, tensors, training={"agent": "by hand"})
    found = read_learned(path)
    assert (found.kind, found.features, found.training) == ("mlp", tuple(FEATURES), {"agent": "by hand"})
    policy = compiled.with_params(found.weights)
    plain = load_policy("learned", path=str(path))
    for size in (1, 6, 40):
        view, request = random_case(rng, size)
        rows, alive = observe(view, request), view.alive > 0
        expected = by_numpy(tensors, rows.astype(float), alive)
        np.testing.assert_allclose(scores(rows, alive, found.weights)[alive], expected[alive], rtol=1e-4, atol=1e-4)
        best = int(np.where(alive, expected, -np.inf).argmax())
        memory = policy.new_memory(20)
        assert policy(view.view(np.ndarray), request, memory) == best == plain(view, request, memory)
        assert memory[REASON] == Reason.SCORE


def test_fewer_features_in_another_order(tmp_path):
    path = tmp_path / "two.safetensors"
    save_learned(path, {"linear.weight": np.array([[-1.0, -2.0]])}, features=("miss", "log_batch"))
    policy = load_policy("learned", path=str(path), ties="first")
    view = make_view(3, local_hit_tokens=[0, 600, 1100], in_flight=[1, 1, 9])
    assert policy(view, make_request(), policy.new_memory(20)) == 1
    assert policy.params.linear[list(FEATURES).index("log_batch")] == -2 and policy.params.ties == 0
    assert len(path.read_bytes()) < 4000 and list(tmp_path.iterdir()) == [path]


def test_the_shipped_policy_routes():
    policy = load_policy("learned")
    view, request = random_case(np.random.default_rng(5), 8)
    assert view.alive[policy(view, request, policy.new_memory(20))]


def test_files_that_are_refused(tmp_path):
    good, rng = tmp_path / "good.safetensors", np.random.default_rng(6)
    save_learned(good, network(rng))

    def refused(path):
        with pytest.raises(SmetricError) as caught:
            load_policy("learned", path=str(path))
        assert "\n" not in str(caught.value) and str(path) in str(caught.value)
        return str(caught.value)

    assert "does not exist" in refused(tmp_path / "none.safetensors")
    broken = tmp_path / "broken.safetensors"
    for content in (b"", good.read_bytes()[:-7], b"x" * 200):
        broken.write_bytes(content)
        assert "cannot be read" in refused(broken)
    broken.write_bytes(good.read_bytes().replace(b'\\"miss', b'\\"mist'))
    assert "feature mist" in refused(broken)
    broken.write_bytes(good.read_bytes().replace(b"learned policy", b"learned Policy"))
    assert "format 'smetric_gym learned Policy'" in refused(broken)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layer2.weight": np.zeros((4, 5))}, r"layer2.weight of shape \[4, 5\], allowed: \[4, 15\]"),
        ({"layer1.bias": None}, "no tensor layer1.bias"),
        ({"extra": np.zeros(3)}, "the tensor extra"),
        ({"score.weight": np.full((1, 4), np.nan)}, "not finite"),
    ],
)
def test_tensors_that_are_refused_when_they_are_saved(tmp_path, change, words):
    tensors = network(np.random.default_rng(7)) | change
    path = tmp_path / "bad.safetensors"
    with pytest.raises(SmetricError, match=words):
        save_learned(path, {name: array for name, array in tensors.items() if array is not None})
    assert not path.exists()


def test_a_feature_that_does_not_exist():
    with pytest.raises(SmetricError, match="no feature 'mis' .did you mean miss"):
        linear({"mis": 1.0})


def test_weights_hold_shapes_for_numba():
    assert Weights.of().linear.shape == (COUNT,) and Weights.of().layer1.shape == (0, 0)
