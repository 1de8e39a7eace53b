"""Network teachers: a small convolutional network for images, and a perceptron with one hidden layer.

What is kept is the weights as numpy arrays, so a teacher that was trained on a GPU loads where there is none, and a
perceptron votes without torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.parties.teachers import NetworkSpec


@dataclass
class NetworkTeacher:
    """One network, of the kind that `spec` says.

    `classes_` int64 (seen,). `weights` float32: of "mlp" `hidden.weight` (hidden, inputs), `hidden.bias`, `out.weight`
    (seen, hidden), `out.bias`; of "cnn" `first.*` and `second.*` of the convolutions besides, and
    `hidden-2.*`, `hidden-3.*` where it has such layers.
    """

    spec: NetworkSpec
    seed: int
    classes_: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    weights: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def fit(self, x: np.ndarray, y: np.ndarray) -> NetworkTeacher:
        """`x` float (n, inputs), `y` int64 (n,). On the CPU the same seed gives the same weights."""
        (trained,) = train_many(self.spec, x, y, [np.arange(len(y))], [self.seed], int(y.max()) + 1)
        self.classes_, self.weights = trained.classes_, trained.weights
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The most probable class of each row, int64 (n,)."""
        return self.classes_[self._logits(x).argmax(axis=1)]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Probabilities float64 (n, seen)."""
        exponentials = np.exp(self.log_probabilities(x))
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    def log_probabilities(self, x: np.ndarray) -> np.ndarray:
        """Logarithms of the probabilities, float64 (n, seen): numbers however sure the network is."""
        logits = self._logits(x).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def _logits(self, x: np.ndarray) -> np.ndarray:
        if self.spec.convolutions:
            from consilium.party.teachers.network_training import convolutional_logits

            return convolutional_logits(self.weights, x)
        w = self.weights
        hidden = np.maximum(x.astype(np.float32) @ w["hidden.weight"].T + w["hidden.bias"], 0)
        return hidden @ w["out.weight"].T + w["out.bias"]


def train_many(
    spec: NetworkSpec,
    x: np.ndarray,
    y: np.ndarray,
    parts: Sequence[np.ndarray],
    seeds: Sequence[int],
    classes: int,
    stacked: bool | None = None,
) -> list[NetworkTeacher]:
    """One teacher for each part of the rows; arguments and errors are those of `network_training.train_networks`."""
    from consilium.party.teachers.network_training import train_networks  # torch takes two seconds to import

    trained = train_networks(spec, x, y, parts, seeds, classes, stacked)
    return [
        NetworkTeacher(spec, seed, network.classes, network.weights)
        for seed, network in zip(seeds, trained, strict=True)
    ]
