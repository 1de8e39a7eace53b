"""Wavelet scattering of 28x28 images: a fixed transform that learns nothing, so it costs no privacy.

Two layers of Morlet wavelets at scales 1 and 2 (J = 2) and 8 angles, moduli, and a Gaussian mean over about 4x4 pixels:

    S0 = phi * x,  S1 = phi * |psi_a * x|,  S2 = phi * ||psi_a * x| * psi_b|   with b coarser than a.

Mallat, Group invariant scattering, CPAM 2012; Bruna and Mallat, Invariant scattering convolution networks, PAMI 2013
(section 2, and the filters of its software); Oyallon et al., Scattering networks for hybrid representation learning,
PAMI 2018, put a learned model on top, as the teachers and the student do here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from scipy import fft

SIDE = 28
PIXELS = SIDE * SIDE
ANGLES = 8
CHANNELS = 1 + 2 * ANGLES + ANGLES * ANGLES
POSITIONS = 7
FEATURES = CHANNELS * POSITIONS * POSITIONS
"""3,969: channel, then row, then column of the 7x7 grid."""

_PADDED = 32
_MARGIN = (_PADDED - SIDE) // 2
_HALF = _PADDED // 2
_STRIDE = SIDE // POSITIONS
_SIGMA_LOW = 1.6
_BLOCK = 32
"""Images at a time: the intermediate arrays of a block fit into a core's cache, and memory does not grow."""


@dataclass(frozen=True)
class _Filters:
    """fine: float32 (angles, 32, 32), Fourier transforms of the wavelets of scale 1, which are real.

    coarse: float32 (4, angles, 16, 16), those of scale 2 in four corners (`_corners`), a quarter of each.
    low, low_half: float32 (7, 32) and (7, 16), Gaussian means along one axis of the full and the halved grid.
    """

    fine: np.ndarray = field(repr=False)
    coarse: np.ndarray = field(repr=False)
    low: np.ndarray = field(repr=False)
    low_half: np.ndarray = field(repr=False)


def scatter(images: np.ndarray) -> np.ndarray:
    """Scattering coefficients of images (n, 784), rows from the top -> float32 (n, 3969); not negative for such images.

    Each image is transformed by itself. The image is padded with zeros to 32x32, which is then periodic.
    """
    filters = _filters()
    out = np.empty((len(images), CHANNELS, POSITIONS, POSITIONS), dtype=np.float32)
    for start in range(0, len(images), _BLOCK):
        block = images[start : start + _BLOCK]
        padded = np.zeros((len(block), _PADDED, _PADDED), dtype=np.float32)
        inside = slice(_MARGIN, _MARGIN + SIDE)
        padded[:, inside, inside] = block.reshape(-1, SIDE, SIDE)
        _scatter_block(padded, filters, out[start : start + _BLOCK])
    return out.reshape(len(images), FEATURES)


def hellinger(coefficients: np.ndarray) -> np.ndarray:
    """Square roots, scaled to length 1 -> float32 (n, features): distances are then Hellinger distances.

    It keeps the few strong coefficients from drowning the others (as root-SIFT does, Arandjelovic and Zisserman 2012).
    A row of zeros stays one.
    """
    roots = np.sqrt(np.abs(coefficients))
    lengths = np.linalg.norm(roots, axis=1, keepdims=True)
    return roots / np.maximum(lengths, np.finfo(np.float32).tiny)


def _scatter_block(padded: np.ndarray, filters: _Filters, out: np.ndarray) -> None:
    """Fill `out` (n, 81, 7, 7) from images (n, 32, 32)."""
    low, half = filters.low, filters.low_half
    out[:, 0] = low @ padded @ low.T
    spectrum = _forward(padded)
    fine = np.abs(_inverse(spectrum[:, None] * filters.fine))
    out[:, 1 : 1 + ANGLES] = low @ fine @ low.T
    out[:, 1 + ANGLES : 1 + 2 * ANGLES] = half @ _coarse(spectrum, filters) @ half.T
    for angle in range(ANGLES):
        start = 1 + 2 * ANGLES + ANGLES * angle
        out[:, start : start + ANGLES] = half @ _coarse(_forward(fine[:, angle]), filters) @ half.T


def _coarse(spectrum: np.ndarray, filters: _Filters) -> np.ndarray:
    """Modulus of the coarse wavelets on every other pixel: spectra (n, 32, 32) -> float32 (n, angles, 16, 16)."""
    corners = _corners(spectrum)
    folded = corners[0][:, None] * filters.coarse[0]
    for corner, wavelets in zip(corners[1:], filters.coarse[1:], strict=True):
        folded += corner[:, None] * wavelets
    return np.abs(_inverse(folded))


def _corners(spectra: np.ndarray) -> list[np.ndarray]:
    """The four quarters (n, 16, 16) of spectra (n, 32, 32); their mean is the spectrum on every other pixel."""
    halves = slice(None, _HALF), slice(_HALF, None)
    return [spectra[:, rows, columns] for rows in halves for columns in halves]


def _forward(images: np.ndarray) -> np.ndarray:
    return np.asarray(fft.fft2(images))


def _inverse(spectra: np.ndarray) -> np.ndarray:
    return np.asarray(fft.ifft2(spectra))


@cache
def _filters() -> _Filters:
    coarse = np.stack(_corners(_wavelets(1))) / np.float32(4)
    return _Filters(_wavelets(0), coarse, _gaussian_means(_PADDED, 1), _gaussian_means(_HALF, 2))


def _wavelets(scale: int) -> np.ndarray:
    """Fourier transforms of Morlet wavelets (angles, 32, 32): sigma 0.8 2^scale, frequency 3/4 pi / 2^scale, mean 0."""
    sigma, frequency, slant = 0.8 * 2**scale, 0.75 * np.pi / 2**scale, 4 / ANGLES
    spectra = []
    for angle in np.arange(ANGLES) * np.pi / ANGLES:
        wave, envelope = (_gabor(sigma, angle, value, slant) for value in (frequency, 0.0))
        spectra.append(np.fft.fft2(wave - wave.sum() / envelope.sum() * envelope).real)
    return np.stack(spectra).astype(np.float32)


def _gabor(sigma: float, angle: float, frequency: float, slant: float) -> np.ndarray:
    """A Gabor wave on the periodic 32x32 grid, complex; its envelope is longer across the wave by 1/slant."""
    axis = np.arange(-2 * _PADDED, 3 * _PADDED)
    y, x = np.meshgrid(axis, axis, indexing="ij")
    along, across = y * np.cos(angle) + x * np.sin(angle), x * np.cos(angle) - y * np.sin(angle)
    wave = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2) + 1j * frequency * along)
    folded = wave.reshape(5, _PADDED, 5, _PADDED).sum(axis=(0, 2))
    return folded * slant / (2 * np.pi * sigma**2)


def _gaussian_means(points: int, step: int) -> np.ndarray:
    """Weights (7, points) of a Gaussian around 7 centres 4 pixels apart, on each `step`-th pixel of the padded grid."""
    centres = _MARGIN + (_STRIDE - 1) / 2 + _STRIDE * np.arange(POSITIONS)
    distance = np.arange(points) * step - centres[:, None]
    distance = (distance + _PADDED / 2) % _PADDED - _PADDED / 2
    weights = np.exp(-(distance**2) / (2 * _SIGMA_LOW**2))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
