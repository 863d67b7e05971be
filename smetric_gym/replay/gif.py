"""The pictures of a run as a GIF: an environment with the same cluster and requests, and its policy at the wheel."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from smetric_gym.envs import ColocatedEnv, DisaggregatedEnv
from smetric_gym.envs.routing import RoutingEnv
from smetric_gym.envs.teacher import Teacher
from smetric_gym.errors import SmetricError
from smetric_gym.experiment.prepare import Setup
from smetric_gym.replay.recording import Recording

COLOURS = 128
"""Of a picture; the same for all of them, so that what stands still takes no room."""


def gif(
    recording: Recording, *, frames: int = 120, per_s: float = 8, progress: Callable[[float], Any] | None = None
) -> bytes:
    """Draw a run.

    Args:
        recording: of the run.
        frames: pictures, at equal distances of simulated time (at the first decision from each moment on).
        per_s: pictures shown per second.
        progress: called with the number of pictures so far.

    Returns:
        An animated GIF that repeats for ever; where nothing is decided for a while, a picture lasts longer.
    """
    pictures, starts = [], []
    moments = np.linspace(recording.start_s, recording.end_s, frames + 1)[:-1]
    env = environment(recording.setup)
    teacher = Teacher(env, recording.policy)
    env.reset(options={"trace": recording.setup.trace, "trace_seed": recording.setup.seed})
    taken, over = 0, False
    while not over and taken < frames:
        if env.cluster.now_s >= moments[taken]:
            pictures.append(Image.fromarray(np.asarray(env.render())))
            starts.append(taken)
            taken = int(np.searchsorted(moments, env.cluster.now_s, side="right"))
            if progress is not None:
                progress(taken)
        _, _, terminated, truncated, _ = env.step(teacher.action())
        over = terminated or truncated
    if not pictures:
        raise SmetricError("no decision falls into the shown time, so there is nothing to draw: change from_s or to_s")
    palette = pictures[len(pictures) // 2].quantize(COLOURS)
    flat = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    shown_at = np.rint(np.array([*starts, frames]) * 100 / per_s)  # GIF counts hundredths of a second
    lasts_ms = (10 * np.diff(shown_at)).astype(int).tolist()
    content = io.BytesIO()
    flat[0].save(content, "GIF", save_all=True, append_images=flat[1:], duration=lasts_ms, loop=0, optimize=False)
    return content.getvalue()


def environment(setup: Setup) -> RoutingEnv:
    """An environment with the cluster, limits and window of a run; its trace goes to ``reset(options=...)``."""
    kind = DisaggregatedEnv if setup.config.disaggregated else ColocatedEnv
    return kind(
        workload=setup.trace,
        cluster=setup.config,
        slo=setup.slo,
        arrival_mode=setup.arrival_mode,
        warm_up_s=setup.warm_up_s,
        window_s=setup.window_s,
        imbalance_window_s=setup.settings["imbalance_window_s"],
        render_mode="rgb_array",
    )
