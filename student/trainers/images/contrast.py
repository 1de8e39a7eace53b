"""What images show, learned without a label: two views of one image are alike, those of different images are not.

Chen, Kornblith, Norouzi, Hinton, A simple framework for contrastive learning of visual representations, ICML 2020,
arXiv:2002.05709, equation 1. The second view is of one of the nearest images instead of the same one (Dwibedi, Aytar,
Tompson, Sermanet, Zisserman, With a little help from my friends, ICCV 2021, arXiv:2104.14548, there nearest in the
network's own eyes): of the pool that is public, so it costs no privacy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from consilium.student.trainers.images.loop import Descent, Material
from consilium.student.trainers.images.network import HIDDEN
from consilium.student.trainers.images.rows import Distortion

if TYPE_CHECKING:
    from torch import nn

_BATCH = 128
_PLACES = 64
_TEMPERATURE = 0.2


class Contrast:
    """See `loop.Method`. `near` int64 (m, k): for each image of the pool, those whose views are like its own."""

    def __init__(self, net: nn.Sequential, material: Material, change: Distortion, near: np.ndarray) -> None:
        import torch
        from torch import nn

        self._material, self._change, self._seen = material, change, net[0]
        self._near = torch.from_numpy(near).to(material.every.device)
        head = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, _PLACES))
        self._head = head.to(material.every.device)
        self._descent = Descent.of(self._seen, self._head, cycle=True)
        self.decay = 0.0
        self.parts: dict[str, Any] = {"net": net, "head": self._head, "optimiser": self._descent.optimiser}

    def update(self, done: float) -> None:
        """See `loop.Method.update`."""
        import torch
        from torch.nn import functional

        generator, device = self._material.generator, self._near.device
        count, neighbours = self._near.shape
        one = torch.randint(count, (_BATCH,), generator=generator).to(device)
        other = self._near[one, torch.randint(neighbours, (_BATCH,), generator=generator).to(device)]
        images = self._change(self._material.every[torch.cat([one, other])], generator)
        places = functional.normalize(self._head(self._seen(images)), dim=1)
        likeness = (places @ places.T / _TEMPERATURE).fill_diagonal_(-torch.inf)
        twin = torch.arange(2 * _BATCH, device=device).roll(_BATCH)
        self._descent.step(functional.cross_entropy(likeness, twin), done)
