"""Street View House Numbers: which digit is in the middle? Photographs of 32x32 pixels in colour, cropped digits.

Netzer, Wang, Coates, Bissacco, Wu, Ng, Reading digits in natural images with unsupervised feature learning, NIPS
workshop 2011. Published as MATLAB 5 files: `X` uint8 (32, 32, 3, n) and `y` (n, 1), with 10 for the digit 0. The files
`train_32x32.mat` (73,257 images) and, where it is there, `extra_32x32.mat` (531,131, easier ones) are the parties'; of
the 26,032 test images the first 10,000 are asked and the others held out (Papernot et al. 2017, section 4.2).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.datasets.folder import data_file
from consilium.simulations.datasets.mat_file import read_mat_arrays
from consilium.simulations.datasets.photographs import (
    CHANNELS,
    MOST_IMAGES,
    NUMBERS,
    SIDE,
    Photographs,
    beside,
    of_photographs,
)

SOURCE = "http://ufldl.stanford.edu/housenumbers/ (format 2, cropped digits)"
TRAIN, TEST, EXTRA = "train_32x32.mat", "test_32x32.mat", "extra_32x32.mat"
ASKED, PUBLISHED = 10_000, 26_032
"""Of the published test images; of a smaller file the same share."""


@cache
def load_svhn(folder: Path) -> Dataset:
    """Rows of all files in `folder`/svhn, or in `folder`; without owners (every row's owner is 0).

    Raises
    ------
    DataError : a file is not there, damaged, or holds anything else.
    """
    place = beside(folder, "svhn")
    private = [read_mat(data_file(place, TRAIN, SOURCE))]
    if (place / EXTRA).is_file():
        private.append(read_mat(place / EXTRA))
    test = read_mat(data_file(place, TEST, SOURCE))
    return of_photographs(
        private,
        test,
        len(test.labels) * ASKED // PUBLISHED,
        place,
        name="svhn",
        title="Street View House Numbers",
        attribution="Netzer Y et al. Reading digits in natural images with unsupervised feature learning. NIPS workshop"
        " 2011. For non-commercial use.",
        classes=tuple(str(digit) for digit in range(10)),
    )


def read_mat(path: Path) -> Photographs:
    """The images and digits of one file.

    Raises
    ------
    DataError : it is no MATLAB 5 file of these two arrays, or damaged, or a label is not 1 to 10.
    """
    arrays = read_mat_arrays(path, {"X": MOST_IMAGES * NUMBERS, "y": MOST_IMAGES}, SOURCE)
    x, y = arrays["X"], arrays["y"]
    if x.dtype != np.uint8 or y.shape != (y.size, 1) or x.shape != (SIDE, SIDE, CHANNELS, y.size) or not y.size:
        what = f"{path}: X is {x.dtype} {x.shape} and y {y.shape}, not uint8 (32, 32, 3, n) and (n, 1)"
        raise DataError(what, f"Get it anew from {SOURCE}")
    if not np.isin(y, np.arange(1, 11)).all():
        raise DataError(f"{path} has labels other than 1 to 10 (which is the digit 0)", f"Get it anew from {SOURCE}")
    return Photographs(x.transpose(3, 0, 1, 2), y.reshape(-1).astype(np.int64) % 10)
