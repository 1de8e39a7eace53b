"""The students of the papers that learn from rows without labels: a GAN with feature matching, and virtual adversarial
training in the loop of the students of images.

The two networks of a semi-supervised GAN on MNIST, and one step of each:

Salimans, Goodfellow, Zaremba, Cheung, Radford, Chen, Improved techniques for training GANs, NIPS 2016,
arXiv:1606.03498, sections 3.1, 5 and 6.1; every number below is that of the code they published
(github.com/openai/improved-gan, mnist_svhn_cifar10/train_mnist_feature_matching.py and nn.py, 4f5d1ec), with which
Papernot et al. 2017 trained the MNIST student of PATE-G (train_mnist_fm_custom_labels.py beside it)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from consilium.models.base import softmax
from consilium.models.devices import resolve_device, torch_on_one_thread
from consilium.models.images.network import Descent, Material
from consilium.models.images.pixels import Invariances, Pixels
from consilium.protocol.label_source import Progress, no_progress

HIDDEN = (1000, 500, 250, 250, 250)
"""Widths of the discriminator's hidden layers; the means of the last of them are matched."""
NOISE_OF_PIXELS = 0.3
NOISE_OF_FEATURES = 0.5  # standard deviations of the Gaussian noise on what a layer of the discriminator is given
SEEDS = 100
WIDTH = 500  # even random numbers that an image is made of, and the width of the generator's two hidden layers
BATCH = 100
UNLABELLED_WEIGHT = 1.0
RATE = 3e-3
MOMENTUM = 0.5
SQUARES = 0.999
FLOOR = 1e-8  # Adam's: the rate does not fall, and the floor is added within the root
AVERAGED = 1e-4
"""Weight of a step in the average of the discriminator's parameters, which is what is kept. Theirs begins at 0, ours at
the first step, with weights that sum to 1: after 24,000 steps theirs are nine tenths of that, in short runs nothing."""
FIRST_LOOK = 500  # images by which the discriminator's weights are scaled before the first step


class Normed(nn.Module):
    """A dense layer of which each output has its own length of weights (Salimans, Kingma, arXiv:1602.07868). Of a
    hidden layer the length stays what the first look made it; of the last it is learned."""

    def __init__(self, inputs: int, outputs: int, learned: bool, generator: Generator) -> None:
        super().__init__()
        self.direction = nn.Parameter(0.1 * torch.randn(outputs, inputs, generator=generator))
        self.length = nn.Parameter(torch.ones(outputs), requires_grad=learned)
        self.offset = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        # what comes out is scaled, not the weights: there are ten times as many of those
        return torch.addcmul(self.offset, functional.linear(x, self.direction), self._scale())

    def first_look(self, x: Tensor) -> None:
        """Scale and shift so that every output has mean 0 and variance 1 over the rows `x`."""
        with torch.no_grad():
            told = functional.linear(x, self.direction) * self._scale()
            deviation = told.std(dim=0, correction=0)
            self.length.div_(deviation)
            self.offset.copy_(-told.mean(dim=0) / deviation)

    def plain(self) -> tuple[Tensor, Tensor]:
        """Weights (outputs, inputs) and offsets of the dense layer that it is, as numbers of their own."""
        with torch.no_grad():
            return self.direction * self._scale()[:, None], self.offset.detach().clone()

    def _scale(self) -> Tensor:
        return self.length / torch.linalg.vector_norm(self.direction, dim=1)


class Discriminator(nn.Module):
    """Images float (n, pixels) from 0 to 1 -> logits (n, classes); that an image is made up has the logit 0."""

    def __init__(self, pixels: int, classes: int, generator: Generator) -> None:
        super().__init__()
        widths = (pixels, *HIDDEN, classes)
        last = len(HIDDEN)
        self.layers = nn.ModuleList(
            Normed(widths[at], widths[at + 1], learned=at == last, generator=generator) for at in range(last + 1)
        )
        self._generator = generator

    def forward(self, x: Tensor) -> Tensor:
        """Logits, with fresh noise on what each layer is given."""
        return self.layers[-1](self._noisy(self.features(x), NOISE_OF_FEATURES))

    def features(self, x: Tensor, look: bool = False) -> Tensor:
        """What the last hidden layer gives, float (n, `HIDDEN[-1]`), with fresh noise before it. look: see
        `first_look`."""
        for place, layer in enumerate(list(self.layers)[:-1]):
            x = self._noisy(x, NOISE_OF_FEATURES if place else NOISE_OF_PIXELS)
            if look:
                layer.first_look(x)  # pyright: ignore[reportCallIssue]
            x = torch.relu(layer(x))
        return x

    def first_look(self, x: Tensor) -> None:
        """Scale all layers, one after the other, by what they make of the images `x`."""
        with torch.no_grad():
            seen = self._noisy(self.features(x, look=True), NOISE_OF_FEATURES)
            self.layers[-1].first_look(seen)  # pyright: ignore[reportCallIssue]

    def plain(self) -> list[tuple[Tensor, Tensor]]:
        return [layer.plain() for layer in self.layers]  # pyright: ignore[reportCallIssue]

    def _noisy(self, x: Tensor, deviation: float) -> Tensor:
        return torch.add(x, torch.randn(x.shape, generator=self._generator).to(x.device), alpha=deviation)


