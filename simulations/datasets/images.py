"""Images in a folder: MNIST, MNIST by writer, Fashion-MNIST, SVHN, characters of fonts, PneumoniaMNIST. And MNIST by
writer, embedded, as numbers that few labels suffice for: the data of the scenario `digits`.

An embedded digit is set upright, described by how steep it is in which direction where (histograms of oriented
gradients), and placed along the directions in which public digits differ most: only this looks at other rows, public
ones alone."""

from __future__ import annotations

import gzip
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from consilium.models.devices import one_thread
from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import (
    Dataset,
    Source,
    data_file,
    dataset_of,
    named,
    read_arrays,
    shipped_arrays,
)

GREY, RGB = ("",), ("-red", "-green", "-blue")  # what the names of a pixel's numbers end in
QUERIES = 9_000  # of MNIST's 10,000 test images the first 9,000 are asked
ASKED, PUBLISHED = 10_000, 26_032  # of SVHN's test images; of a smaller file the same share


def pixel_names(side: int, ends: Sequence[str] = GREY) -> tuple[str, ...]:
    """Of a square's numbers, line by line.

    >>> pixel_names(28)[29], pixel_names(32, RGB)[1]
    ('pixel-01-01', 'pixel-00-00-green')
    """
    width, places = len(str(side - 1)), range(side)
    return tuple(
        f"pixel-{row:0{width}d}-{column:0{width}d}{end}" for row in places for column in places for end in ends
    )


class RawImages(NamedTuple):
    """images: uint8 (n, side, side) or (n, side, side, 3), rows from the top. labels: int64 (n,)."""

    images: np.ndarray
    labels: np.ndarray

    @classmethod
    def checked(
        cls, path: Path, source: str, images: np.ndarray | None, labels: np.ndarray | None, shape: tuple, classes: int
    ) -> RawImages:
        """Raises DataError where there are none, or they are not of this shape and so many classes."""
        if images is None or labels is None:
            raise DataError(f"{path} lacks an array of images or labels", f"Get it anew from {source}")
        codes = labels.reshape(-1)
        fits = images.dtype == np.uint8 and images.shape == (codes.size, *shape) and codes.dtype.kind in "iu"
        if not fits or not codes.size or not 0 <= codes.min() <= codes.max() < classes:
            what = f"{path}: images {images.dtype} {images.shape} and labels {labels.dtype} {labels.shape}"
            needed = f"uint8 (n, {', '.join(map(str, shape))}) and n labels from 0 to {classes - 1} are needed"
            raise DataError(f"{what}; {needed}", f"Get it anew from {source}")
        return cls(images, codes.astype(np.int64))


def _dataset(name: str, parts: Sequence[RawImages], ends: Sequence[str] = GREY, **known: Any) -> Dataset:
    y = np.concatenate([part.labels for part in parts])
    x = np.empty((len(y), math.prod(parts[0].images.shape[1:])), dtype=np.float32)
    start = 0
    for part in parts:  # one after the other: all of SVHN is 8 GB as numbers
        rows = x[start : start + len(part.labels)]
        rows[:] = part.images.reshape(rows.shape)
        rows /= np.float32(255)
        start += len(rows)
    return dataset_of(name, features=pixel_names(parts[0].images.shape[1], ends), x=x, y=y, **known)


@cache
def load_idx(folder: Path, name: str) -> Dataset:
    """A set in the form of MNIST; without owners."""
    table = named(name)
    place, source, classes = folder / table["file"], table["source"], len(table["classes"])
    parts = []
    for part in ("train", "t10k"):
        path = data_file(place, f"{part}-images-idx3-ubyte.gz", source)
        labels = read_idx(data_file(place, f"{part}-labels-idx1-ubyte.gz", source))
        parts.append(RawImages.checked(path, source, read_idx(path), labels, (28, 28), classes))
    private, test = (len(part.labels) for part in parts)
    if test <= QUERIES:
        raise DataError(f"{place}: {test} test images, more than {QUERIES} are needed", f"Source: {source}")
    return _dataset(name, parts, public=(private, private + QUERIES))


@cache
def load_mnist_writers(folder: Path) -> Dataset:
    """MNIST with the writer of each image as its owner."""
    plain, source = load_idx(folder, "mnist"), named("mnist-writers")["writers"]
    path = data_file(folder, "mnist_writers.npz", source)
    arrays = read_arrays(path, source)
    writers = [arrays[name] for name in ("train_writer", "test_writer") if name in arrays]
    owner = np.concatenate(writers).astype(np.int64) if writers else np.zeros(0, dtype=np.int64)
    if len(owner) != len(plain.y):
        raise DataError(f"{path} has {len(owner)} writers for {len(plain.y)} images", f"Get it anew from {source}")
    told = {key: named("mnist-writers")[key] for key in ("title", "attribution")}
    return replace(plain, name="mnist-writers", owner_label="writer", owner=owner, **told)


def read_idx(path: Path) -> np.ndarray:
    """The array of a gzipped idx file of unsigned bytes; uint8 of the shape that its header states. Raises DataError:
    it is no such file, or cut off."""
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


