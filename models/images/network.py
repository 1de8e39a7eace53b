"""The convolutional network that all students of images share, one of dense layers, and both as trained models."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import softmax

from consilium.models.images.pixels import Pixels
from consilium.protocol.images import ImageShape

if TYPE_CHECKING:
    from torch import Tensor, nn

HIDDEN = 128
_BLOCK = 500


def network(shape: ImageShape, classes: int, channels: int) -> nn.Sequential:
    """Two layers of 5x5 filters and one dense, about those of the PATE papers; [0] gives its `HIDDEN` features.

    Input float32 (n, *shape) from 0 to 1; output logits (n, classes). There is no batch normalisation: what a
    row gets does not depend on the rows beside it, and adversarial directions (`vat`) need no special care.
    """
    from torch import nn

    net = nn.Sequential(
        nn.Sequential(
            nn.Conv2d(shape.channels, channels, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * channels * (shape.side // 4) ** 2, HIDDEN),
            nn.ReLU(),
        ),
        nn.Linear(HIDDEN, classes),
    )
    return _in_place(net)


def normalised_network(shape: ImageShape, classes: int, channels: int) -> nn.Sequential:
    """`network` with batch normalisation after each layer (Ioffe, Szegedy, ICML 2015): it learns in far fewer steps.

    Normalisation comes after pooling, on a quarter of the numbers, and does not rescale: dividing by a positive number
    commutes with a maximum, so `plain` can make it part of the filters.
    """
    from torch import nn

    net = nn.Sequential(
        nn.Sequential(
            nn.Conv2d(shape.channels, channels, 5, padding=2),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 5, padding=2),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(2 * channels),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * channels * (shape.side // 4) ** 2, HIDDEN),
            nn.BatchNorm1d(HIDDEN),
            nn.ReLU(),
        ),
        nn.Linear(HIDDEN, classes),
    )
    for layer in _norms(net):
        layer.weight.requires_grad_(False)
    return _in_place(net)


def plain(net: nn.Sequential) -> nn.Sequential:
    """A `network` that gives what `net` gives when it is not in training: itself, or one of `normalised_network`."""
    import torch
    from torch import nn

    if not _norms(net):
        return net
    layers: list[nn.Module] = []
    last: Any = None
    for layer in copy.deepcopy(_parts(net)):
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            with torch.no_grad():
                spread = torch.sqrt(layer.running_var + layer.eps)  # pyright: ignore[reportOptionalOperand, reportOperatorIssue]
                last.weight /= spread.view(-1, *[1] * (last.weight.dim() - 1))
                last.bias.sub_(layer.running_mean).div_(spread).add_(layer.bias)  # pyright: ignore[reportArgumentType]
        else:
            layers.append(layer)
            last = layer if isinstance(layer, nn.Conv2d | nn.Linear) else last
    return nn.Sequential(nn.Sequential(*layers), copy.deepcopy(net[1]))


def _norms(net: nn.Sequential) -> list[Any]:
    from torch import nn

    return [layer for layer in _parts(net) if isinstance(layer, nn.modules.batchnorm._BatchNorm)]


def _parts(net: nn.Sequential) -> nn.Sequential:
    return cast("nn.Sequential", net[0])


def _in_place(net: nn.Sequential) -> nn.Sequential:
    import torch

    return net.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]  # half the time on a CPU


@dataclass(frozen=True)
class ImageModel:
    """A trained network, as numpy arrays, so that it loads on any machine. It takes features as they travel."""

    pixels: Pixels
    classes: int
    channels: int
    weights: dict[str, np.ndarray] = field(repr=False)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Rows float (n, pixels) -> probabilities float64 (n, classes)."""
        import torch

        return torch.softmax(self._through(x, whole=True).double(), dim=1).numpy()

    def features(self, x: np.ndarray) -> np.ndarray:
        """Rows float (n, pixels) -> what the last layer is given, scaled to length 1, float32 (n, `HIDDEN`)."""
        from torch.nn import functional

        return functional.normalize(self._through(x, whole=False), dim=1).numpy()

    def _through(self, x: np.ndarray, whole: bool) -> Tensor:
        import torch

        with torch.random.fork_rng(devices=[]):  # its first weights are drawn, and thrown away
            net = network(self.pixels.shape, self.classes, self.channels)
        net.load_state_dict({name: torch.from_numpy(value) for name, value in self.weights.items()})
        images = self.pixels.images(x)
        with torch.no_grad(), few_threads():
            return torch.cat([(net if whole else net[0])(part) for part in images.split(_BLOCK)])


@contextmanager
def few_threads() -> Iterator[None]:
    """For torch meanwhile as many threads as OMP_NUM_THREADS says, one without it; the number before comes back.

    One, since a second makes such small networks hardly faster and waits the rest of the time. Torch's own number says
    nothing: without the variable it is that of the cores. The last bits of sums depend on it.
    """
    import torch

    before, asked = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(int(asked) if asked.isdecimal() and int(asked) > 0 else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class DenseModel:
    """ReLU after each layer but the last. layers: of each, float32 weights (outputs, inputs) and offsets (outputs,)."""

    pixels: Pixels
    layers: tuple[tuple[np.ndarray, np.ndarray], ...] = field(repr=False)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Rows float (n, pixels), as they travel -> probabilities float64 (n, classes)."""
        seen = self.pixels.scaled(x)
        *hidden, (weights, offsets) = self.layers
        for inner, inner_offsets in hidden:
            seen = np.maximum(seen @ inner.T + inner_offsets, 0)
        return softmax((seen @ weights.T + offsets).astype(np.float64), axis=1)
