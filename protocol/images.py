"""Rows that are images, and what models may see instead of their pixels: a fixed transform that learns nothing.

A row of an image has its pixels line by line, grey or in colour; a pixel of a colour image is three numbers beside each
other: red, green, blue. Which transform is part of the schema, so parties and student agree on it by the federation's
digest, and every node computes it for itself: it costs no privacy. Queries travel, and have their ids, as pixels.

Wavelet scattering has two layers of Morlet wavelets at scales 1 and 2 (J = 2) and 8 angles, moduli, and a Gaussian mean
over about 4x4 pixels:

    S0 = phi * x,  S1 = phi * |psi_a * x|,  S2 = phi * ||psi_a * x| * psi_b|   with b coarser than a.

Mallat, Group invariant scattering, CPAM 2012; Bruna and Mallat, Invariant scattering convolution networks, PAMI 2013
(section 2, and the filters of its software); Oyallon et al., Scattering networks for hybrid representation learning,
PAMI 2018, put a learned model on top, as the teachers and the student do here; they transform colours one by one, too.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Literal, NamedTuple

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


ANGLES = 8
CHANNELS = 1 + 2 * ANGLES + ANGLES * ANGLES
STRIDE = 4


class Grid(NamedTuple):
    """What is transformed: an image of `side` pixels, within `padded` of them, which are then periodic. beyond: what is
    around the image, numpy's name for it: background of a drawing, a photograph's own mirror image."""

    side: int
    padded: int
    beyond: Literal["constant", "symmetric"]

    @property
    def margin(self) -> int:
        """On each side."""
        return (self.padded - self.side) // 2

    @property
    def positions(self) -> int:
        """Means along each axis."""
        return self.side // STRIDE


GRIDS = {28: Grid(28, 32, "constant"), 32: Grid(32, 40, "symmetric")}
"""By the side of the image: drawings such as MNIST, and photographs such as SVHN and CIFAR-10."""
_SIGMA_LOW = 1.6
_BLOCK = 32
"""Images at a time: the intermediate arrays of a block fit into a core's cache, and memory does not grow."""
Representation = Literal["none", "scattering"]
"""none: the standardised features. scattering: of images of 28x28 or 32x32 pixels, grey or in colour, from 0 to 1."""


def width(representation: Representation, features: int) -> int:
    """Numbers that `represent` gives for a row of so many features. Raises ValueError if it does not take such rows.

    >>> width("none", 3), width("scattering", 28 * 28), width("scattering", 3 * 32 * 32)
    (3, 3969, 15552)
    """
    if representation == "none":
        return features
    shape, grid = _grid_of(features)
    return shape.channels * CHANNELS * grid.positions**2


def _grid_of(features: int) -> tuple[ImageShape, Grid]:
    shape = image_shape(features)
    if shape is None or shape.side not in GRIDS:
        raise ValueError(
            f"scattering is of images of 28x28 or 32x32 pixels, grey or in colour, not {features} features"
        )
    return shape, GRIDS[shape.side]


def represent(representation: Representation, rows: np.ndarray) -> np.ndarray:
    """Standardised rows (n, features) -> what teachers and students are trained on, (n, inputs). Of "none" the very
    rows; of "scattering" float32 (n, `width`), each row of length 1."""
    return rows if representation == "none" else hellinger(scatter(rows))


def hellinger(coefficients: np.ndarray) -> np.ndarray:
    """Square roots, scaled to length 1 -> float32 (n, features): distances are then Hellinger distances. It keeps the
    few strong coefficients from drowning the others (root-SIFT, Arandjelovic and Zisserman 2012). Zeros stay."""
    roots = np.sqrt(np.abs(coefficients))
    lengths = np.linalg.norm(roots, axis=1, keepdims=True)
    return roots / np.maximum(lengths, np.finfo(np.float32).tiny)


def scatter(images: np.ndarray) -> np.ndarray:
    """Scattering coefficients of images (n, pixels), rows from the top -> float32 (n, `width`), each image by
    itself; not negative for such images. Of one channel: of the transform, then row, then column of the positions; of a
    colour image red, then green, then blue. Raises as `width`."""
    shape, grid = _grid_of(images.shape[1])
    filters, around = _filters(grid), ((0, 0), (grid.margin, grid.margin), (grid.margin, grid.margin))
    planes = shape.planes(images).reshape(-1, grid.side, grid.side)
    out = np.empty((len(planes), CHANNELS, grid.positions, grid.positions), dtype=np.float32)
    for start in range(0, len(planes), _BLOCK):
        padded = np.pad(planes[start : start + _BLOCK].astype(np.float32), around, mode=grid.beyond)
        _scatter_block(padded, filters, out[start : start + _BLOCK])
    return out.reshape(len(images), width("scattering", images.shape[1]))


