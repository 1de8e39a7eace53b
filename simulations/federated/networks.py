"""The models that parties average: softmax regression, or with one hidden layer, as one vector of numbers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

_PURPOSE = 0x61766572616765


@dataclass(frozen=True)
class AveragedNetwork:
    """Layers of weights with a bias each, a ramp (max(0, .)) between layers, softmax at the end.

    widths: inputs, hidden units if any, classes. A model is float64 (size,): of each layer the weights
    (inputs, outputs), then the bias (outputs,).
    """

    widths: tuple[int, ...]

    @classmethod
    def of(cls, inputs: int, classes: int, hidden: int) -> AveragedNetwork:
        """With `hidden` units in one hidden layer, or with 0 none: softmax regression."""
        return cls((inputs, hidden, classes) if hidden else (inputs, classes))

    @property
    def size(self) -> int:
        """Numbers of a model.

        >>> AveragedNetwork.of(3, 2, hidden=0).size, AveragedNetwork.of(3, 2, hidden=4).size
        (8, 26)
        """
        return sum((before + 1) * after for before, after in itertools.pairwise(self.widths))

    def initial(self, seed: int) -> np.ndarray:
        """Where all parties start: zeros without a hidden layer, else weights by lot (He et al. 2015, equation 10)."""
        model = np.zeros(self.size)
        if len(self.widths) > 2:
            generator = np.random.default_rng([seed, _PURPOSE])
            for layer in self._layers(model):
                layer[:-1] = generator.standard_normal(layer[:-1].shape) * np.sqrt(2 / (len(layer) - 1))
        return model

    def probabilities(self, model: np.ndarray, x: np.ndarray) -> np.ndarray:
        """float64 (n, classes) of inputs `x` (n, inputs)."""
        return softmax(self._activations(model, x)[-1], axis=1)

    def gradient(self, model: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """float64 (size,) of the mean cross-entropy of rows `x` float64 (n, inputs) with classes `y` int64 (n,)."""
        layers, values = self._layers(model), self._activations(model, x)
        gradient = np.empty(self.size)
        error = softmax(values[-1], axis=1)
        error[np.arange(len(y)), y] -= 1
        error /= len(y)
        for index, found in reversed(list(enumerate(self._layers(gradient)))):
            found[:-1] = values[index].T @ error
            found[-1] = error.sum(axis=0)
            if index:
                error = (error @ layers[index][:-1].T) * (values[index] > 0)
        return gradient

    def _layers(self, model: np.ndarray) -> list[np.ndarray]:
        """Views (inputs + 1, outputs) of a model, the bias last."""
        found, start = [], 0
        for before, after in itertools.pairwise(self.widths):
            found.append(model[start : start + (before + 1) * after].reshape(before + 1, after))
            start += (before + 1) * after
        return found

    def _activations(self, model: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
        """What goes into each layer, and last what comes out of the last."""
        values = [x]
        for layer in self._layers(model):
            inside = values[-1] if len(values) == 1 else np.maximum(values[-1], 0)
            values[-1] = inside
            values.append(inside @ layer[:-1] + layer[-1])
        return values
