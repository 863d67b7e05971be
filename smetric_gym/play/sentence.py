"""One sentence that says what is happening in a cluster and why, and one that compares two runs."""

from __future__ import annotations

import numpy as np

from smetric_gym.cluster.state import Stage
from smetric_gym.play.moment import Moment
from smetric_gym.play.recording import Recording
from smetric_gym.play.words import capital, count, listed, percent, tokens, verb

MUCH = 2.0
"""Times the equal share of the tokens in flight from which an instance stands out."""
LONG = 1.25
"""Times the mean prompt of the others from which prompts are called long."""
LATE_S = 1.0
RECENT_S = 60.0
STALLED = 0.2


def what_happens(recording: Recording, moment: Moment) -> str:
    """What stands out at a moment, and what brought it about."""
    targets = moment.targets
    alive = int(moment.alive[:targets].sum())
    load, total = moment.tokens[:targets], float(moment.tokens[:targets].sum())
    start = _down(np.flatnonzero(~moment.alive))
    if not total:
        return f"{start}Nothing is in flight: the cluster waits for work."
    top = int(load.argmax())
    share = float(load[top]) / total
    busy = moment.view.unprefilled_s[top] > LATE_S or moment.waiting[top] > 0
    if alive > 1 and share > MUCH / alive and busy:
        return start + _hot(recording, moment, top, share, alive)
    late = moment.view.unprefilled_s[moment.view.alive > 0] > LATE_S
    waiting = int(moment.waiting[:targets].sum())
    if late.mean() > 0.5:
        mean_s = float(moment.view.unprefilled_s[moment.view.alive > 0].mean())
        return (
            f"{start}Work comes faster than it is done: {count(waiting, 'request')} {verb(waiting, 'waits', 'wait')}, "
            f"and an instance has {mean_s:.1f} s of prefill before it on average."
        )
    stalled = int((moment.stalled_s > 0).sum())
    if stalled > STALLED * alive:
        return (
            f"{start}{capital(count(stalled, 'instance'))} of {alive} stand still until KV arrives from the global tier"
            f" (at most {moment.stalled_s.max():.1f} s more): these sessions were sent away from their cache."
        )
    return start + _calm(recording, moment, top, share, alive)


def _hot(recording: Recording, moment: Moment, top: int, share: float, alive: int) -> str:
    requests = recording.setup.trace.requests
    live = (moment.stage > Stage.PENDING) & (moment.stage < Stage.DONE)
    here = np.flatnonzero(live & (moment.place == top))
    prompts = requests["prompt"][here].astype(float)
    others = live & (moment.place != top) & (moment.place >= 0)
    typical = float(requests["prompt"][others].mean()) if others.any() else 0.0
    sessions = np.unique(requests["session"][here])
    began = int((recording.starts[sessions] == top).sum())
    head = f"Instance {top} holds {percent(share)} of all in-flight tokens (an equal share is {percent(1 / alive)}): "
    sizes = f"{tokens(prompts.mean())} tokens a request there, {tokens(typical)} elsewhere"
    in_flight = moment.in_flight[: moment.targets]
    many = len(here) > LONG * in_flight.sum() / alive
    if prompts.mean() > LONG * typical and began:
        cause = f"{count(began, 'session')} that started on it grew long ({sizes})"
    elif prompts.mean() > LONG * typical:
        cause = f"long prompts were sent to it ({sizes})"
    elif many and began > len(sessions) / 2:
        cause = f"{count(began, 'session')} that started on it {verb(began, 'is', 'are')} active at the same time"
    else:
        cause = f"it was given {count(len(here), 'request')}, the mean is {in_flight.mean():.1f}"
    idle, waiting = int(((in_flight == 0) & moment.alive[: moment.targets]).sum()), int(moment.waiting[top])
    effects = []
    if waiting:
        effects.append(f"{count(waiting, 'request')} {verb(waiting, 'waits', 'wait')}")
    if moment.view.unprefilled_s[top] > LATE_S:
        effects.append(f"{moment.view.unprefilled_s[top]:.1f} s of prefill lie before it")
    if idle:
        effects.append(f"{count(idle, 'instance')} {verb(idle, 'has', 'have')} nothing to do")
    return f"{head}{cause}{'; ' + listed(effects) if effects else ''}."


def _calm(recording: Recording, moment: Moment, top: int, share: float, alive: int) -> str:
    out, prompt = recording.scored.all, recording.setup.trace.requests["prompt"]
    recent = (out["admitted_s"] > moment.time_s - RECENT_S) & (out["admitted_s"] <= moment.time_s)
    text = f"No instance drowns: the fullest, {top}, has {share * alive:.1f} times the mean of the tokens in flight"
    if not recent.any():
        return f"{text}."
    whole = float(prompt[recent].sum())
    local, fetched = (float(out[name][recent].sum()) / whole for name in ("local_hit_tokens", "global_hit_tokens"))
    return (
        f"{text}. Of the prompts of the last minute {percent(local)} lay on the instance, {percent(fetched)} came from "
        f"the global tier, {percent(max(0.0, 1 - local - fetched))} had to be computed."
    )


def comparison(a: Recording, b: Recording) -> str:
    """Which of two runs serves more within the SLO, and in what they differ."""
    first, second = a.scores["tps_within_slo"], b.scores["tps_within_slo"]
    if first < second:
        a, b, first, second = b, a, second, first
    if a.label == b.label:
        return f"Both routers are {a.label}: {first:,.0f} tokens/s within the SLO."
    gain = f"{100 * (first / second - 1):.1f} %" if second else "infinitely"
    differences = []
    for name, words, shown in (
        ("local_hit_ratio", "finds {0} of the prompt tokens on the instance (there {1})", percent),
        ("global_hit_ratio", "fetches {0} from the global tier (there {1})", percent),
        ("load_imbalance", "loads its fullest instance to {0} times the mean (there {1})", lambda x: f"{x:.2f}"),
        ("ttft_p50_s", "gives a median first token after {0} (there {1})", lambda x: f"{x:.1f} s"),
    ):
        here, there = a.scores[name], b.scores[name]
        if np.isfinite([here, there]).all() and shown(here) != shown(there):
            differences.append(words.format(shown(here), shown(there)))
    what = f": it {listed(differences)}" if differences else ""
    return f"{a.label} serves {gain} more tokens within the SLO than {b.label}{what}."


def _down(indices: np.ndarray) -> str:
    """The beginning of a sentence where instances are down, else nothing."""
    if not len(indices):
        return ""
    who = f"Instance {indices[0]} is" if len(indices) == 1 else f"Instances {listed([str(i) for i in indices])} are"
    return f"{who} down, and what was there is computed again. "