class _Filters(NamedTuple):
    """fine: float32 (angles, padded, padded), Fourier transforms of the wavelets of scale 1, which are real. coarse:
    float32 (4, angles, padded / 2, padded / 2), those of scale 2 in four corners (`_corners`), a quarter of each. low,
    low_half: float32 (positions, padded) and (positions, padded / 2), Gaussian means along one axis of either grid."""

    fine: np.ndarray
    coarse: np.ndarray
    low: np.ndarray
    low_half: np.ndarray


def _scatter_block(padded: np.ndarray, filters: _Filters, out: np.ndarray) -> None:
    """Fill `out` (n, 81, positions, positions) from images (n, padded, padded)."""
    low, half = filters.low, filters.low_half
    out[:, 0] = low @ padded @ low.T
    spectrum = np.fft.fft2(padded)
    fine = np.abs(np.fft.ifft2(spectrum[:, None] * filters.fine))
    out[:, 1 : 1 + ANGLES] = low @ fine @ low.T
    out[:, 1 + ANGLES : 1 + 2 * ANGLES] = half @ _coarse(spectrum, filters) @ half.T
    for angle in range(ANGLES):
        start = 1 + 2 * ANGLES + ANGLES * angle
        out[:, start : start + ANGLES] = half @ _coarse(np.fft.fft2(fine[:, angle]), filters) @ half.T


def _coarse(spectrum: np.ndarray, filters: _Filters) -> np.ndarray:
    """Modulus of the coarse wavelets on every other pixel: spectra (n, padded, padded) -> float32 (n, angles,
    padded / 2, padded / 2)."""
    corners = _corners(spectrum)
    folded = corners[0][:, None] * filters.coarse[0]
    for corner, wavelets in zip(corners[1:], filters.coarse[1:], strict=True):
        folded += corner[:, None] * wavelets
    return np.abs(np.fft.ifft2(folded))


def _corners(spectra: np.ndarray) -> list[np.ndarray]:
    """The four quarters of spectra (n, padded, padded); their mean is the spectrum on every other pixel."""
    half = spectra.shape[-1] // 2
    halves = slice(None, half), slice(half, None)
    return [spectra[:, rows, columns] for rows in halves for columns in halves]


@cache
def _filters(grid: Grid) -> _Filters:
    coarse = np.stack(_corners(_wavelets(1, grid.padded))) / np.float32(4)
    return _Filters(_wavelets(0, grid.padded), coarse, _gaussian_means(grid, 1), _gaussian_means(grid, 2))


def _wavelets(scale: int, padded: int) -> np.ndarray:
    """Transforms of Morlet wavelets (angles, padded, padded): sigma 0.8 2^scale, frequency .75 pi / 2^scale, mean 0."""
    sigma, frequency, slant = 0.8 * 2**scale, 0.75 * np.pi / 2**scale, 4 / ANGLES
    spectra = []
    for angle in np.arange(ANGLES) * np.pi / ANGLES:
        wave, envelope = (_gabor(sigma, angle, value, slant, padded) for value in (frequency, 0.0))
        spectra.append(np.fft.fft2(wave - wave.sum() / envelope.sum() * envelope).real)
    return np.stack(spectra).astype(np.float32)


def _gabor(sigma: float, angle: float, frequency: float, slant: float, padded: int) -> np.ndarray:
    """A Gabor wave on the periodic grid, complex; its envelope is longer across the wave by 1/slant."""
    axis = np.arange(-2 * padded, 3 * padded)
    y, x = np.meshgrid(axis, axis, indexing="ij")
    along, across = y * np.cos(angle) + x * np.sin(angle), x * np.cos(angle) - y * np.sin(angle)
    wave = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2) + 1j * frequency * along)
    folded = wave.reshape(5, padded, 5, padded).sum(axis=(0, 2))
    return folded * slant / (2 * np.pi * sigma**2)


def _gaussian_means(grid: Grid, step: int) -> np.ndarray:
    """Weights (positions, points) of a Gaussian around centres 4 pixels apart, on each `step`-th pixel of the grid."""
    centres = grid.margin + (STRIDE - 1) / 2 + STRIDE * np.arange(grid.positions)
    distance = np.arange(grid.padded // step) * step - centres[:, None]
    distance = (distance + grid.padded / 2) % grid.padded - grid.padded / 2
    weights = np.exp(-(distance**2) / (2 * _SIGMA_LOW**2))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
