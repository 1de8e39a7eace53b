"""The convolutional network that students of images share, and it as a trained model."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from consilium.models.devices import torch_on_one_thread
from consilium.models.images.pixels import Pixels
from consilium.protocol.images import ImageShape

if TYPE_CHECKING:
    from torch import Tensor, nn

HIDDEN = 128
_BLOCK = 500


def network(shape: ImageShape, classes: int, channels: int, normalised: bool = False) -> nn.Sequential:
    """Two layers of 5x5 filters and one dense, about those of the PATE papers; [0] gives its `HIDDEN` features. Input
    float32 (n, *shape) from 0 to 1; output logits (n, classes). Without batch normalisation what a row gets does not
    depend on the rows beside it, and adversarial directions need no special care. normalised: with it after each layer
    (Ioffe, Szegedy, ICML 2015): it learns in far fewer steps. It comes after pooling, on a quarter of the numbers, and
    does not rescale: dividing by a positive number commutes with a maximum, so `plain` can fold it in."""
    import torch
    from torch import nn

    first = [nn.Conv2d(shape.channels, channels, 5, padding=2), nn.MaxPool2d(2)]
    second = [nn.Conv2d(channels, 2 * channels, 5, padding=2), nn.MaxPool2d(2)]
    dense: list[nn.Module] = [nn.Linear(2 * channels * (shape.side // 4) ** 2, HIDDEN)]
    if normalised:
        first.append(nn.BatchNorm2d(channels))
        second.append(nn.BatchNorm2d(2 * channels))
        dense.append(nn.BatchNorm1d(HIDDEN))
    seen = nn.Sequential(*first, nn.ReLU(), *second, nn.ReLU(), nn.Flatten(), *dense, nn.ReLU())
    net = nn.Sequential(seen, nn.Linear(HIDDEN, classes))
    for layer in norms(net):
        layer.weight.requires_grad_(False)
    return net.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]  # half the time on a CPU


def plain(net: nn.Sequential) -> nn.Sequential:
    """A `network` without normalisation that gives what `net` gives when it is not in training."""
    import torch
    from torch import nn

    if not norms(net):
        return net
    layers: list[nn.Module] = []
    last: Any = None
    for layer in copy.deepcopy(cast("nn.Sequential", net[0])):
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            with torch.no_grad():
                spread = torch.sqrt(layer.running_var + layer.eps)  # pyright: ignore[reportOptionalOperand, reportOperatorIssue]
                last.weight /= spread.view(-1, *[1] * (last.weight.dim() - 1))
                last.bias.sub_(layer.running_mean).div_(spread).add_(layer.bias)  # pyright: ignore[reportArgumentType]
        else:
            layers.append(layer)
            last = layer if isinstance(layer, nn.Conv2d | nn.Linear) else last
    return nn.Sequential(nn.Sequential(*layers), copy.deepcopy(net[1]))


def norms(net: nn.Module) -> list[Any]:
    """Its layers of batch normalisation."""
    from torch import nn

    return [layer for layer in net.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]


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
        with torch.no_grad(), torch_on_one_thread():
            return torch.cat([(net if whole else net[0])(part) for part in images.split(_BLOCK)])
