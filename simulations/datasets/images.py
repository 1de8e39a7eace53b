"""Images in a folder: MNIST, MNIST by writer, Fashion-MNIST, SVHN, characters of fonts, PneumoniaMNIST.

What each is says `named.toml`."""

from __future__ import annotations

import gzip
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset, data_file, dataset_of, named, read_arrays

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
    """All parts, one below the other, each number from 0 to 1."""
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
