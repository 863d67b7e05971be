"""A learned policy: the instance with the highest score, by weights from a file.

Every instance is scored by the same weights, so any number of instances will do::

    f = features(view, request)                                      # [instances, F]
    h = relu(layer1 f),  c = (mean of h, max of h) over the alive    # only where the file has a network
    score = linear f + score relu(layer2 (h, c))
    argmax(score)

``smetric_gym.agents.learned_file`` says what is in the file. Nothing of the learner is needed here: no
torch, and the compiled policy decides in microseconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from smetric_gym.agents.features import COUNT, features
from smetric_gym.agents.memory import REASON, SCORE
from smetric_gym.agents.ties import ROUND_ROBIN, argmin


class Params(NamedTuple):
    """Parameters of a learned policy, as a configuration says them."""

    path: str = ""
    """a safetensors file; empty: the one that comes with the package"""
    ties: int = ROUND_ROBIN


class Weights(NamedTuple):
    """The same with the file read: what compiled code gets. All arrays are float32 but ``linear``."""

    linear: np.ndarray
    """[FEATURES] float64"""
    layer1: np.ndarray
    """[FEATURES, H], no rows where there is no network"""
    bias1: np.ndarray
    """[H]"""
    layer2: np.ndarray
    """[3 H, K]: of the instance itself, of the mean, of the maximum"""
    bias2: np.ndarray
    """[K]"""
    score: np.ndarray
    """[K]"""
    ties: int = ROUND_ROBIN

    @classmethod
    def of(cls, linear=None, network=None, ties: int = ROUND_ROBIN) -> Weights:
        """Weights of a sum, of a network (layer1, bias1, layer2, bias2, score), or of both."""
        column = np.zeros(COUNT) if linear is None else np.ascontiguousarray(linear, dtype=np.float64)
        if network is None:
            network = [np.zeros((0, 0)), np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros(0)]
        layer1, bias1, layer2, bias2, score = (np.ascontiguousarray(array, dtype=np.float32) for array in network)
        return cls(column, layer1, bias1, layer2, bias2, score, ties)


def read_params(params: Params) -> tuple:
    """The `Weights` of the file that `params` name; `load_policy` calls it.

    Raises:
        SmetricError: if the file is not there, broken, or made for other features.
    """
    from smetric_gym.agents.learned_file import path_of, read_learned

    return read_learned(path_of(params.path)).weights._replace(ties=params.ties)


def learned(view, request, memory, params):
    """Route one request; see the module."""
    rows = np.empty((len(view), COUNT), dtype=np.float32)
    features(view, request, rows)
    memory[REASON] = SCORE
    return argmin(-scores(rows, view.alive > 0, params), view, memory, params.ties)


@register_jitable
def scores(rows, alive, weights):
    """The score of every instance, [instances] float64.

    Args:
        rows: [instances, FEATURES] float32.
        alive: [instances] bool; the others are not pooled.
        weights: `Weights`.
    """
    result = np.zeros(len(rows))
    for i in range(len(rows)):
        total = 0.0
        for k in range(rows.shape[1]):
            total += weights.linear[k] * rows[i, k]
        result[i] = total
    if len(weights.layer1):
        add_network(rows, alive, weights, result)
    return result


@register_jitable
def add_network(rows, alive, weights, result):
    """Add the score of the network to `result` ([instances], in place). Inner loops run over contiguous memory."""
    width, last = len(weights.bias1), len(weights.bias2)
    hidden = np.zeros((len(rows), width), dtype=np.float32)
    mean, most = np.zeros(width, dtype=np.float32), np.zeros(width, dtype=np.float32)  # relu: none is below 0
    count = 0
    for i in range(len(rows)):
        if not alive[i]:
            continue
        count += 1
        h = hidden[i]
        h[:] = weights.bias1
        for k in range(rows.shape[1]):
            for j in range(width):
                h[j] += rows[i, k] * weights.layer1[k, j]
        for j in range(width):
            h[j] = max(h[j], np.float32(0))
            mean[j] += h[j]
            most[j] = max(most[j], h[j])
    shared = weights.bias2.copy()
    for k in range(width):
        average = mean[k] / np.float32(max(count, 1))
        for j in range(last):
            shared[j] += average * weights.layer2[width + k, j] + most[k] * weights.layer2[2 * width + k, j]
    out = np.empty(last, dtype=np.float32)
    for i in range(len(rows)):
        out[:] = shared
        for k in range(width):
            for j in range(last):
                out[j] += hidden[i, k] * weights.layer2[k, j]
        for j in range(last):
            result[i] += np.float64(max(out[j], np.float32(0))) * weights.score[j]
