"""Pictures and tables show the cluster of the decision at hand."""

import numpy as np
import pytest
from small import sessions

from smetric_gym.envs import ColocatedEnv
from smetric_gym.errors import SmetricError


def make(mode, instances=4, **settings):
    settings = {"workload": lambda seed: sessions(seed=seed), "warm_up_s": 0, "window_s": 3, **settings}
    return ColocatedEnv(instances=instances, render_mode=mode, **settings)


def test_the_table_has_a_line_per_instance_and_marks_what_matters():
    env = make("ansi", cluster={"schedule": [(0.1, 2, False)]})
    env.reset(seed=0)
    for _ in range(8):
        env.step(1)
    lines = env.render().splitlines()
    rows = {int(line[3:6]): line for line in lines if line[3:6].strip().isdigit()}
    assert sorted(rows) == [0, 1, 2, 3]
    assert rows[1].startswith(" >") and "down" in rows[2] and "*" in rows[1][:3] and "*" not in rows[3][:3]
    waiting = env.cluster.request
    assert f"{int(waiting.prompt_tokens):,} prompt tokens" in lines[2] and "colocated" in lines[0].lower()
    assert f" {int(env.cluster.view.running[1])} " in rows[1]


@pytest.mark.parametrize("instances", [1, 3, 8, 32, 128, 300])
def test_pictures_have_one_size_and_change(instances):
    env = make("rgb_array", instances)
    env.reset(seed=0)
    first = env.render()
    env.step(0)
    second = env.render()
    assert first.dtype == np.uint8 and first.ndim == 3 and first.shape[2] == 3
    assert first.shape == second.shape and (first != second).any()
    assert first.shape[0] % 2 == 0, "video encoders want even sizes"


def test_the_chosen_tile_is_framed():
    env = make("rgb_array", 4)
    env.reset(seed=0)
    env.step(2)
    orange = (env.render() == (0xE6, 0x9F, 0x00)).all(axis=2)
    columns = np.flatnonzero(orange[160])  # through the tiles, below the legend
    assert columns.min() >= 640 and columns.max() <= 960


def test_the_end_of_an_episode_can_be_drawn():
    for mode in ("ansi", "rgb_array"):
        env = make(mode)
        env.reset(seed=0)
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step(0)
            over = terminated or truncated
        picture = env.render()
        assert mode == "rgb_array" or "over" in picture.splitlines()[0]
        view = env.frame().view
        for name in ("local_hit_tokens", "in_flight", "running", "waiting", "kv_use", "unprefilled_s"):
            assert (view[name] == 0).all(), name
        assert view.routed.sum() > 0 and (view.alive == 1).all()


def test_rendering_before_an_episode_or_without_a_mode_says_so(recwarn):
    with pytest.raises(SmetricError, match="call reset"):
        make("ansi").render()
    env = make(None)
    env.reset(seed=0)
    assert env.render() is None
