"""Rows as square images, grey or in colour, and how images are changed without changing what they show. Simard,
Steinkraus, Platt, Best practices for convolutional neural networks, ICDAR 2003 (small affine and elastic distortions);
DeVries, Taylor, arXiv:1708.04552 (cutout). What may change depends on what the images show: a mirrored digit is another
sign, a mirrored shirt is a shirt, and a slanted digit is the same one (`INVARIANCES`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import pi
from typing import TYPE_CHECKING

import numpy as np

from consilium.protocol.errors import ConfigError
from consilium.protocol.images import ImageShape, image_shape

if TYPE_CHECKING:
    from torch import Generator, Tensor

_LEAST_SIDE = 8
_ELASTIC_GRID = 7


@dataclass(frozen=True)
class Pixels:
    """What turns rows into images: their `shape`, and the values `low` and `high` that become 0 and 1."""

    shape: ImageShape
    low: float
    high: float

    @classmethod
    def of(cls, rows: np.ndarray) -> Pixels:
        """The scale of public rows (n, numbers of an image). Raises ConfigError unless they are square images."""
        low, high = float(rows.min()), float(rows.max())
        return cls(shape_of(rows.shape[1]), low, high if high > low else low + 1)

    def scaled(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, numbers of an image) -> the same, float32, with 0 for `low` and 1 for `high`."""
        return (rows.astype(np.float32) - np.float32(self.low)) / np.float32(self.high - self.low)

    def images(self, rows: np.ndarray) -> Tensor:
        """Rows (n, numbers of an image), from the top -> float32 (n, channels, side, side)."""
        import torch

        return torch.from_numpy(self.shape.planes(self.scaled(rows)))


def shape_of(features: int) -> ImageShape:
    """The image that `features` values are. Raises ConfigError: it is no square, or too small a one."""
    shape = image_shape(features, _LEAST_SIDE)
    if shape is None:
        raise ConfigError(
            f"this student needs square images of at least {_LEAST_SIDE}x{_LEAST_SIDE} pixels, not {features} features",
            "Choose another student.trainer.name",
        )
    return shape


@dataclass(frozen=True)
class Distortion:
    """How far an image may be changed at most; each number is drawn evenly for each image. degrees: of rotation. shift,
    cutout: share of the side. scale, shear, light: relative. elastic: share of the side, standard deviation of a smooth
    field. mirror: left and right change places in half of the images."""

    degrees: float = 0.0
    shift: float = 0.0
    scale: float = 0.0
    shear: float = 0.0
    elastic: float = 0.0
    cutout: float = 0.0
    light: float = 0.0
    mirror: bool = False

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Float (n, channels, side, side) from 0, the background, to 1 -> the same shape and range. Random numbers come
        from the CPU `generator`, so that every device sees the same."""
        import torch
        from torch.nn import functional

        if self == Distortion():
            return images
        count, channels, side = images.shape[:3]

        def even(most: float) -> Tensor:
            return (2 * torch.rand(count, generator=generator) - 1) * most

        if self.mirror:
            turned = torch.rand(count, generator=generator).to(images.device) < 0.5
            images = torch.where(turned[:, None, None, None], images.flip(3), images)
        angle, shear = even(self.degrees * pi / 180), even(self.shear)
        wide, tall = 1 + even(self.scale), 1 + even(self.scale)
        cos, sin = torch.cos(angle), torch.sin(angle)
        right, down = even(2 * self.shift), even(2 * self.shift)  # the grid goes from -1 to 1
        rows = [wide * cos, shear - tall * sin, right, wide * sin, tall * cos, down]
        grid = functional.affine_grid(torch.stack(rows, dim=1).view(count, 2, 3), [count, channels, side, side], False)
        if self.elastic:
            coarse = torch.randn(count, 2, _ELASTIC_GRID, _ELASTIC_GRID, generator=generator) * (2 * self.elastic)
            along = _bicubic(side)
            grid = grid + (along @ coarse @ along.T).permute(0, 2, 3, 1)
        changed = functional.grid_sample(images, grid.to(images.device), align_corners=False)
        if self.cutout:
            axis = torch.arange(side) + 0.5
            near = [
                (axis - torch.rand(count, 1, generator=generator) * side).abs() < self.cutout * side / 2 for _ in "xy"
            ]
            hole = near[0][:, None, :, None] & near[1][:, None, None, :]
            changed = changed.masked_fill(hole.to(images.device), 0.0)
        if self.light:
            changed = (changed * (1 + even(self.light)).to(images.device)[:, None, None, None]).clamp(0, 1)
        return changed


@cache
def _bicubic(side: int) -> Tensor:
    """float32 (side, `_ELASTIC_GRID`): a coarse field's values to all pixels, along one axis. As products of matrices
    torch interpolates twenty times as fast."""
    import torch
    from torch.nn import functional

    single = torch.eye(_ELASTIC_GRID).view(1, _ELASTIC_GRID, _ELASTIC_GRID, 1)
    return functional.interpolate(single, size=(side, 1), mode="bicubic", align_corners=False)[
        0, :, :, 0
    ].T.contiguous()


@dataclass(frozen=True)
class Invariances:
    """What may change in images that show the same: `weak` is hardly seen, `strong` is about what people still read."""

    weak: Distortion
    strong: Distortion


DIGITS = Invariances(
    Distortion(degrees=5, shift=0.05, scale=0.05, shear=0.05),
    Distortion(degrees=15, shift=0.1, scale=0.15, shear=0.2, elastic=0.036, cutout=0.3),
)
OBJECTS = Invariances(
    Distortion(shift=0.04, mirror=True),
    Distortion(degrees=4, shift=0.07, scale=0.1, shear=0.04, cutout=0.3, light=0.2, mirror=True),
)
NONE = Invariances(Distortion(), Distortion())
INVARIANCES = {"digits": DIGITS, "objects": OBJECTS, "none": NONE}
"""By the value of a student's key `augment`."""
