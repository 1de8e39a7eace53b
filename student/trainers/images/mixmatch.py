"""MixMatch: guessed labels of unlabelled images, sharpened, and everything mixed with everything.

Berthelot, Carlini, Goodfellow, Papernot, Oliver, Raffel, MixMatch, NeurIPS 2019, arXiv:1905.02249, algorithm 1 and
equations 2 to 5; K = 2, T = 0.5, alpha = 0.75 as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from consilium.student.trainers.images.loop import AVERAGED, Descent, Material
from consilium.student.trainers.images.rows import Distortion

if TYPE_CHECKING:
    from torch import Tensor, nn

_BATCH = 64
_COPIES = 2
_TEMPERATURE = 0.5
_ALPHA = 0.75
_WEIGHT = 25.0
"""Of the unlabelled images at the last step; it grows from 0 all the time, as early guesses are poor. 75 in the paper:
with so few steps the guesses then sometimes pull each other to one class."""


class MixMatch:
    """See `loop.Method`."""

    def __init__(self, net: nn.Sequential, material: Material, change: Distortion) -> None:
        self._net, self._material, self._change = net, material, change
        self._descent = Descent.of(net)
        self.decay = AVERAGED
        self.parts: dict[str, Any] = {"net": net, "optimiser": self._descent.optimiser}

    def update(self, done: float) -> None:
        """See `loop.Method.update`."""
        import torch
        from torch.nn import functional

        material = self._material
        images, labels = material.labelled_batch(_BATCH)
        images = self._change(images, material.generator)
        other = material.batch(_BATCH)
        copies = [self._change(other, material.generator) for _ in range(_COPIES)]
        with torch.no_grad():
            guess = torch.stack([torch.softmax(self._net(copy), dim=1) for copy in copies]).mean(dim=0)
            guess = guess ** (1 / _TEMPERATURE)
            guess = guess / guess.sum(dim=1, keepdim=True)
        known = functional.one_hot(labels, material.classes).float()
        mixed, targets = self._mix(torch.cat([images, *copies]), torch.cat([known, *[guess] * _COPIES]))
        logits = self._net(mixed)
        supervised = functional.cross_entropy(logits[:_BATCH], targets[:_BATCH])
        distance = ((torch.softmax(logits[_BATCH:], dim=1) - targets[_BATCH:]) ** 2).mean()
        self._descent.step(supervised + _WEIGHT * done * distance, done)

    def _mix(self, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Each image and target with a share of another's; its own share is the larger (MixUp, Zhang et al. 2018)."""
        import torch

        generator = self._material.generator
        share = _beta(_ALPHA, len(images), generator)
        share = torch.maximum(share, 1 - share).to(images.device)
        partner = torch.randperm(len(images), generator=generator).to(images.device)
        wide = share[:, None, None, None]
        mixed = wide * images + (1 - wide) * images[partner]
        return mixed, share[:, None] * targets + (1 - share[:, None]) * targets[partner]


def _beta(alpha: float, count: int, generator: Any) -> Tensor:
    """`count` numbers of the distribution Beta(alpha, alpha) for alpha below 1 (Joehnk 1964, first tries that fit)."""
    import torch

    kept = torch.empty(0)
    while len(kept) < count:
        pair = torch.rand(2, 2 * count, generator=generator) ** (1 / alpha)
        total = pair.sum(dim=0)
        kept = torch.cat([kept, (pair[0] / total)[(total <= 1) & (total > 0)]])
    return kept[:count]
