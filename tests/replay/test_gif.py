"""A GIF shows the run from its begin to its end."""

import io

import pytest
from PIL import Image

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.settings import compose
from smetric_gym.replay.gif import gif
from smetric_gym.replay.recording import record


@pytest.mark.parametrize("kind", ["recording", "disaggregated"])
def test_pictures_and_their_time(kind, request):
    done = []
    picture = Image.open(io.BytesIO(gif(request.getfixturevalue(kind), frames=6, per_s=4, progress=done.append)))
    assert picture.n_frames == 6 == done[-1] and picture.size[0] == 1280
    durations, frames = [], []
    for k in range(picture.n_frames):
        picture.seek(k)
        durations.append(picture.info["duration"])
        frames.append(picture.convert("RGB").tobytes())
    assert sum(durations) == 1500 and len(set(frames)) == 6


def test_a_time_without_decisions_is_said():
    settings = compose(changes={"instances": 2, "warm_up_s": 10, "window_s": 40})
    drain = record(settings, start_s=50, end_s=60)  # nothing arrives any more
    with pytest.raises(SmetricError, match="no decision falls into the shown time"):
        gif(drain, frames=4)
