"""A trace: requests in order of arrival, and the prefix tree that says what they share."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from smetric_gym.errors import SmetricError
from smetric_gym.workload.tree import NODE, build_tree


class Trigger(IntEnum):
    """What made the agent send a request."""

    UNKNOWN = 0
    HUMAN = 1
    TOOL = 2
    SPAWN = 3
    """The first request of a forked sub-agent."""


REQUEST = np.dtype(
    [
        ("arrival", np.float64),  # s from the start of the trace; recorded send time
        (
            "gap",
            np.float64,
        ),  # s between the completion of `parent` and this request; 0 where there is no parent
        ("session", np.int32),  # dense id, 0..sessions-1
        ("turn", np.int32),  # 0 for the first request of a session
        ("messages", np.int32),  # historical messages in the payload; 0 = the router sees a first turn
        ("prompt", np.int32),  # tokens, at least 1
        ("output", np.int32),  # tokens, at least 1
        ("history", np.int32),  # prompt tokens before the newly appended turn: what a session cache would hit
        ("system", np.int32),  # tokens of the system prompt and tools at the head of the prompt
        ("parent", np.int32),  # request whose completion releases this one, or -1
        ("base", np.int32),  # earlier request with the longest common prefix, or -1
        ("shared", np.int32),  # tokens in common with the base's prompt + output, counted from the head
        ("trigger", np.int8),  # a Trigger
        ("node", np.int32),  # deepest prefix-tree node of prompt + output; filled in by Trace.build
    ]
)


@dataclass
class Trace:
    """Requests in order of arrival, with everything that they share known beforehand.

    Attributes:
        requests: structured array of dtype ``REQUEST``, sorted by ``arrival`` (ties in file order).
        nodes: the path-compressed prefix tree in tokens, dtype ``tree.NODE``. A node is a maximal run of tokens
            that the same requests share; node 0 is the empty root. A request is its leaf: the path from the
            root to ``requests["node"][r]`` spells prompt + output. Boundaries are in tokens, so a cache of any
            block size reads its blocks as ``start // block .. end // block`` (a block that straddles a
            boundary belongs to the deeper node).
        name: what to call the workload in tables.
        has_content: False when the source has lengths only, so that nothing is shared.
        has_gaps: True when ``gap`` was recorded (needed by the ``closed`` arrival mode).
        report: what the reader met, in words to counts, e.g. ``{"rows with zero output, raised to 1": 27}``.
    """

    requests: np.ndarray
    nodes: np.ndarray
    name: str = "trace"
    has_content: bool = True
    has_gaps: bool = True
    report: dict[str, float] = field(default_factory=dict)

    @classmethod
    def build(cls, requests: np.ndarray, **fields) -> Trace:
        """Build the prefix tree from ``base`` and ``shared`` and check every request.

        Raises:
            SmetricError: naming the first request that makes no sense.
        """
        check_requests(requests)
        nodes = build_tree(requests)
        return cls(requests=requests, nodes=nodes, **fields)

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return int(self.requests["session"].max()) + 1 if len(self) else 0

    @property
    def span_s(self) -> float:
        """Seconds from the first arrival to the last."""
        return float(self.requests["arrival"][-1] - self.requests["arrival"][0]) if len(self) else 0.0

    def ideal_hit_tokens(self, block: int = 1) -> np.ndarray:
        """Prompt tokens of each request that an infinite store would hold, int64, floored to blocks of tokens.

        The last prompt token is always computed (vLLM: hit <= prompt - 1).
        """
        r = self.requests
        return np.minimum(r["shared"], r["prompt"] - 1).astype(np.int64) // block * block


def check_requests(requests: np.ndarray) -> None:
    """Raise a SmetricError that names the first request that no cluster could serve."""
    if requests.dtype != REQUEST:
        raise SmetricError(f"requests must have dtype workload.trace.REQUEST, found {requests.dtype}")
    if len(requests) == 0:
        raise SmetricError("the trace has no requests: nothing to serve")
    index = np.arange(len(requests))
    base, parent = requests["base"], requests["parent"]
    length = requests["prompt"].astype(np.int64) + requests["output"]
    shareable = np.where(base >= 0, np.minimum(length[base], requests["prompt"]), 0)
    rules = [
        (requests["prompt"] < 1, "prompt", "at least 1 token"),
        (requests["output"] < 1, "output", "at least 1 token"),
        (~np.isfinite(requests["arrival"]) | (requests["arrival"] < 0), "arrival", "a time of 0 s or more"),
        (np.diff(requests["arrival"], prepend=-np.inf) < 0, "arrival", "not before the request before it"),
        (~np.isfinite(requests["gap"]) | (requests["gap"] < 0), "gap", "0 s or more"),
        ((base < -1) | (base >= index), "base", "an earlier request or -1"),
        ((parent < -1) | (parent >= index), "parent", "an earlier request or -1"),
        ((requests["shared"] < 0) | (requests["shared"] > shareable), "shared", "0 .. what its base holds"),
        ((requests["history"] < 0) | (requests["history"] > requests["prompt"]), "history", "0 .. prompt"),
        ((requests["system"] < 0) | (requests["system"] > requests["prompt"]), "system", "0 .. prompt"),
        (requests["session"] < 0, "session", "0 or more"),
        ((requests["turn"] < 0) | (requests["messages"] < 0), "turn or messages", "0 or more"),
    ]
    for wrong, name, allowed in rules:
        if wrong.any():
            r = int(np.argmax(wrong))
            found = (
                requests[name][r]
                if name in (requests.dtype.names or ())
                else (requests["turn"][r], requests["messages"][r])
            )
            raise SmetricError(f"request {r}: {name} is {found}, allowed: {allowed}")


__all__ = ["NODE", "REQUEST", "Trace", "Trigger", "check_requests"]
