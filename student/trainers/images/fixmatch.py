"""FixMatch: sure predictions on slightly distorted images are the labels of strongly distorted ones.

Sohn, Berthelot, Carlini, Zhang, Zhang, Raffel, Cubuk, Kurakin, Li, FixMatch, NeurIPS 2020, arXiv:2001.07685, equations
3 and 4. Here the strong distortion is that of `rows.INVARIANCES` instead of RandAugment, and there are four unlabelled
images to a labelled one instead of seven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from consilium.student.trainers.images.loop import AVERAGED, Descent, Material
from consilium.student.trainers.images.rows import Invariances

if TYPE_CHECKING:
    from torch import nn

_LABELLED = 32
_UNLABELLED = 128


class FixMatch:
    """See `loop.Method`."""

    def __init__(self, net: nn.Sequential, material: Material, change: Invariances, sure: float) -> None:
        self._net, self._material, self._change, self._sure = net, material, change, sure
        self._descent = Descent.of(net)
        self.decay = AVERAGED
        self.parts: dict[str, Any] = {"net": net, "optimiser": self._descent.optimiser}

    def update(self, done: float) -> None:
        """See `loop.Method.update`."""
        import torch
        from torch.nn import functional

        generator, weak = self._material.generator, self._change.weak
        images, labels = self._material.labelled_batch(_LABELLED)
        other = self._material.batch(_UNLABELLED)
        with torch.no_grad():
            top, guess = torch.softmax(self._net(weak(other, generator)), dim=1).max(dim=1)
        logits = self._net(torch.cat([weak(images, generator), self._change.strong(other, generator)]))
        supervised = functional.cross_entropy(logits[:_LABELLED], labels)
        each = functional.cross_entropy(logits[_LABELLED:], guess, reduction="none")
        self._descent.step(supervised + (each * (top >= self._sure)).mean(), done)