class Maker(nn.Module):
    """Even random numbers (n, `SEEDS`) from 0 to 1 -> images (n, pixels) from 0 to 1. Batches are normalised in the
    hidden layers, without a gain; weights of the last have a length that is learned."""

    def __init__(self, pixels: int, generator: Generator) -> None:
        super().__init__()
        widths = (SEEDS, WIDTH, WIDTH, pixels)
        self.weights = nn.ParameterList(_glorot(widths[at], widths[at + 1], generator) for at in range(3))
        self.offsets = nn.ParameterList(torch.zeros(width) for width in widths[1:])
        self.length = nn.Parameter(torch.ones(pixels))

    def forward(self, seeds: Tensor) -> Tensor:
        """See the class."""
        x = seeds
        for weights, offsets in list(zip(self.weights, self.offsets, strict=True))[:2]:
            x = functional.linear(x, weights)
            x = functional.softplus(functional.batch_norm(x, None, None, None, offsets, training=True, eps=1e-6))
        weights = self.weights[2]
        scale = self.length / torch.sqrt(1e-6 + weights.square().sum(dim=1))
        return torch.sigmoid(functional.linear(x, weights) * scale + self.offsets[2])


def _glorot(inputs: int, outputs: int, generator: Generator) -> nn.Parameter:
    """Even between +-sqrt(6 / (inputs + outputs)) (Glorot, Bengio 2010)."""
    most = (6 / (inputs + outputs)) ** 0.5
    return nn.Parameter((2 * torch.rand(outputs, inputs, generator=generator) - 1) * most)


