"""Network teachers: a small convolutional network for images, and a perceptron with one hidden layer.

What is kept is the weights as numpy arrays, so a teacher that was trained on a GPU loads where there is none, and a
perceptron votes without torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.parties.teachers import NetworkSpec


@dataclass
class NetworkTeacher:
    """One network, of the kind that `spec` says.

    `classes_` int64 (seen,). `weights` float32: of "mlp" `hidden.weight` (hidden, inputs), `hidden.bias`, `out.weight`
    (seen, hidden), `out.bias`; of "cnn" `first.*` and `second.*` of the convolutions besides.
    """

    spec: NetworkSpec
    seed: int
    classes_: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    weights: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def fit(self, x: np.ndarray, y: np.ndarray) -> NetworkTeacher:
        """`x` float (n, inputs), `y` int64 (n,). On the CPU the same seed gives the same weights."""
        from consilium.party.teachers.network_training import train_many  # torch takes two seconds to import

        (trained,) = train_many(self.spec, x, y, [np.arange(len(y))], [self.seed], int(y.max()) + 1)
        self.classes_, self.weights = trained.classes_, trained.weights
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The most probable class of each row, int64 (n,)."""
        return self.classes_[self._logits(x).argmax(axis=1)]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Probabilities float64 (n, seen)."""
        logits = self._logits(x).astype(np.float64)
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    def _logits(self, x: np.ndarray) -> np.ndarray:
        if self.spec.convolutions:
            from consilium.party.teachers.network_training import convolutional_logits

            return convolutional_logits(self.weights, x)
        w = self.weights
        hidden = np.maximum(x.astype(np.float32) @ w["hidden.weight"].T + w["hidden.bias"], 0)
        return hidden @ w["out.weight"].T + w["out.bias"]


def initial_weights(
    spec: NetworkSpec, side: int | None, inputs: int, classes: int, seed: np.random.Generator
) -> dict[str, np.ndarray]:
    """Normal with variance 2 / fan-in (He et al. 2015), float32; biases are 0.

    From numpy and not from torch: the same on every device, and torch's own random state is left alone.
    side: of the square image, for "cnn". classes: of the rows, the width of the last layer.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    if spec.convolutions:
        assert side is not None
        first, second = spec.convolutions
        shapes["first"] = (first, 1, 5, 5)
        shapes["second"] = (second, first, 5, 5)
        inputs = second * (((side - 4) // 2 - 4) // 2) ** 2
    shapes["hidden"] = (spec.hidden, inputs)
    shapes["out"] = (classes, spec.hidden)
    weights = {}
    for name, shape in shapes.items():
        deviation = np.sqrt(2 / np.prod(shape[1:]))
        weights[f"{name}.weight"] = (seed.standard_normal(shape) * deviation).astype(np.float32)
        weights[f"{name}.bias"] = np.zeros(shape[0], dtype=np.float32)
    return weights