@cache
def load_glyphs(folder: Path) -> Dataset:
    """All rows, with the font family as owner; no public part of its own."""
    source = named("glyphs")["source"]
    path = data_file(folder, named("glyphs")["file"], source)
    arrays = read_arrays(path, source)
    if missing := [name for name in ("x", "y", "family", "chars", "families") if name not in arrays]:
        raise DataError(f"{path} has no array {missing[0]}", f"Get it from {source}")
    classes, families = tuple(map(class_name, arrays["chars"])), tuple(map(str, arrays["families"]))
    drawn = RawImages.checked(path, source, arrays["x"], arrays["y"], (28, 28), len(classes))
    family = RawImages.checked(path, source, arrays["x"], arrays["family"], (28, 28), len(families)).labels
    return _dataset("glyphs", [drawn], classes=classes, owner_label="family", owner=family, owner_names=families)


def class_name(character: str) -> str:
    """What a character is called: a letter or a digit by itself, any other by its name, since a spreadsheet would take
    some of them for a formula.

    >>> class_name("A"), class_name("é"), class_name("="), class_name("-")
    ('A', 'é', 'equals sign', 'hyphen-minus')
    """
    return character if character.isalnum() else unicodedata.name(character, f"character {character!r}").lower()


@cache
def load_pneumonia(folder: Path) -> Dataset:
    """Rows of all three parts; without owners."""
    source, file = named("pneumonia")["source"], named("pneumonia")["file"]
    rebuilt = folder / "pneumoniamnist_rebuilt.npz"
    path = rebuilt if rebuilt.is_file() and not (folder / file).is_file() else data_file(folder, file, source)
    arrays = read_arrays(path, source)
    parts = [
        RawImages.checked(path, source, arrays.get(f"{part}_images"), arrays.get(f"{part}_labels"), (28, 28), 2)
        for part in ("train", "val", "test")
    ]
    private, queries, _ = (len(part.labels) for part in parts)
    return _dataset("pneumonia", parts, public=(private, private + queries))


@cache
def load_svhn(folder: Path) -> Dataset:
    """Rows of all files in `folder`/svhn, or in `folder`; without owners. Raises DataError: a file is not there,
    damaged, or holds anything else."""
    place = folder / "svhn" if (folder / "svhn").is_dir() else folder
    extra = ["extra"] if (place / "extra_32x32.mat").is_file() else []
    parts = [
        read_mat(data_file(place, f"{part}_32x32.mat", named("svhn")["source"])) for part in ("train", *extra, "test")
    ]
    *private, test = (len(part.labels) for part in parts)
    asked = test * ASKED // PUBLISHED
    if not 0 < asked < test:
        raise DataError(f"{place}: {test} test images cannot be divided", "Two are needed at least")
    return _dataset("svhn", parts, RGB, public=(sum(private), sum(private) + asked))


def read_mat(path: Path) -> RawImages:
    """The images and digits of one file of SVHN. Raises DataError: it is no MATLAB 5 file of these two arrays, or
    damaged, or a label is not 1 to 10."""
    from scipy.io import loadmat

    source = named("svhn")["source"]
    try:
        arrays = loadmat(path, variable_names=["X", "y"])
        images, labels = np.moveaxis(arrays["X"], -1, 0), arrays["y"]
    except Exception as error:  # scipy raises of many kinds where a file is cut off
        raise DataError(f"cannot read {path}: {error}", f"Get it anew from {source}") from None
    return RawImages.checked(path, source, images, np.where(labels == 10, 0, labels), (32, 32, 3), 10)


SIDE, LEVELS = 20, 16
"""Pixels of an image's side, and greys of a pixel: MNIST fits a digit into 20x20 pixels; its 256 greys are rounded."""
ROWS = 80  # images of each writer
CELLS, DIRECTIONS, COMPONENTS = 5, 8, 60
"""An image has CELLS x CELLS histograms of so many directions; of the CELLS^2 DIRECTIONS numbers as many principal
components are kept."""
_AT_ONCE = 1000
FEATURES = tuple(f"component-{place:02d}" for place in range(1, COMPONENTS + 1))


@dataclass(frozen=True, kw_only=True)
class DigitsSource(Source):
    """Rows are images until somebody says which of them are public. images: uint8 (rows, SIDE, SIDE), from 0 to LEVELS
    - 1. owner: QMNIST's number of the writer."""

    images: np.ndarray = field(repr=False)

    def dataset(self, public_rows: np.ndarray) -> Dataset:
        """All rows as float32 (rows, COMPONENTS): of `gradients` along the principal directions of the rows at these
        indices int64."""
        with one_thread():  # sums of several threads differ in their last digit, and an audit compares the rows
            described = _embedded_gradients() if self is open_digits() else gradients(self.images)
            x = components(described, public_rows, COMPONENTS)
        return self.as_numbers(FEATURES, x, self.classes, self.y)


