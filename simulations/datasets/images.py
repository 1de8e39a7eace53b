"""MNIST, MNIST by writer, and Fashion-MNIST: 28x28 grey images with a test part of their own.

The idx format is that of http://yann.lecun.com/exdb/mnist (LeCun, Cortes, Burges). The writers are those of QMNIST
(Yadav, Bottou 2019), in the row order of MNIST: 539 wrote the training images, 297 others the test images.
"""

from __future__ import annotations

import gzip
import math
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.datasets.folder import data_file

SIDE = 28
QUERIES = 9_000
"""Of the 10,000 test images the first 9,000 are asked and 1,000 are held out (Papernot et al. 2017, section 4)."""
PIXELS = tuple(f"pixel-{row:02d}-{column:02d}" for row in range(SIDE) for column in range(SIDE))
MNIST_SOURCE = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FASHION_SOURCE = "https://github.com/zalandoresearch/fashion-mnist"
WRITERS_SOURCE = "the QMNIST labels (https://github.com/facebookresearch/qmnist), as arrays train_writer, test_writer"
CLOTHES = (
    "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


@cache
def load_mnist(folder: Path) -> Dataset:
    """60,000 rows for the parties, 10,000 public ones; without owners (every row's owner is 0)."""
    return _images(
        folder / "mnist",
        MNIST_SOURCE,
        name="mnist",
        title="MNIST",
        attribution="LeCun Y, Cortes C, Burges C. The MNIST database of handwritten digits.",
        classes=tuple(str(digit) for digit in range(10)),
    )


@cache
def load_mnist_writers(folder: Path) -> Dataset:
    """MNIST with the writer of each image as its owner; no writer is among both the parties and the public rows."""
    plain = load_mnist(folder)
    path = data_file(folder, "mnist_writers.npz", WRITERS_SOURCE)
    try:
        with np.load(path, allow_pickle=False) as file:
            owner = np.concatenate([file["train_writer"], file["test_writer"]]).astype(np.int64)
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is damaged: {error}", f"Get it anew from {WRITERS_SOURCE}") from None
    if len(owner) != len(plain.y):
        raise DataError(f"{path} has {len(owner)} writers for {len(plain.y)} images", "Get the files anew")
    return replace(
        plain,
        name="mnist-writers",
        title="MNIST by writer",
        attribution=f"{plain.attribution} Writers: Yadav C, Bottou L. Cold case: the lost MNIST digits. NeurIPS 2019.",
        owner_label="writer",
        owner=owner,
    )


@cache
def load_fashion(folder: Path) -> Dataset:
    """Fashion-MNIST, in the same form as MNIST."""
    return _images(
        folder / "fashion_mnist",
        FASHION_SOURCE,
        name="fashion",
        title="Fashion-MNIST",
        attribution="Xiao H, Rasul K, Vollgraf R. Fashion-MNIST. arXiv 1708.07747, 2017. MIT licence.",
        classes=CLOTHES,
    )


def _images(folder: Path, source: str, *, name: str, title: str, attribution: str, classes: tuple[str, ...]) -> Dataset:
    x: list[np.ndarray] = []
    y: list[np.ndarray] = []
    for part in ("train", "t10k"):
        images = read_idx(data_file(folder, f"{part}-images-idx3-ubyte.gz", source))
        labels = read_idx(data_file(folder, f"{part}-labels-idx1-ubyte.gz", source))
        if images.shape[1:] != (SIDE, SIDE) or labels.shape != images.shape[:1] or labels.max() >= len(classes):
            raise DataError(
                f"{folder}: the {part} files are not 28x28 images with {len(classes)} classes",
                f"Get them anew from {source}",
            )
        x.append(images.reshape(len(images), -1))
        y.append(labels)
    private, rows = len(x[0]), len(x[0]) + len(x[1])
    if len(x[1]) <= QUERIES:
        raise DataError(f"{folder}: {len(x[1])} test images, more than {QUERIES} are needed", f"Source: {source}")
    return Dataset(
        name=name,
        title=title,
        attribution=attribution,
        features=PIXELS,
        classes=classes,
        owner_label="party",
        x=np.concatenate(x).astype(np.float32) / np.float32(255),
        y=np.concatenate(y).astype(np.int64),
        owner=np.zeros(rows, dtype=np.int64),
        public=Public(np.arange(private, private + QUERIES), np.arange(private + QUERIES, rows)),
    )


def read_idx(path: Path) -> np.ndarray:
    """The array of a gzipped idx file of unsigned bytes; uint8 of the shape that its header states.

    Raises
    ------
    DataError : it is no such file, or cut off.
    """
    try:
        with gzip.open(path) as file:
            content = file.read()
        if content[:3] != b"\0\0\x08":
            raise ValueError("not an idx file of unsigned bytes")
        start = 4 + 4 * content[3]
        shape = tuple(int(size) for size in np.frombuffer(content[4:start], ">u4"))
        if len(shape) != content[3] or math.prod(shape) != len(content) - start:
            raise ValueError("cut off")
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
    except (OSError, ValueError, IndexError, EOFError) as error:
        raise DataError(f"cannot read {path}: {error}", "Get the file anew") from None
