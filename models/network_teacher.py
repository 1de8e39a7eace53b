"""The networks that a coordinator may ask of a party, as torch modules. torch takes two seconds to import."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from consilium.models.keys import NetworkSpec, TorchKeys
from consilium.models.torch_classifier import TorchClassifier


class NetworkTeacher(TorchClassifier):
    """One network, of the kind that `spec` says."""

    def __init__(self, spec: NetworkSpec, seed: int) -> None:
        said = {key: getattr(spec, key) for key in ("epochs", "batch", "learning_rate", "weight_decay")}
        keys = TorchKeys(factory=f"{__name__}:network_of", images=spec.of_images, **said)
        super().__init__(keys, partial(network_of, spec), seed=seed)
        self.balanced = spec.class_weight == "balanced"

    def fit(self, x: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> NetworkTeacher:
        """`x` float (n, inputs), `y` int64 (n,). On the CPU the same seed gives the same weights."""
        if self.balanced:
            _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
            sample_weight = 1 / counts[codes]
        super().fit(x, y, sample_weight)
        return self


def network_of(spec: NetworkSpec, inputs: Any, classes: int) -> nn.Module:
    """Dense layers, behind two convolutions with max-pool where the rows are images."""
    layers: list[nn.Module] = []
    if spec.of_images:
        channels, side, _ = inputs
        for more in spec.convolutions:
            # in this order a quarter of the work, the same numbers
            layers += [nn.Conv2d(channels, more, 5), nn.MaxPool2d(2), nn.ReLU()]
            channels, side = more, (side - 4) // 2
        layers.append(nn.Flatten())
        inputs = channels * side**2
    for _ in range(spec.dense):
        layers += [nn.Linear(inputs, spec.hidden), nn.ReLU()]
        inputs = spec.hidden
    net = nn.Sequential(*layers, nn.Linear(inputs, classes))
    return net.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]  # half the time on a CPU
