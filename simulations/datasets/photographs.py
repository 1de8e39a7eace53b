"""What photographs of 32x32 pixels in colour have in common: names of their numbers, and the form of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset, Public

SIDE = 32
CHANNELS = 3
NUMBERS = SIDE * SIDE * CHANNELS
MOST_IMAGES = 1_000_000
"""In one file. The largest that was published has 531,131."""

COLOUR_PIXELS = tuple(
    f"pixel-{row:02d}-{column:02d}-{colour}"
    for row in range(SIDE)
    for column in range(SIDE)
    for colour in ("red", "green", "blue")
)


@dataclass(frozen=True)
class Photographs:
    """images: uint8 (n, 32, 32, 3), rows from the top. labels: int64 (n,)."""

    images: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)


def of_photographs(
    private: Sequence[Photographs],
    test: Photographs,
    asked: int,
    where: Path,
    *,
    name: str,
    title: str,
    attribution: str,
    classes: tuple[str, ...],
) -> Dataset:
    """The parties' images and the public ones as a data set without owners; values are from 0 to 1.

    asked: how many of the test images, from the first on, the student may ask about; the others are held out.

    Raises
    ------
    DataError : a label is no class, or the test part has too few images to be divided.
    """
    parts = [*private, test]
    if not 0 < asked < len(test.labels):
        raise DataError(f"{where}: {len(test.labels)} test images cannot be divided", "Two are needed at least")
    y = np.concatenate([part.labels for part in parts])
    if not 0 <= y.min() <= y.max() < len(classes):
        raise DataError(f"{where} has labels that are none of the {len(classes)} classes", "Get the files anew")
    x = np.empty((len(y), NUMBERS), dtype=np.float32)
    start = 0
    for part in parts:  # one after the other: all of SVHN is 8 GB as numbers
        rows = x[start : start + len(part.labels)]
        rows[:] = part.images.reshape(len(rows), NUMBERS)
        rows /= np.float32(255)
        start += len(rows)
    queries = start - len(test.labels)
    return Dataset(
        name=name,
        title=title,
        attribution=attribution,
        features=COLOUR_PIXELS,
        classes=classes,
        owner_label="party",
        x=x,
        y=y,
        owner=np.zeros(len(y), dtype=np.int64),
        public=Public(np.arange(queries, queries + asked), np.arange(queries + asked, len(y))),
    )


def beside(folder: Path, *names: str) -> Path:
    """The first of the folders with these names in `folder` that is there, or `folder` itself."""
    return next((folder / name for name in names if (folder / name).is_dir()), folder)