@cache
def open_digits() -> DigitsSource:
    """The embedded images: `ROWS` of each of 295 writers of MNIST's training images, writer after writer, drawn by lot
    (`tools/embedded_data.py`). Nobody is public: a scenario's seed says who is. Terms: digits.LICENSE.txt."""
    arrays, table = shipped_arrays("digits"), named("digits")
    packed, y = arrays["images"], arrays["labels"].astype(np.int64)
    return DigitsSource(
        name="digits", title=table["title"], attribution=table["attribution"], classes=tuple(table["classes"]),
        owner_label="writer", y=y, owner=np.repeat(arrays["writers"].astype(np.int64), ROWS),
        images=np.stack([packed >> 4, packed & 15], axis=2).reshape(len(y), SIDE, SIDE),
    )  # fmt: skip


@cache
def _embedded_gradients() -> np.ndarray:
    """Nothing of it hangs on who is public: several divisions in one process share it."""
    return gradients(open_digits().images)


def gradients(images: np.ndarray) -> np.ndarray:
    """Images uint8 (n, SIDE, SIDE) -> float32 (n, CELLS^2 DIRECTIONS), of each image the square roots of shares. Dalal,
    Triggs, Histograms of oriented gradients for human detection, CVPR 2005, with directions round the whole circle and
    one norm for the image; as roots of shares they are compared by Hellinger's distance (Arandjelovic, Zisserman, Three
    things everyone should know to improve object retrieval, CVPR 2012)."""
    parts = [_histograms(upright(images[start : start + _AT_ONCE])) for start in range(0, len(images), _AT_ONCE)]
    return np.concatenate(parts)


def upright(images: np.ndarray) -> np.ndarray:
    """Images uint8 (n, SIDE, SIDE) -> float32 of the same shape, 0 to 1: without slant, and in the middle from side to
    side. Each row is moved sideways until ink's column and row do not go together (LeCun, Bottou, Bengio, Haffner,
    1998, section III.A, "deslanted")."""
    ink, places = images.astype(np.float32), np.arange(SIDE, dtype=np.float32)
    whole, of_row = np.maximum(ink.sum(axis=(1, 2)), 1), ink.sum(axis=2)
    column, row = ink.sum(axis=1) @ places / whole, of_row @ places / whole
    below = places - row[:, None]
    together = (below * (ink @ places - of_row * column[:, None])).sum(axis=1)
    slant = together / np.maximum((of_row * below**2).sum(axis=1), 1e-6)
    start = column[:, None] + slant[:, None] * below - np.float32((SIDE - 1) / 2)
    wanted = start[:, :, None] + places  # the column that each pixel is taken from
    left = np.floor(wanted)
    share = wanted - left
    beyond = np.pad(ink, ((0, 0), (0, 0), (1, 2)))  # blank
    place = np.clip(left, -1, SIDE).astype(np.int64) + 1
    near, far = (np.take_along_axis(beyond, place + more, axis=2) for more in (0, 1))
    seen = (left >= -1) & (left < SIDE)
    return np.where(seen, near * (1 - share) + far * share, 0).astype(np.float32) / np.float32(LEVELS - 1)


def _histograms(images: np.ndarray) -> np.ndarray:
    """Float32 (n, SIDE, SIDE) -> float32 (n, CELLS^2 DIRECTIONS)."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    right = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]
    down = padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    steep = np.hypot(right, down)
    direction = np.arctan2(down, right) * np.float32(DIRECTIONS / (2 * np.pi)) % DIRECTIONS
    first = np.floor(direction)
    upper = steep * (direction - first)  # a gradient counts for the two directions that it lies between
    lower, first = steep - upper, first.astype(np.int8) % DIRECTIONS
    middles = (np.arange(CELLS) + 0.5) * SIDE / CELLS - 0.5
    window = np.maximum(1 - np.abs(np.arange(SIDE)[:, None] - middles) * CELLS / SIDE, 0).astype(np.float32)
    sums = np.empty((len(images), DIRECTIONS, CELLS, CELLS), dtype=np.float32)
    for one in range(DIRECTIONS):
        weights = np.where(first == one, lower, 0) + np.where((first + 1) % DIRECTIONS == one, upper, 0)
        sums[:, one] = window.T @ (weights @ window)
    flat = sums.reshape(len(images), -1)
    return np.sqrt(flat / np.maximum(flat.sum(axis=1, keepdims=True), 1e-6))


def components(described: np.ndarray, public_rows: np.ndarray, count: int) -> np.ndarray:
    """Float32 (rows, numbers) -> float32 (rows, count): along the principal directions of the rows at `public_rows`,
    less their mean, and all by one factor, with which the mean square of these rows is 1. So lengths still say how much
    rows differ along a direction, and gradients, which private rivals shorten, are not those of the intercept alone."""
    mean = described[public_rows].mean(axis=0)
    centred = (described[public_rows] - mean).astype(np.float64)
    directions = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :count]
    along = centred @ directions
    return (described - mean) @ (directions / np.sqrt((along**2).mean())).astype(np.float32)
