"""Semi-supervised GAN, the student of PATE-G: made-up images are one class more, matched by their mean features.

Salimans, Goodfellow, Zaremba, Cheung, Radford, Chen, Improved techniques for training GANs, NIPS 2016,
arXiv:1606.03498, sections 3.1 and 5; used as student by Papernot et al. 2017. The generator is the dense one they use
on MNIST; the discriminator here is the convolutional network of the other students.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from student.config import StudentSpec
from student.trainers.images import STRONG, WEAK
from student.trainers.loop import Descent, Material

if TYPE_CHECKING:
    from torch import Tensor, nn

_BATCH = 64
_NOISE = 100
_WIDTH = 500
_MOMENTUM = 0.5


class Gan:
    """See `loop.Method`."""

    def __init__(self, net: nn.Sequential, material: Material, spec: StudentSpec) -> None:
        self._net, self._material, self._augment = net, material, spec.augment
        side = material.every.shape[-1]
        self._maker = _generator(side).to(material.every.device)
        self._learn = Descent.of(net, 1e-3, _MOMENTUM)
        self._make = Descent.of(self._maker, 1e-3, _MOMENTUM)
        self.parts: dict[str, Any] = {
            "net": net,
            "optimiser": self._learn.optimiser,
            "maker": self._maker,
            "maker's optimiser": self._make.optimiser,
        }

    def update(self, done: float) -> None:
        """See `loop.Method.update`."""
        import torch
        from torch.nn import functional

        images, labels = self._material.labelled_batch(_BATCH)
        other = self._material.batch(_BATCH)
        if self._augment:
            images, other = STRONG(images, self._material.generator), WEAK(other, self._material.generator)
        with torch.no_grad():
            made = self._made()
        logits = self._net(torch.cat([images, other, made]))
        # the class "made up" has logit 0, so that an image is real with probability Z / (Z + 1), Z = sum exp logits
        real, false = torch.logsumexp(logits[_BATCH:], dim=1).split(_BATCH)
        doubt = (functional.softplus(-real) + functional.softplus(false)).mean() / 2
        self._learn.step(functional.cross_entropy(logits[:_BATCH], labels) + doubt, done)

        features = self._net[0]
        with torch.no_grad():
            aim = features(other).mean(dim=0)
        self._make.step(((features(self._made()).mean(dim=0) - aim) ** 2).mean(), done)

    def _made(self) -> Tensor:
        import torch

        noise = torch.rand(_BATCH, _NOISE, generator=self._material.generator)
        return self._maker(noise.to(self._material.every.device))


def _generator(side: int) -> nn.Sequential:
    """Noise (n, 100) in 0..1 -> images (n, 1, side, side) in 0..1."""
    from torch import nn

    return nn.Sequential(
        nn.Linear(_NOISE, _WIDTH),
        nn.BatchNorm1d(_WIDTH),
        nn.Softplus(),
        nn.Linear(_WIDTH, _WIDTH),
        nn.BatchNorm1d(_WIDTH),
        nn.Softplus(),
        nn.Linear(_WIDTH, side * side),
        nn.Sigmoid(),
        nn.Unflatten(1, (1, side, side)),
    )
