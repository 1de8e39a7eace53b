"""The convolutional network that students of images share, the loop that trains it, and the methods that run in it:
labels, contrast. The moving average is that of Tarvainen and Valpola, Mean teachers are better role models, NIPS 2017,
without its loss."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from consilium.models.devices import resolve_device, torch_on_one_thread
from consilium.models.images.pixels import Distortion, Pixels
from consilium.models.keys import ImageStudent
from consilium.protocol.images import ImageShape
from consilium.protocol.label_source import Progress, no_progress

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

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


CHECK_EVERY = 50
"""Steps between two looks at the predictions."""
_CALM_CHECKS = 4
_AVERAGED = 0.998
"""The moving average is over about 500 steps."""
_RATE = 2e-3
_RISE = 0.15


@dataclass(frozen=True)
class Material:
    """Images on the device of training: `labelled` (n, channels, side, side) with `labels` int64 (n,), and `every`
    image of the pool, those with a label too (m, channels, side, side). `generator` is on the CPU; everything random
    comes from it."""

    labelled: Tensor
    labels: Tensor
    every: Tensor
    classes: int
    generator: Generator

    def labelled_batch(self, size: int) -> tuple[Tensor, Tensor]:
        """Drawn with replacement: `size` images and their labels."""
        rows = self._draw(len(self.labels), size)
        return self.labelled[rows], self.labels[rows]

    def batch(self, size: int) -> Tensor:
        """`size` images of the pool, drawn with replacement."""
        return self.every[self._draw(len(self.every), size)]

    def _draw(self, count: int, size: int) -> Tensor:
        import torch

        return torch.randint(count, (size,), generator=self.generator).to(self.labels.device)


Method = Callable[[float], object]
"""One way to learn: makes a step; it is given the share of all steps that were made, from 0 to 1."""


@dataclass(frozen=True)
class ImageTrainer:
    """Trains a `network` by `method` on labels and on `unlabelled` float (n, pixels); that costs no privacy. It stops
    after `spec.steps`, or earlier once at most a share `spec.settled` of the pool's predictions has changed in each of
    the last few checks: that needs no labels. normalised: see `network`; it needs no moving average."""

    method: Callable[[nn.Sequential, Material], Method]
    spec: ImageStudent
    unlabelled: np.ndarray = field(repr=False)
    progress: Progress = no_progress
    normalised: bool = False

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> ImageModel:
        """See `Trainer.fit`, but `x` float (n, pixels) are features as they travel. Gives the weights' moving average.
        Raises ConfigError: rows are no square images, or there is no such device."""
        import torch

        spec, decay = self.spec, 0.0 if self.normalised else _AVERAGED
        rows = np.concatenate([x, self.unlabelled])
        pixels, device = Pixels.of(rows), resolve_device()
        generator = torch.Generator().manual_seed(seed)
        with torch_on_one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = network(pixels.shape, classes, spec.channels, self.normalised).to(device)
            average = copy.deepcopy(net).eval()
            every = pixels.images(rows).to(device)
            labels = torch.from_numpy(y).to(device)
            method = self.method(net, Material(every[: len(y)], labels, every, classes, generator))
            name, predicted, calm = f"train student, {spec.name}", None, 0
            self.progress(name, 0, spec.steps)
            for step in range(1, spec.steps + 1):
                method((step - 1) / spec.steps)
                _follow(average, net, min(decay, (1 + step) / (10 + step)))
                if step % CHECK_EVERY:
                    continue
                self.progress(name, step, spec.steps)
                if spec.settled:
                    before, predicted = predicted, _classes(average, every)
                    changed = 1.0 if before is None else float((predicted != before).float().mean())
                    calm = calm + 1 if changed <= spec.settled else 0
                    if calm >= _CALM_CHECKS:
                        break
        found = plain(average).state_dict()
        weights = {name: value.detach().cpu().contiguous().numpy() for name, value in found.items()}
        return ImageModel(pixels, classes, spec.channels, weights)


def _follow(average: nn.Sequential, net: nn.Sequential, decay: float) -> None:
    """One step of the moving average of the weights; what is counted and not trained is taken over."""
    import torch

    with torch.no_grad():
        for mean, now in zip(average.parameters(), net.parameters(), strict=True):
            mean.lerp_(now, 1 - decay)
        for kept, now in zip(average.buffers(), net.buffers(), strict=True):
            kept.copy_(now)


def _classes(net: nn.Sequential, images: Tensor) -> Tensor:
    import torch

    with torch.no_grad():
        return torch.cat([net(part).argmax(dim=1) for part in images.split(_BLOCK)]).cpu()


def _falling(done: float) -> float:
    """The rate of FixMatch: cos(7 pi done / 16)."""
    return _RATE * math.cos(7 * math.pi * done / 16)


def _one_cycle(done: float) -> float:
    """Up to twice the rate, then down to nothing (Smith, Topin, Super-convergence, arXiv:1708.07120)."""
    rising = done / _RISE
    falling = (1 + math.cos(math.pi * (done - _RISE) / (1 - _RISE))) / 2
    return 2 * _RATE * (min(rising, falling) + 1e-3)


class Descent:
    """Adam (Kingma, Ba 2015) with weight decay apart (Loshchilov, Hutter 2019), for all parameters of some networks; in
    one cycle for those with batch normalisation."""

    def __init__(self, *nets: nn.Module) -> None:
        import torch

        parameters = [parameter for net in nets for parameter in net.parameters()]
        self._optimiser = torch.optim.AdamW(parameters, lr=_RATE, weight_decay=5e-3, fused=True)
        self._rate = _one_cycle if any(map(norms, nets)) else _falling

    def step(self, loss: Tensor, done: float) -> None:
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate(done)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self._optimiser.step()


_BATCH_OF_LABELS = 64


def supervised(net: nn.Sequential, material: Material, change: Distortion) -> Method:
    """The labels alone, on distorted copies if asked (Simard et al. 2003)."""
    from torch.nn import functional

    descent = Descent(net)

    def step(done: float) -> None:
        images, labels = material.labelled_batch(_BATCH_OF_LABELS)
        descent.step(functional.cross_entropy(net(change(images, material.generator)), labels), done)

    return step


_BATCH_OF_VIEWS = 128
_PLACES = 64
_TEMPERATURE = 0.2


def contrast(net: nn.Sequential, material: Material, change: Distortion, near: np.ndarray) -> Method:
    """What images show, learned without a label: two views of one image are alike, those of different images are not.
    Chen, Kornblith, Norouzi, Hinton, ICML 2020, arXiv:2002.05709, equation 1. The second view is of one of the nearest
    images instead of the same one (Dwibedi, Aytar, Tompson, Sermanet, Zisserman, ICCV 2021, arXiv:2104.14548, there
    nearest in the network's own eyes): of the pool that is public, so it costs no privacy. near: int64 (m, k), for each
    image of the pool those whose views are like its own. First views come before second ones."""
    import torch
    from torch import nn
    from torch.nn import functional

    every, generator, seen = material.every, material.generator, net[0]
    twins, (count, neighbours) = torch.from_numpy(near).to(every.device), near.shape
    head = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, _PLACES)).to(every.device)
    descent, truth = Descent(seen, head), torch.arange(2 * _BATCH_OF_VIEWS, device=every.device).roll(_BATCH_OF_VIEWS)

    def step(done: float) -> None:
        one = torch.randint(count, (_BATCH_OF_VIEWS,), generator=generator).to(every.device)
        other = twins[one, torch.randint(neighbours, (_BATCH_OF_VIEWS,), generator=generator).to(every.device)]
        images = change(every[torch.cat([one, other])], generator)
        places = functional.normalize(head(seen(images)), dim=1)
        likeness = (places @ places.T / _TEMPERATURE).fill_diagonal_(-torch.inf)
        descent.step(functional.cross_entropy(likeness, truth), done)

    return step
