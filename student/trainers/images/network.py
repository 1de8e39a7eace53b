"""The convolutional network that all students of images share, and the trained model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from consilium.student.trainers.images.rows import Pixels

if TYPE_CHECKING:
    from torch import Tensor, nn

HIDDEN = 128
THREADS = 2
"""For every student of images: the last bits of sums depend on it, and such networks gain little from more."""

_BLOCK = 500


def network(side: int, classes: int, channels: int) -> nn.Sequential:
    """Two layers of 5x5 filters and one dense, about those of the PATE papers; [0] gives its `HIDDEN` features.

    Input float32 (n, 1, side, side) from 0 to 1; output logits (n, classes). There is no batch normalisation: what a
    row gets does not depend on the rows beside it, and adversarial directions (`vat`) need no special care.
    """
    import torch
    from torch import nn

    net = nn.Sequential(
        nn.Sequential(
            nn.Conv2d(1, channels, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * channels * (side // 4) ** 2, HIDDEN),
            nn.ReLU(),
        ),
        nn.Linear(HIDDEN, classes),
    )
    return net.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]  # half the time on a CPU


@dataclass(frozen=True)
class ImageModel:
    """A trained network, as numpy arrays, so that it loads on any machine. It takes features as they travel."""

    pixels: Pixels
    classes: int
    channels: int
    weights: dict[str, np.ndarray] = field(repr=False)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Rows float (n, side * side) -> probabilities float64 (n, classes)."""
        import torch

        return torch.softmax(self._through(x, whole=True).double(), dim=1).numpy()

    def features(self, x: np.ndarray) -> np.ndarray:
        """Rows float (n, side * side) -> what the last layer is given, scaled to length 1, float32 (n, `HIDDEN`)."""
        from torch.nn import functional

        return functional.normalize(self._through(x, whole=False), dim=1).numpy()

    def _through(self, x: np.ndarray, whole: bool) -> Tensor:
        import torch

        with torch.random.fork_rng(devices=[]):  # its first weights are drawn, and thrown away
            net = network(self.pixels.side, self.classes, self.channels)
        net.load_state_dict({name: torch.from_numpy(value) for name, value in self.weights.items()})
        images = self.pixels.images(x)
        with torch.no_grad(), few_threads():
            return torch.cat([(net if whole else net[0])(part) for part in images.split(_BLOCK)])


@contextmanager
def few_threads() -> Iterator[None]:
    """`THREADS` for torch meanwhile; the number set before comes back."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        yield
    finally:
        torch.set_num_threads(before)
