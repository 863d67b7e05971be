"""The file of a learned policy: safetensors, plain tensors and a header, no code in it.

Tensors, float32 or float64, in the layout of ``torch.nn.Linear`` (outputs x inputs), F the features named:

- ``linear.weight`` [1, F]: a weighted sum (kind ``linear``), or added to the network's score
- ``layer1.weight`` [H, F], ``layer1.bias`` [H], ``layer2.weight`` [K, 3 H], ``layer2.bias`` [K],
  ``score.weight`` [1, K]: kind ``mlp``; the inputs of layer 2 are the instance's own H values, their mean
  and their maximum over the instances that are alive

Metadata, all text: ``format`` (``smetric_gym learned policy``), ``version`` (1), ``kind``, ``features`` (JSON list
of names, the columns) and ``training`` (JSON: how it was made).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smetric_gym.agents.features import COUNT, FEATURES
from smetric_gym.agents.learned import Weights
from smetric_gym.errors import SmetricError

FORMAT, VERSION = "smetric_gym learned policy", "1"
SHIPPED = Path(__file__).with_name("learned.safetensors")
"""The policy that comes with the package."""
NETWORK = ("layer1.weight", "layer1.bias", "layer2.weight", "layer2.bias", "score.weight")
KINDS: dict[str, tuple[str, ...]] = {"linear": ("linear.weight",), "mlp": NETWORK}
"""The tensors that a kind must have."""


class Learned(NamedTuple):
    """What is in a file."""

    kind: str
    features: tuple[str, ...]
    training: dict[str, Any]
    weights: Weights


def path_of(path: str) -> Path:
    """The file that the parameter ``path`` of ``policy=learned`` means; empty: the shipped one."""
    return Path(path) if path else SHIPPED


def save_learned(
    path: str | Path,
    tensors: Mapping[str, np.ndarray],
    features: Sequence[str] = tuple(FEATURES),
    training: Mapping[str, Any] | None = None,
) -> None:
    """Write a learned policy, whole or not at all.

    Args:
        path: ends on ``.safetensors`` by custom.
        tensors: by the names of this module; arrays, or what ``numpy.asarray`` takes (a torch state dict on the CPU).
        features: names of the columns of the first layer.
        training: how it was made; anything that JSON has.

    Raises:
        SmetricError: for tensors or features that `read_learned` would refuse.
    """
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(np.asarray(tensor)) for name, tensor in tensors.items()}
    kind = "mlp" if "layer1.weight" in arrays else "linear"
    weights_of(str(path), kind, arrays, features)
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "features": json.dumps(list(features)),
        "training": json.dumps(dict(training or {})),
    }
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}-{os.getpid()}")
    part.write_bytes(save(arrays, metadata))
    os.replace(part, path)


def read_learned(path: str | Path) -> Learned:
    """Read a learned policy.

    Raises:
        SmetricError: if the file is not there, broken, of another format, or made for other features.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise SmetricError(f"learned policy {path} does not exist, allowed: a file that smetric-gym train has written")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
        found, version = metadata.get("format"), metadata.get("version")
        if found != FORMAT or version != VERSION:
            raise SmetricError(
                f"learned policy {path} has format {found!r}, version {version!r}, allowed: {FORMAT!r}, {VERSION!r}"
            )
        features, training = json.loads(metadata["features"]), json.loads(metadata["training"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise SmetricError(f"learned policy {path} cannot be read: {type(error).__name__}: {error}") from error
    kind = metadata.get("kind", "")
    return Learned(kind, tuple(features), training, weights_of(str(path), kind, arrays, features))


def weights_of(path: str, kind: str, arrays: Mapping[str, np.ndarray], features: Sequence[str]) -> Weights:
    """Tensors as compiled code takes them: every column at the place of its feature.

    Raises:
        SmetricError: naming what is missing, unknown, of a wrong shape, or not finite.
    """

    def refuse(found: str, allowed: str) -> SmetricError:
        return SmetricError(f"learned policy {path} {found}, allowed: {allowed}")

    if kind not in KINDS:
        raise refuse(f"is of kind {kind!r}", ", ".join(KINDS))
    strange = [name for name in features if name not in FEATURES]
    if strange or len(set(features)) != len(features) or not features:
        found = f"was made for the feature {strange[0]}" if strange else "names its features twice or none at all"
        raise refuse(found, f"each once of {', '.join(FEATURES)}")
    missing = [name for name in KINDS[kind] if name not in arrays]
    if missing:
        raise refuse(f"has no tensor {missing[0]}", ", ".join(KINDS[kind]))
    wide, hidden, last = len(features), len(arrays.get("layer1.bias", ())), len(arrays.get("layer2.bias", ()))
    shapes = {
        "linear.weight": (1, wide), "layer1.weight": (hidden, wide), "layer1.bias": (hidden,),
        "layer2.weight": (last, 3 * hidden), "layer2.bias": (last,), "score.weight": (1, last),
    }  # fmt: skip
    for name, array in arrays.items():
        if name not in shapes:
            raise refuse(f"has the tensor {name}", ", ".join(shapes))
        if array.shape != shapes[name]:
            raise refuse(f"has {name} of shape {list(array.shape)}", f"{list(shapes[name])}")
        if not np.isfinite(array).all():
            raise refuse(f"has a number in {name} that is not finite", "finite numbers")
    columns = [list(FEATURES).index(name) for name in features]

    def placed(name: str) -> np.ndarray:
        result = np.zeros((len(arrays[name]), COUNT))
        result[:, columns] = arrays[name]
        return result.T

    sums = placed("linear.weight")[:, 0] if "linear.weight" in arrays else None
    if kind == "linear":
        return Weights.of(sums)
    network = [placed("layer1.weight"), arrays["layer1.bias"], arrays["layer2.weight"].T, arrays["layer2.bias"]]
    return Weights.of(sums, [*network, arrays["score.weight"][0]])
