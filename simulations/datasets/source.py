"""A data set by what a scenario says of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Never

from consilium.protocol.errors import PathError
from consilium.simulations.datasets.base import Dataset, Source, data_folder
from consilium.simulations.datasets.coded import load_adult, load_diabetes, load_stroke, open_heart
from consilium.simulations.datasets.images import (
    load_glyphs,
    load_idx,
    load_mnist_writers,
    load_pneumonia,
    load_svhn,
    open_digits,
)
from consilium.simulations.datasets.own import open_images, open_r_set, open_tables
from consilium.simulations.datasets.spec import MEMORY, R_SETS, SourceSpec

__all__ = ["OWN", "Source", "open_source"]


def open_memory(spec: SourceSpec) -> Never:
    """Raise PathError: nobody can open them again."""
    raise PathError(
        "the rows were in the memory of the program that ran this, and are not kept with the run",
        'Fit again, or write the rows to a file and name it with data.set = "table"',
    )


OWN: dict[str, Callable[[SourceSpec], Source]] = {
    "table": open_tables,
    "images": open_images,
    R_SETS: open_r_set,
    MEMORY: open_memory,
}
"""Kinds of data that the user describes, by what `data.set` calls them."""
EMBEDDED: dict[str, Callable[[], Source]] = {"heart": open_heart, "digits": open_digits}
"""In the package, and no numbers before public rows are known."""
NAMED: dict[str, Callable[[Path], Dataset]] = {
    "adult": load_adult,
    "diabetes": partial(load_diabetes, name="diabetes"),
    "diabetes-early": partial(load_diabetes, name="diabetes-early"),
    "fashion": partial(load_idx, name="fashion"),
    "glyphs": load_glyphs,
    "mnist": partial(load_idx, name="mnist"),
    "mnist-writers": load_mnist_writers,
    "pneumonia": load_pneumonia,
    "svhn": load_svhn,
}
"""Published sets by what `data.set` calls them: how one is read from the folder of the data sets."""


def load_dataset(name: str, path: str = "") -> Dataset:
    """The named set, whose numbers do not depend on who is public; from the folder `path` (else as `data_folder` says)
    if it is not embedded. Raises KeyError: no such name. DataError: its files are not there, or damaged."""
    return load_stroke("") if name == "stroke" else NAMED[name](data_folder(path))


def open_source(spec: SourceSpec) -> Source:
    """The rows, with owners and labels. Raises ConfigError: a key that this set needs is missing. DataError, PathError:
    its files are not there, or damaged."""
    if spec.set == "stroke":
        return load_stroke(spec.owner)
    if spec.set in EMBEDDED:
        return EMBEDDED[spec.set]()
    return OWN[spec.set](spec) if spec.set in OWN else load_dataset(spec.set, spec.path)
