"""MNIST by writer, embedded, as numbers that few labels suffice for: the data of the scenario `digits`.

A digit is set upright, described by how steep it is in which direction where (histograms of oriented gradients), and
placed along the directions in which public digits differ most. All of it is numpy, in two seconds for all images. Only
the last step learns anything, and it looks at public rows alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from consilium.models.devices import one_thread
from consilium.simulations.datasets.base import Dataset, Source, named, shipped_arrays

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
    """The embedded images: `ROWS` of each of 295 writers of MNIST's training images, writer after writer. Which
    writers, and which of their images, was drawn by lot (`tools/embedded_data.py`). Nobody is public: a scenario's seed
    says who is. See digits.LICENSE.txt for source and terms."""
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