class FlooredAdam:
    """Adam (Kingma, Ba 2015), but its floor is within the root: sqrt(v + 1e-8) moves small gradients less."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self._first = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._second = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.steps = 0

    def step(self, loss: Tensor) -> None:
        """One step down `loss`; other parameters that it depends on get no gradient."""
        gradients = torch.autograd.grad(loss, self.parameters)
        self.steps += 1
        rate = RATE / (1 - MOMENTUM**self.steps)
        unseen = 1 - SQUARES**self.steps
        with torch.no_grad():
            rows = zip(self.parameters, gradients, self._first, self._second, strict=True)
            for parameter, gradient, first, second in rows:
                first.lerp_(gradient, 1 - MOMENTUM)
                second.mul_(SQUARES).addcmul_(gradient, gradient, value=1 - SQUARES)
                parameter.addcmul_(first, second.add(FLOOR * unseen).rsqrt_(), value=-rate * unseen**0.5)


class Deck:
    """`count` rows in an order by lot, again and again in another one: each is drawn once before any is drawn twice."""

    def __init__(self, count: int, generator: Generator) -> None:
        self._count, self._generator = count, generator
        self._order = torch.empty(0, dtype=torch.int64)

    def draw(self, size: int) -> Tensor:
        """The next rows, int64 (size,)."""
        while len(self._order) < size:
            self._order = torch.cat([self._order, torch.randperm(self._count, generator=self._generator)])
        drawn, self._order = self._order[:size], self._order[size:]
        return drawn


class Duel:
    """Both networks, and what trains them. images: float (m, pixels) from 0 to 1, all of the pool, of which the first
    have `labels` int64 (n,)."""

    def __init__(self, images: Tensor, labels: Tensor, classes: int, generator: Generator) -> None:
        self._images, self._labels, self._generator = images, labels, generator
        pixels = images.shape[1]
        self.discriminator = Discriminator(pixels, classes, generator).to(images.device)
        self.maker = Maker(pixels, generator).to(images.device)
        self._learn = FlooredAdam(self.discriminator.parameters())
        self._make = FlooredAdam(self.maker.parameters())
        self.averaged = Discriminator(pixels, classes, torch.Generator()).to(images.device)
        counts = {"labelled": len(labels), "real": len(images), "matched": len(images)}
        self._decks = {name: Deck(count, generator) for name, count in counts.items()}

    def first_look(self) -> None:
        self.discriminator.first_look(self._images[Deck(len(self._images), self._generator).draw(FIRST_LOOK)])
        self.averaged.load_state_dict(self.discriminator.state_dict())

    def step(self) -> None:
        rows = self._decks["labelled"].draw(BATCH)
        with torch.no_grad():
            made = self._made()
        logits = self.discriminator(torch.cat([self._images[rows], self._real("real"), made]))
        supervised = functional.cross_entropy(logits[:BATCH], self._labels[rows])
        # an image is real with probability Z / (Z + 1), Z = sum exp logits
        real, false = torch.logsumexp(logits[BATCH:], dim=1).split(BATCH)
        doubt = (functional.softplus(-real).mean() + functional.softplus(false).mean()) / 2
        self._learn.step(supervised + UNLABELLED_WEIGHT * doubt)
        share = AVERAGED / (1 - (1 - AVERAGED) ** self._learn.steps)
        with torch.no_grad():
            for mean, now in zip(self.averaged.parameters(), self.discriminator.parameters(), strict=True):
                mean.lerp_(now, share)

        made = self.discriminator.features(self._made()).mean(dim=0)
        with torch.no_grad():
            aim = self.discriminator.features(self._real("matched")).mean(dim=0)
        loss = (made - aim).square().mean()
        self._make.step(loss)

    def _real(self, deck: str) -> Tensor:
        return self._images[self._decks[deck].draw(BATCH)]

    def _made(self) -> Tensor:
        return self.maker(torch.rand(BATCH, SEEDS, generator=self._generator).to(self._images.device))


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
        return softmax((seen @ weights.T + offsets).astype(np.float64))


TOLD_EVERY = 200  # steps between two words of progress


@dataclass(frozen=True)
class ImprovedGanTrainer:
    """Trains on labels and on `unlabelled` float (n, pixels), each row seen `epochs` times; that costs no privacy."""

    epochs: int
    unlabelled: np.ndarray = field(repr=False)
    progress: Progress = no_progress

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> DenseModel:
        """See `Trainer.fit`, but `x` float (n, pixels) are features as they travel. Gives the discriminator's average.
        Raises ConfigError: rows are no square images, or the device is absent."""
        rows = np.concatenate([x, self.unlabelled])
        pixels, device = Pixels.of(rows), resolve_device()
        images, labels = torch.from_numpy(pixels.scaled(rows)).to(device), torch.from_numpy(y).to(device)
        steps, name = self.epochs * max(1, len(rows) // BATCH), "train student, feature_matching"
        with torch_on_one_thread():
            duel = Duel(images, labels, classes, torch.Generator().manual_seed(seed))
            duel.first_look()
            for step in range(steps):
                if step % TOLD_EVERY == 0:
                    self.progress(name, step, steps)
                duel.step()
        self.progress(name, steps, steps)
        layers = duel.averaged.plain()
        return DenseModel(pixels, tuple((weights.cpu().numpy(), offsets.cpu().numpy()) for weights, offsets in layers))


_LABELLED = 32
_UNLABELLED = 128
_PROBE = 0.01  # length of the step that finds the direction: small, but far above what float32 rounds away


class Vat:
    """Virtual adversarial training with entropy minimisation: predictions must not change in the worst near direction.
    Miyato, Maeda, Koyama, Ishii, TPAMI 2018, arXiv:1704.03976, equations 5 to 8, 11 and 18, with one power iteration;
    the entropy term is that of Grandvalet and Bengio, NIPS 2004. Its weight grows from 0 to 1: without batch
    normalisation an early wish to be sure can make the network call everything one class. In float32 throughout: other
    floats round the step away that finds the direction."""

    def __init__(self, net: nn.Sequential, material: Material, change: Invariances, radius: float) -> None:
        self._net, self._material, self._change = net, material, change
        self._length = radius * math.sqrt(material.every[0].numel())
        self._descent = Descent(net)

    def step(self, done: float) -> None:
        generator = self._material.generator
        images, labels = self._material.labelled_batch(_LABELLED)
        other = self._material.batch(_UNLABELLED)
        images, other = self._change.strong(images, generator), self._change.weak(other, generator)
        start = torch.randn(other.shape, generator=generator).to(other.device)
        logits = self._net(torch.cat([images, other]))
        supervised = functional.cross_entropy(logits[:_LABELLED], labels)
        rest = logits[_LABELLED:]
        logs = torch.log_softmax(rest, dim=1)
        entropy = -(logs.exp() * logs).sum(dim=1).mean()
        fixed = logs.detach()
        moved = self._net(other + self._length * self._worst_direction(other, fixed, start))
        self._descent.step(supervised + _divergence(fixed, moved) + done * entropy, done)

    def _worst_direction(self, images: Tensor, logs: Tensor, start: Tensor) -> Tensor:
        """Unit vectors (n, channels, side, side) along which the predictions `logs` change most, from `start` of any
        length."""
        probe = (_PROBE * _unit(start)).requires_grad_()
        (slope,) = torch.autograd.grad(_divergence(logs, self._net(images + probe)), probe)
        return _unit(slope)


def _unit(images: Tensor) -> Tensor:
    """Each image scaled to length 1; one of zeros stays so."""
    return images / images.flatten(1).norm(dim=1).clamp(min=1e-30)[:, None, None, None]


def _divergence(logs: Tensor, logits: Tensor) -> Tensor:
    """Mean Kullback-Leibler divergence of softmax(`logits`) from exp(`logs`), both (n, classes)."""
    return (logs.exp() * (logs - torch.log_softmax(logits, dim=1))).sum(dim=1).mean()
