"""Semi-supervised GAN, the student of PATE-G: made-up images are one class more, matched by their mean features.

Salimans, Goodfellow, Zaremba, Cheung, Radford, Chen, Improved techniques for training GANs, NIPS 2016,
arXiv:1606.03498, sections 3.1 and 5; used as student by Papernot et al. 2017. The generator is the dense one they use
on MNIST; the discriminator here is the convolutional network of the other students. The entropy term is that of Dai,
Yang, Yang, Cohen, Salakhutdinov, Good semi-supervised learning that requires a bad GAN, NIPS 2017.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from consilium.protocol.rows.images import ImageShape
from consilium.student.trainers.images.loop import AVERAGED, Descent, Material
from consilium.student.trainers.images.rows import Distortion

if TYPE_CHECKING:
    from torch import Tensor, nn

_BATCH = 64
_NOISE = 100
_WIDTH = 500
_WEIGHT = 0.3
"""Of telling made-up images from real ones, and, growing from 0, of the entropy of the classes of real ones. With 1 as
in the paper the network is busy with the former for far longer than a student has here."""


class Gan:
    """See `loop.Method`."""

    def __init__(self, net: nn.Sequential, material: Material, change: Distortion) -> None:
        self._net, self._material, self._change = net, material, change
        self._maker = _generator(ImageShape(*material.every.shape[1:3])).to(material.every.device)
        self._learn = Descent.of(net)
        self._make = Descent.of(self._maker)
        self.decay = AVERAGED
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
        # both alike, or the discriminator would learn to tell the distortion
        images, other = (self._change(part, self._material.generator) for part in (images, other))
        with torch.no_grad():
            made = self._made()
        logits = self._net(torch.cat([images, other, made]))
        # the class "made up" has logit 0, so that an image is real with probability Z / (Z + 1), Z = sum exp logits
        real, false = torch.logsumexp(logits[_BATCH:], dim=1).split(_BATCH)
        doubt = (functional.softplus(-real) + functional.softplus(false)).mean() / 2
        logs = torch.log_softmax(logits[_BATCH : 2 * _BATCH], dim=1)
        entropy = -(logs.exp() * logs).sum(dim=1).mean()
        supervised = functional.cross_entropy(logits[:_BATCH], labels)
        self._learn.step(supervised + _WEIGHT * (doubt + done * entropy), done)

        features = self._net[0]
        with torch.no_grad():
            aim = features(other).mean(dim=0)
        self._make.step(((features(self._made()).mean(dim=0) - aim) ** 2).mean(), done)

    def _made(self) -> Tensor:
        import torch

        noise = torch.rand(_BATCH, _NOISE, generator=self._material.generator)
        return self._maker(noise.to(self._material.every.device))


def _generator(shape: ImageShape) -> nn.Sequential:
    """Noise (n, 100) in 0..1 -> images (n, *shape) in 0..1."""
    from torch import nn

    return nn.Sequential(
        nn.Linear(_NOISE, _WIDTH),
        nn.BatchNorm1d(_WIDTH),
        nn.Softplus(),
        nn.Linear(_WIDTH, _WIDTH),
        nn.BatchNorm1d(_WIDTH),
        nn.Softplus(),
        nn.Linear(_WIDTH, shape.channels * shape.side**2),
        nn.Sigmoid(),
        nn.Unflatten(1, (shape.channels, shape.side, shape.side)),
    )
