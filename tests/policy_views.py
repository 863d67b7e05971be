"""Hand-made and random views for the tests of policies."""

import numpy as np

from smetric_gym.cluster.view import REQUEST_VIEW, VIEW


def make_view(size, **fields):
    """[size] VIEW as a recarray: alive, idle, empty but for `fields`."""
    view = np.zeros(size, dtype=VIEW)
    view["alive"] = 1
    view["capacity_tokens"] = 280_000
    view["prefill_token_s"], view["prefill_pair_s"] = 5e-5, 5e-9
    for name, values in fields.items():
        view[name] = values
    return view.view(np.recarray)


def make_request(**fields):
    """A follow-up of 1200 tokens, 1000 of them history, but for `fields`."""
    request = np.zeros(1, dtype=REQUEST_VIEW)
    defaults = {"prompt_tokens": 1200, "history_tokens": 1000, "messages": 2, "turn": 1, "ttft_limit_s": 1.0}
    for name, value in (defaults | fields).items():
        request[name] = value
    return request.view(np.recarray)[0]


def random_case(rng, size):
    """A view with many ties and some dead instances, and a request."""
    prompt = int(rng.integers(1, 4000)) * 16
    hits = rng.choice([0, prompt // 32 * 16, prompt - 1], size)
    running, waiting = rng.integers(0, 4, size), rng.integers(0, 3, size)
    alive = rng.random(size) < 0.8
    alive[rng.integers(size)] = True
    todo = rng.choice([0, 5000, 12_345], size)
    view = make_view(
        size,
        local_hit_tokens=hits,
        in_flight=running + waiting + rng.integers(0, 2, size),
        running=running,
        waiting=waiting,
        in_flight_tokens=rng.integers(0, 10**6, size),
        unprefilled_tokens=todo,
        unprefilled_s=todo * 1e-4,
        routed=rng.integers(0, 50, size),
        alive=alive,
        prefill_token_s=rng.choice([5e-5, 2e-5], size),
    )
    request = make_request(
        prompt_tokens=prompt,
        history_tokens=rng.integers(0, prompt),
        messages=rng.integers(0, 3),
        global_hit_tokens=rng.choice([0, prompt // 2]),
        ttft_limit_s=rng.choice([0.2, 1.0, 5.0]),
        session=rng.integers(0, 20),
    )
    return view, request
