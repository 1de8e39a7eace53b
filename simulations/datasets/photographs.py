"""Photographs of 32x32 pixels in colour in a folder: Street View House Numbers, and its file format."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import cast

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.datasets.folder import data_file

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


MOST_MAT_BYTES = 2**31
"""Of a MATLAB file: more than the largest of SVHN has, 1.3 GB."""
_MAT_READER = """
import json, math, resource, sys
import numpy as np
import scipy.io
path, most = sys.argv[1], json.loads(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
try:
    shapes = [(name, shape) for name, shape, _ in scipy.io.whosmat(path) if name in most]
    if absent := sorted(set(most) - {name for name, _ in shapes}):
        raise ValueError(f"there is no array {absent[0]}")
    for name, shape in shapes:
        if math.prod(shape) > most[name]:
            raise ValueError(f"array {name} has {math.prod(shape):,} numbers, the limit is {most[name]:,}")
    arrays = scipy.io.loadmat(path, variable_names=list(most))
    arrays = [np.asfortranarray(arrays[name]) for name in most]
    if odd := [name for name, array in zip(most, arrays) if array.dtype.kind not in "uif"]:
        raise ValueError(f"there is no array {odd[0]} of real numbers")
except Exception as error:
    print(json.dumps({"error": " ".join(f"{error or type(error).__name__}".split())[:200]}))
    sys.exit()
print(json.dumps({"arrays": [[array.dtype.str, array.shape] for array in arrays]}), flush=True)
for array in arrays:
    sys.stdout.buffer.write(array.T.data.cast("B") if array.size else b"")
"""
"""Run by a process of its own: scipy (1.17.1) crashes on some damaged files, three altered bytes were enough."""


def read_mat_arrays(path: Path, most: Mapping[str, int], source: str) -> dict[str, np.ndarray]:
    """The numeric arrays of these names out of a MATLAB file, in the shape and the type in which they are stored.

    most: how many numbers an array of each name may have; more are not unpacked. source: where to get the file.

    Raises
    ------
    DataError : it is no such file, damaged, has no array of such a name, or one that is too large.
    """
    try:
        if path.stat().st_size > MOST_MAT_BYTES:
            raise ValueError(f"more than {MOST_MAT_BYTES:,} bytes")
        command = [sys.executable, "-I", "-c", _MAT_READER, str(path), json.dumps(dict(most))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader:
            out = cast("io.BufferedReader", reader.stdout)
            head = json.loads(out.readline() or b'{"error": "it is damaged"}')
            if "error" in head:
                raise ValueError(head["error"])
            arrays = {}
            for name, (kind, shape) in zip(most, head["arrays"], strict=True):
                array = np.empty(shape[::-1], dtype=np.dtype(kind))
                if array.nbytes and out.readinto(array.data.cast("B")) != array.nbytes:
                    raise ValueError("it is damaged")
                arrays[name] = array.T
            return arrays
    except (OSError, ValueError, MemoryError) as error:
        reason = f"cannot read {path}: {error or type(error).__name__}"
        raise DataError(reason, f"Get it anew from {source}") from None


SOURCE = "http://ufldl.stanford.edu/housenumbers/ (format 2, cropped digits)"
TRAIN, TEST, EXTRA = "train_32x32.mat", "test_32x32.mat", "extra_32x32.mat"
ASKED, PUBLISHED = 10_000, 26_032
"""Of the published test images; of a smaller file the same share."""


@cache
def load_svhn(folder: Path) -> Dataset:
    """Street View House Numbers: which digit is in the middle? Photographs of 32x32 pixels in colour, cropped digits.

    Netzer, Wang, Coates, Bissacco, Wu, Ng, Reading digits in natural images with unsupervised feature learning, NIPS
    workshop 2011. Published as MATLAB 5 files: `X` uint8 (32, 32, 3, n) and `y` (n, 1), with 10 for the digit 0. The
    files `train_32x32.mat` (73,257 images) and, where it is there, `extra_32x32.mat` (531,131, easier ones) are the
    parties'; of the 26,032 test images the first 10,000 are asked and the others held out (Papernot et al. 2017,
    section 4.2).

    Rows of all files in `folder`/svhn, or in `folder`; without owners (every row's owner is 0).

    Raises
    ------
    DataError : a file is not there, damaged, or holds anything else.
    """
    place = folder / "svhn" if (folder / "svhn").is_dir() else folder
    private = [read_mat(data_file(place, TRAIN, SOURCE))]
    if (place / EXTRA).is_file():
        private.append(read_mat(place / EXTRA))
    test = read_mat(data_file(place, TEST, SOURCE))
    asked = len(test.labels) * ASKED // PUBLISHED
    parts = [*private, test]
    if not 0 < asked < len(test.labels):
        raise DataError(f"{place}: {len(test.labels)} test images cannot be divided", "Two are needed at least")
    y = np.concatenate([part.labels for part in parts])
    x = np.empty((len(y), NUMBERS), dtype=np.float32)
    start = 0
    for part in parts:  # one after the other: all of SVHN is 8 GB as numbers
        rows = x[start : start + len(part.labels)]
        rows[:] = part.images.reshape(len(rows), NUMBERS)
        rows /= np.float32(255)
        start += len(rows)
    queries = start - len(test.labels)
    return Dataset(
        name="svhn",
        title="Street View House Numbers",
        attribution="Netzer Y et al. Reading digits in natural images with unsupervised feature learning. NIPS workshop"
        " 2011. For non-commercial use.",
        features=COLOUR_PIXELS,
        classes=tuple(map(str, range(10))),
        owner_label="party",
        x=x,
        y=y,
        owner=np.zeros(len(y), dtype=np.int64),
        public=Public(np.arange(queries, queries + asked), np.arange(queries + asked, len(y))),
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
        form = f"{path}: X is {x.dtype} {x.shape} and y {y.shape}, not uint8 (32, 32, 3, n) and (n, 1)"
        raise DataError(form, f"Get it anew from {SOURCE}")
    if not np.isin(y, np.arange(1, 11)).all():
        raise DataError(f"{path} has labels other than 1 to 10 (which is the digit 0)", f"Get it anew from {SOURCE}")
    return Photographs(x.transpose(3, 0, 1, 2), y.reshape(-1).astype(np.int64) % 10)
