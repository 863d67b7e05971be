"""The torch network is the network of the file: same scores, same choices, any number of instances."""

import numpy as np
import pytest
from policy_views import random_case

from smetric_gym.agents.features import COUNT, observe
from smetric_gym.agents.learned import learned, scores
from smetric_gym.agents.learned_file import read_learned, save_learned
from smetric_gym.agents.linear import REFERENCES, linear
from smetric_gym.agents.policy import Policy, load_policy
from smetric_gym.errors import SmetricError

torch = pytest.importorskip("torch", reason="needs the extra rl")

from smetric_gym.agents.network import NEVER, Critic, Scorer  # noqa: E402


def scorer_of(seed, **sizes):
    torch.manual_seed(seed)
    scorer = Scorer(**sizes)
    with torch.no_grad():
        for weights in scorer.parameters():
            weights.normal_(std=0.3)
    return scorer


def test_the_exported_network_chooses_what_the_torch_network_chooses(tmp_path):
    scorer, path, rng = scorer_of(1, hidden=12, last=7), tmp_path / "mine.safetensors", np.random.default_rng(1)
    save_learned(path, scorer.tensors())
    weights = read_learned(path).weights
    policy = Policy(learned, weights).compile()
    assert policy.compiled
    for case in range(300):
        view, request = random_case(rng, int(rng.integers(1, 40)))
        rows, alive = observe(view, request), view.alive > 0
        with torch.no_grad():
            ours = scorer(torch.from_numpy(rows)).numpy()
        np.testing.assert_allclose(scores(rows, alive, weights)[alive], ours[alive], rtol=1e-4, atol=1e-3)
        assert (ours[~alive] == np.float32(NEVER)).all()
        chosen = policy(view.view(np.ndarray), request, policy.new_memory(20, case))
        assert chosen == ours.argmax() or ours.max() - ours[chosen] < 1e-4  # a tie in float32


def test_scores_follow_the_instances_and_empty_rows_change_nothing():
    scorer, critic, rng = scorer_of(2), Critic(), np.random.default_rng(2)
    view, request = random_case(rng, 6)
    rows = torch.from_numpy(observe(view, request))
    order = torch.from_numpy(rng.permutation(6))
    padded = torch.cat([rows, torch.zeros(5, COUNT)])
    with torch.no_grad():
        torch.testing.assert_close(scorer(rows[order]), scorer(rows)[order])
        torch.testing.assert_close(scorer(padded)[:6], scorer(rows))
        torch.testing.assert_close(critic(padded), critic(rows[order]))
        assert critic(torch.zeros(3, 6, COUNT)).tolist() == [0, 0, 0]
        torch.testing.assert_close(scorer(torch.stack([rows, rows[order]]))[1], scorer(rows)[order])


@pytest.mark.parametrize("name", [None, "lmetric", "smetric"])
def test_it_starts_where_a_reference_is(name):
    torch.manual_seed(3)
    scorer, rng = Scorer.starting(name, hidden=8, last=8, sharpness=5.0), np.random.default_rng(3)
    column = linear(REFERENCES[name] if name else {}).linear
    for _ in range(50):
        view, request = random_case(rng, 6)
        rows, alive = observe(view, request), view.alive > 0
        with torch.no_grad():
            found = scorer(torch.from_numpy(rows)).numpy()[alive]
        np.testing.assert_allclose(found, 5 * (rows[alive] @ column), atol=0.5)  # and a network that says little


def test_it_starts_where_a_file_was(tmp_path):
    before, path = scorer_of(4, hidden=5, last=6), tmp_path / "before.safetensors"
    save_learned(path, before.tensors())
    after = Scorer.starting(path, hidden=99, last=99)
    for name, tensor in before.state_dict().items():
        torch.testing.assert_close(after.state_dict()[name], tensor)
    twice = Scorer.starting(path, hidden=99, last=99, sharpness=2.0)
    rows = torch.rand(3, COUNT)
    torch.testing.assert_close(twice(rows), 2 * before(rows))
    with pytest.raises(SmetricError, match="does not exist"):
        Scorer.starting(tmp_path / "none", hidden=1, last=1)


def test_weights_of_the_network_are_what_policy_learned_takes(tmp_path):
    path = tmp_path / "mine.safetensors"
    save_learned(path, scorer_of(5).tensors())
    assert load_policy("learned", path=str(path)).params.layer1.shape == (COUNT, 32)
