"""A data set by what a scenario says of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Never

from consilium.protocol.errors import PathError
from consilium.simulations.datasets.base import Dataset, Source
from consilium.simulations.datasets.digits import open_digits
from consilium.simulations.datasets.embedded import load_stroke, open_heart
from consilium.simulations.datasets.folder import data_folder
from consilium.simulations.datasets.images import (
    load_fashion,
    load_glyphs,
    load_mnist,
    load_mnist_writers,
    load_pneumonia,
)
from consilium.simulations.datasets.own import open_arrays, open_images, open_tables
from consilium.simulations.datasets.packages import open_r_set
from consilium.simulations.datasets.photographs import load_svhn
from consilium.simulations.datasets.spec import MEMORY, R_SETS, SourceSpec
from consilium.simulations.datasets.uci import load_adult, load_diabetes, load_diabetes_early

__all__ = ["OWN", "Source", "open_source"]


def open_memory(spec: SourceSpec) -> Never:
    """Raise PathError: nobody can open them again."""
    raise PathError(
        "the rows were in the memory of the program that ran this, and are not kept with the run",
        'Fit again, or write the rows to a file and name it with data.set = "table"',
    )


OWN: dict[str, Callable[[SourceSpec], Source]] = {
    "table": open_tables,
    "npz": open_arrays,
    "images": open_images,
    R_SETS: open_r_set,
    MEMORY: open_memory,
}
"""Kinds of data that the user describes, by what `data.set` calls them."""
EMBEDDED: dict[str, Callable[[], Source]] = {"heart": open_heart, "digits": open_digits}
"""In the package, and no numbers before public rows are known."""
IN_FOLDER: dict[str, Callable[[Path], Dataset]] = {
    "adult": load_adult,
    "diabetes": load_diabetes,
    "diabetes-early": load_diabetes_early,
    "fashion": load_fashion,
    "glyphs": load_glyphs,
    "mnist": load_mnist,
    "mnist-writers": load_mnist_writers,
    "pneumonia": load_pneumonia,
    "svhn": load_svhn,
}
"""Name in a scenario's `data.set` -> loader, with the folder of the data sets as its argument."""


def load_dataset(name: str, path: str = "", owner: str = "") -> Dataset:
    """The data set of that name, from the folder `path` (else as `folder.data_folder` says) if not embedded.

    owner: of an embedded one whose owners may be chosen.

    Raises
    ------
    KeyError : no such name, or public rows must say first what numbers it has (`EMBEDDED`). DataError : its files are
        not there, or damaged. ConfigError : there is no such owner.
    """
    return load_stroke(owner) if name == "stroke" else IN_FOLDER[name](data_folder(path))


def open_source(spec: SourceSpec) -> Source:
    """The rows, with owners and labels.

    Raises
    ------
    ConfigError : a key that this set needs is missing. DataError, PathError : its files are not there, or damaged.
    """
    if spec.set in OWN:
        return OWN[spec.set](spec)
    if spec.set in EMBEDDED:
        return EMBEDDED[spec.set]()
    return load_dataset(spec.set, spec.path, spec.owner)
