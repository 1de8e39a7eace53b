"""Virtual adversarial training, the student of PATE 2018 on Glyph, in the loop of the students of images."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from consilium.models.images.loop import AVERAGED, Descent, Material
from consilium.models.images.pixels import Invariances

_LABELLED = 32
_UNLABELLED = 128
_PROBE = 0.01
"""Length of the step that finds the direction: small, but far above what float32 rounds away."""


class Vat:
    """Virtual adversarial training with entropy minimisation: predictions must not change in the worst near direction.

    Miyato, Maeda, Koyama, Ishii, TPAMI 2018, arXiv:1704.03976, equations 5 to 8, 11 and 18, with one power iteration;
    the entropy term is that of Grandvalet and Bengio, NIPS 2004. Its weight grows from 0 to 1: without batch
    normalisation an early wish to be sure can make the network call everything one class. In float32 throughout:
    other floats round the step away that finds the direction.
    """

    def __init__(self, net: nn.Sequential, material: Material, change: Invariances, radius: float) -> None:
        self._net, self._material, self._change = net, material, change
        self._length = radius * math.sqrt(material.every[0].numel())
        self._descent = Descent.of(net)
        self.decay = AVERAGED

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
