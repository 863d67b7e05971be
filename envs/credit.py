"""What a learner does with rewards afterwards: give them to the decisions that earned them, and discount by time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from smetric_gym.errors import SmetricError


def credit_to_decisions(credits: Iterable[Sequence[tuple[int, float]] | None], decisions: int) -> np.ndarray:
    """The reward of every decision of an episode: the tokens within the SLO of the request that it routed.

    The environment pays when a request ends (``reward="decision_goodput"``), many decisions after its own. This
    pays the decision, so that the return stays the same and a decision's reward needs no credit assignment; what
    it costs the requests of others is not in its own reward, only in theirs.

    Args:
        credits: ``info["credit"]`` of the steps of one episode, (decision, tokens) pairs; None is skipped.
        decisions: of the episode, or the first so many of them; later ones are left out.

    Returns:
        [decisions] float64, tokens. Decisions whose request has not ended in these steps have 0 so far.

    Example:
        >>> credit_to_decisions([[(0, 41.0)], None, [(2, 45.0)]], 3).tolist()
        [41.0, 0.0, 45.0]
    """
    rewards = np.zeros(decisions)
    for pairs in credits:
        for decision, tokens in pairs or ():
            if decision < decisions:
                rewards[decision] += tokens
    return rewards


def discount(elapsed_s: np.ndarray | float, per_s: float) -> np.ndarray:
    """Discount factors of steps that took `elapsed_s` each.

    Decisions come when requests arrive, milliseconds or minutes apart, so a factor per step would discount a
    second of a busy cluster more than one of an idle one. ``info["elapsed_s"]`` of a step is the time from its
    decision to the next one, in which its reward came. With the factors g of these times the return is
    ``r[0] + g[0] * (r[1] + g[1] * (r[2] + ...))``, and ``r[k] + g[k] * value[k + 1] - value[k]`` is the
    temporal difference of generalised advantage estimation.

    Args:
        elapsed_s: any shape, s, 0 or more.
        per_s: factor of one second, above 0 up to 1; for a horizon of H s, ``exp(-1 / H)``.

    Returns:
        ``per_s ** elapsed_s``, float64.

    Raises:
        SmetricError: if `per_s` is out of its range.
    """
    if not 0 < per_s <= 1:
        raise SmetricError(f"per_s is {per_s!r}, allowed: above 0, up to 1")
    return np.power(per_s, np.asarray(elapsed_s, dtype=np.float64))
