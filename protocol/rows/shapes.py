"""Which square image a row of numbers is: its pixels line by line, grey or in colour.

A pixel of a colour image is three numbers beside each other: red, green, blue.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

LEAST_SIDE = 16
"""Two 5x5 convolutions without a margin, each followed by a 2x2 max-pool, leave one pixel of 16."""


class ImageShape(NamedTuple):
    """channels: 1 of a grey image, 3 of one in colour. side: in pixels."""

    channels: int
    side: int

    def planes(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, side * side * channels) -> the same numbers as (n, channels, side, side), contiguous."""
        if self.channels == 1:  # transposed, its strides would be those of another memory format to torch
            return rows.reshape(len(rows), 1, self.side, self.side)
        pixels = rows.reshape(len(rows), self.side, self.side, self.channels)
        return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))


def image_shape(inputs: int, least: int = LEAST_SIDE) -> ImageShape | None:
    """The square image that a row of `inputs` numbers is; None if it is none, or its side is below `least`.

    No number is both a square and three times one, so nobody has to say which it is.

    >>> image_shape(784), image_shape(3072), image_shape(785), image_shape(100)
    (ImageShape(channels=1, side=28), ImageShape(channels=3, side=32), None, None)
    """
    for channels in (1, 3):
        side = math.isqrt(inputs // channels)
        if channels * side * side == inputs and side >= least:
            return ImageShape(channels, side)
    return None
