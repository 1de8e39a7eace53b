"""Grey images of 28x28 pixels in a folder: MNIST, MNIST by writer, Fashion-MNIST, characters of fonts, PneumoniaMNIST.

The idx format is that of http://yann.lecun.com/exdb/mnist (LeCun, Cortes, Burges). The writers are those of QMNIST
(Yadav, Bottou 2019), in the row order of MNIST: 539 wrote the training images, 297 others the test images.
"""

from __future__ import annotations

import gzip
import math
import unicodedata
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.datasets.folder import data_file, read_arrays

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


GLYPHS_FILE = "glyphs.npz"
GLYPHS_SOURCE = "a drawing of your own: x uint8 (n, 28, 28), y and family (n,), and the names chars and families"


@cache
def load_glyphs(folder: Path) -> Dataset:
    """Characters of free fonts, by font family: in place of the private Glyph data of Papernot et al. 2018.

    152,826 grey images of 28x28 pixels, each a character of one of 1,044 faces, drawn with the face's own capital
    height; 150 kinds of characters, as many classes as Glyph has, and 305 families, which Glyph has no counterpart of.
    Some kinds are nearly the same by nature: 0 and O, l and I, - and _. Glyph's unbalanced classes and wrong labels are
    not in the file: `data.unbalanced` and `data.shift.wrong` make them.

    All rows, with the font family as owner; no public part of its own, so whole families are held out.

    Raises
    ------
    DataError : the file is not there, or its arrays do not fit each other.
    """
    path = data_file(folder, GLYPHS_FILE, GLYPHS_SOURCE)
    arrays = read_arrays(path, GLYPHS_SOURCE)
    if missing := [name for name in ("x", "y", "family", "chars", "families") if name not in arrays]:
        raise DataError(f"{path} has no array {missing[0]}", f"Get it from {GLYPHS_SOURCE}")
    x, y, family = arrays["x"], arrays["y"], arrays["family"]
    if x.dtype != np.uint8 or x.shape != (len(y), SIDE, SIDE) or not len(y):
        raise DataError(f"{path}: x is {x.dtype} {x.shape} for {len(y)} labels", f"Get it from {GLYPHS_SOURCE}")
    classes, families = tuple(map(class_name, arrays["chars"])), tuple(map(str, arrays["families"]))
    for name, codes, words in (("y", y, classes), ("family", family, families)):
        if codes.dtype.kind not in "iu" or codes.shape != (len(y),):
            raise DataError(f"{path}: {name} is {codes.dtype} {codes.shape}", f"Get it from {GLYPHS_SOURCE}")
        if not 0 <= codes.min() <= codes.max() < len(words):
            raise DataError(f"{path}: {name} has a code above its {len(words)} names", f"Get it from {GLYPHS_SOURCE}")
    return Dataset(
        name="glyphs",
        title="Characters of fonts",
        attribution="Drawn from free fonts; each keeps its own licence.",
        features=PIXELS,
        classes=classes,
        owner_label="family",
        x=x.reshape(len(x), -1).astype(np.float32) / np.float32(255),
        y=y.astype(np.int64),
        owner=family.astype(np.int64),
        owner_names=families,
    )


def class_name(character: str) -> str:
    """What a character is called: a letter or a digit by itself, any other by its name, since a spreadsheet would take
    some of them for a formula.

    >>> class_name("A"), class_name("é"), class_name("="), class_name("-")
    ('A', 'é', 'equals sign', 'hyphen-minus')
    """
    return character if character.isalnum() else unicodedata.name(character, f"character {character!r}").lower()


PNEUMONIA_FILES = ("pneumoniamnist.npz", "pneumoniamnist_rebuilt.npz")
PNEUMONIA_SOURCE = "https://zenodo.org/records/10519652 (pneumoniamnist.npz)"
PNEUMONIA_PARTS = ("train", "val", "test")


@cache
def load_pneumonia(folder: Path) -> Dataset:
    """PneumoniaMNIST: has a child pneumonia, by its chest X-ray of 28x28 pixels?

    Kermany et al., Cell 2018; Yang et al., MedMNIST v2, Scientific Data 2023. The 4,708 images of the training part are
    the parties'; the student asks about the 524 of the validation part, and the 624 of the test part are held out. The
    test part was collected apart from the others: models do worse there. The files do not say which images are of one
    child.

    Rows of all three parts; without owners (every row's owner is 0).
    """
    there = [name for name in PNEUMONIA_FILES if (folder / name).is_file()]
    path = data_file(folder, there[0] if there else PNEUMONIA_FILES[0], PNEUMONIA_SOURCE)
    arrays = read_arrays(path, PNEUMONIA_SOURCE)
    images, labels = [], []
    for part in PNEUMONIA_PARTS:
        x, y = arrays.get(f"{part}_images"), arrays.get(f"{part}_labels")
        if x is None or y is None or x.shape != (y.size, SIDE, SIDE) or x.dtype != np.uint8 or y.size == 0:
            raise DataError(
                f"{path}: the {part} part is not 28x28 images with labels", f"Get it anew from {PNEUMONIA_SOURCE}"
            )
        images.append(x.reshape(len(x), -1).astype(np.float32) / np.float32(255))
        labels.append(y.reshape(-1).astype(np.int64))
    y = np.concatenate(labels)
    if not np.isin(y, (0, 1)).all():
        raise DataError(f"{path} has labels other than 0 and 1", f"Get it anew from {PNEUMONIA_SOURCE}")
    queries, test = len(labels[0]), len(labels[0]) + len(labels[1])
    return Dataset(
        name="pneumonia",
        title="PneumoniaMNIST",
        attribution="Yang J et al. MedMNIST v2. Scientific Data 2023; Kermany DS et al. Cell 2018. CC BY 4.0.",
        features=PIXELS,
        classes=("normal", "pneumonia"),
        owner_label="party",
        x=np.concatenate(images),
        y=y,
        owner=np.zeros(len(y), dtype=np.int64),
        public=Public(np.arange(queries, test), np.arange(test, len(y))),
    )
