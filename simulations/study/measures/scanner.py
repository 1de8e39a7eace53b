"""Another scanner at some owners of images: contrast, sharpness and noise, apart from what the images show.

Of each image four numbers: mean intensity, contrast (logarithm of the deviation of its pixels), sharpness (of the
energy of the Laplacian per variance) and grain (the Laplacian where the image is quietest, per deviation). The last two
do not change with contrast. A blur takes fine detail and little variance: sharpness falls. Noise is seen where
an image is quiet (Immerkaer 1996): grain rises. Another contrast moves the deviation alone. Owners are held against
each other within a class, as what a class looks like is not the scanner's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, get_args

import numpy as np
from scipy.special import ndtr

from consilium.protocol.errors import DataError
from consilium.protocol.images import image_shape
from consilium.simulations.population.specs import ScannerKind
from consilium.simulations.study.measures.between import OwnerRows, ShiftPart, between_owners, centred, shift_part
from consilium.simulations.study.measures.recorded import usual_deviation

SCANNER_KINDS: tuple[ScannerKind, ...] = get_args(ScannerKind)
TRAITS = ("intensity", "contrast", "sharpness", "grain")
LEAST_SIDE = 8
_STEP, _USUAL, _P = 0.2, 4.0, 0.01
"""Least change of a trait, a fifth; in deviations of how owners differ anyway; and p, over all owners and traits."""
_QUIET, _FLAT = 0.2, 0.02
"""Share of an image's pixels that are its quietest; grain, in deviations of the image, below which none is seen."""


def image_traits(x: np.ndarray) -> np.ndarray:
    """`TRAITS` float64 (rows, 4) of rows of square images, float64 (rows, pixels).

    Raises
    ------
    DataError : they are none.
    """
    shape = image_shape(x.shape[1], LEAST_SIDE)
    if shape is None:
        raise DataError(f"rows of {x.shape[1]} columns are no square images", "Leave images out")
    planes = shape.planes(x).astype(np.float64)
    flat = planes.reshape(*planes.shape[:2], -1)
    wide = np.pad(planes, [(0, 0), (0, 0), (1, 1), (1, 1)], mode="edge")
    around = wide[..., :-2, 1:-1] + wide[..., 2:, 1:-1] + wide[..., 1:-1, :-2] + wide[..., 1:-1, 2:]
    detail = np.abs(around - 4 * planes).reshape(len(x), -1)
    variance = np.maximum(flat.var(axis=2).mean(axis=1), 1e-6 * float(x.var()) + 1e-300)
    fine = np.maximum((detail**2).mean(axis=1), 1e-6 * variance)
    grain = np.partition(detail, int(_QUIET * detail.shape[1]), axis=1)[:, int(_QUIET * detail.shape[1])]
    return np.column_stack(
        [
            flat.mean(axis=(1, 2)),
            np.log(variance) / 2,
            np.log(fine / variance) / 2,
            np.log(_FLAT + grain / np.sqrt(variance)),
        ]
    )


class ScannerOwners(NamedTuple):
    """part: what is said; owners: bool (owners,), whose images are another scanner's."""

    part: ShiftPart
    owners: np.ndarray


def scanner_part(rows: OwnerRows, traits: np.ndarray, generator: np.random.Generator) -> ScannerOwners:
    """traits: float64 (n, 4), of the rows as they are looked at."""
    within = centred(traits, rows.y)
    between = between_owners(rows, within, rows.y, generator)
    kinds = _kinds(rows, traits)
    flagged = kinds >= 0
    counts = {kind: float((kinds == place).sum()) for place, kind in enumerate(SCANNER_KINDS)}
    part = shift_part("scanner", rows, between, between.p if flagged.any() else 1.0, generator, (), **counts)
    where = tuple(f"{SCANNER_KINDS[kinds[owner]]} at {rows.names[owner]}" for owner in np.flatnonzero(flagged))
    return ScannerOwners(replace(part, where=where[:3]), flagged)


def _kinds(rows: OwnerRows, traits: np.ndarray) -> np.ndarray:
    """Of each owner the place in `SCANNER_KINDS`, -1 of those whose images are as others'; int64 (owners,)."""
    kinds = np.full(len(rows.sizes), -1)
    contrast, sharpness, grain = (_steps(rows, traits[:, place]) for place in (1, 2, 3))
    kinds[contrast.far] = SCANNER_KINDS.index("contrast")
    kinds[grain.far & (grain.step > 0)] = SCANNER_KINDS.index("noise")
    kinds[sharpness.far & (sharpness.step < 0)] = SCANNER_KINDS.index("blur")  # it runs into what was quiet, too
    return kinds


class _Steps(NamedTuple):
    """step: float64 (owners,), from the median of all owners; far: bool (owners,)."""

    step: np.ndarray
    far: np.ndarray


def _steps(rows: OwnerRows, values: np.ndarray) -> _Steps:
    """Of values float64 (n,), given the label. A label's mean is the median of its owners' means, so that no few of
    these move it."""
    off = values.copy()
    for label in range(len(rows.classes)):
        mine = rows.y == label
        counts = np.bincount(rows.owner[mine], minlength=len(rows.sizes))
        sums = np.bincount(rows.owner[mine], weights=values[mine], minlength=len(rows.sizes))
        off[mine] -= float(np.median(sums[counts > 0] / counts[counts > 0]))
    step = rows.sums(off) / rows.sizes
    step -= np.median(step)
    inside = off - step[rows.owner]
    error = np.sqrt(float((inside**2).sum()) / max(len(inside) - len(rows.sizes), 1) / rows.sizes)
    p = np.minimum(1.0, 2 * ndtr(-np.abs(step) / np.maximum(error, 1e-12)) * 3 * len(rows.sizes))
    return _Steps(step, (np.abs(step) > max(_STEP, _USUAL * usual_deviation(step))) & (p < _P))
