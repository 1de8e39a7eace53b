"""CIFAR-10: what is on the photograph? 32x32 pixels in colour, ten kinds of things.

Krizhevsky, Learning multiple layers of features from tiny images, 2009. The 50,000 training images are the parties'; of
the 10,000 test images the first nine tenths are asked, the last are held out, as of MNIST. Two of the published forms
are read: the binary one (a byte for the label, then 1,024 each of red, green and blue), and the Python one, of pickles,
which are taken for data and never run (`plain_pickle`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.datasets.folder import data_file
from consilium.simulations.datasets.photographs import (
    CHANNELS,
    MOST_IMAGES,
    NUMBERS,
    SIDE,
    Photographs,
    beside,
    of_photographs,
)
from consilium.simulations.datasets.plain_pickle import KeptArray, read_plain

SOURCE = "https://www.cs.toronto.edu/~kriz/cifar.html (the binary version or the Python version, unpacked)"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BINARY, PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = "test_batch"


@cache
def load_cifar10(folder: Path) -> Dataset:
    """Rows of all six batches, in a folder with its published name in `folder`, or in `folder`; of both forms the
    binary one. Without owners (every row's owner is 0).

    Raises
    ------
    DataError : a file is not there, damaged, or holds anything else.
    """
    place = beside(folder, BINARY, PYTHON, "cifar10")
    python = any((place / name).is_file() for name in (*BATCHES, TEST))
    binary = (place / f"{TEST}.bin").is_file() or not python
    ending, read = (".bin", read_binary) if binary else ("", read_python)
    parts = [_part(place, f"{name}{ending}", read) for name in (*BATCHES, TEST)]
    return of_photographs(
        parts[:-1],
        parts[-1],
        len(parts[-1].labels) * 9 // 10,
        place,
        name="cifar10",
        title="CIFAR-10",
        attribution="Krizhevsky A. Learning multiple layers of features from tiny images. 2009.",
        classes=CLASSES,
    )


def _part(place: Path, name: str, read: Callable[[Path], Photographs]) -> Photographs:
    part = read(data_file(place, name, SOURCE))
    if not 0 < len(part.labels) <= MOST_IMAGES:
        raise DataError(f"{place / name} has {len(part.labels)} images, 1 to {MOST_IMAGES} are read", f"See {SOURCE}")
    if not 0 <= part.labels.min() <= part.labels.max() < len(CLASSES):
        raise DataError(f"{place / name} has labels other than 0 to {len(CLASSES) - 1}", f"Get it anew from {SOURCE}")
    return part


def read_binary(path: Path) -> Photographs:
    """Images and labels of one file of the binary version.

    Raises
    ------
    DataError : its size is not that of whole images.
    """
    try:
        size = path.stat().st_size
        if size % (1 + NUMBERS):
            raise DataError(
                f"{path} has {size:,} bytes, no multiple of the {1 + NUMBERS:,} of one image: cut off, or no batch",
                f"Get it anew from {SOURCE}",
            )
        rows = np.fromfile(path, dtype=np.uint8).reshape(-1, 1 + NUMBERS)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}", f"Get it anew from {SOURCE}") from None
    return Photographs(_pixels(rows[:, 1:]), rows[:, 0].astype(np.int64))


def read_python(path: Path) -> Photographs:
    """Images and labels of one file of the Python version: a pickled dict with `data` uint8 (n, 3072) and `labels`.

    Raises
    ------
    DataError : it is no such pickle; nothing of it is run.
    """
    held = read_plain(path, SOURCE)
    data, labels = _entry(held, "data"), _entry(held, "labels")
    try:
        rows = data.array() if isinstance(data, KeptArray) else None
    except ValueError as error:
        raise DataError(f"{path}: data is {error}", f"Get it anew from {SOURCE}") from None
    if rows is None or rows.ndim != 2 or rows.shape[1] != NUMBERS:
        form = "no array" if rows is None else f"uint8 {rows.shape}"
        raise DataError(f"{path}: data is {form}, not uint8 (n, {NUMBERS})", f"Get it anew from {SOURCE}")
    if not isinstance(labels, list) or len(labels) != len(rows) or not all(type(label) is int for label in labels):
        raise DataError(f"{path}: labels are no list of {len(rows)} whole numbers", f"Get it anew from {SOURCE}")
    if any(not 0 <= label < len(CLASSES) for label in labels):
        raise DataError(f"{path} has labels other than 0 to {len(CLASSES) - 1}", f"Get it anew from {SOURCE}")
    return Photographs(_pixels(rows), np.array(labels, dtype=np.int64))


def _entry(held: Any, name: str) -> Any:
    """Of a dict, whose keys Python 2 wrote as bytes; None where there is none."""
    return held.get(name.encode(), held.get(name)) if isinstance(held, dict) else None


def _pixels(rows: np.ndarray) -> np.ndarray:
    """uint8 (n, 3072), a plane for each colour -> (n, 32, 32, 3)."""
    return rows.reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)
