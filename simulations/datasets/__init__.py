"""Data sets behind one interface (`base.Dataset`): one that is embedded, others read from a folder (`folder`)."""

from __future__ import annotations

from consilium.simulations.datasets.adult import load_adult
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.datasets.cifar import load_cifar10
from consilium.simulations.datasets.diabetes import load_diabetes, load_diabetes_early
from consilium.simulations.datasets.folder import data_folder
from consilium.simulations.datasets.glyphs import load_glyphs
from consilium.simulations.datasets.images import load_fashion, load_mnist, load_mnist_writers
from consilium.simulations.datasets.pneumonia import load_pneumonia
from consilium.simulations.datasets.stroke import load_stroke
from consilium.simulations.datasets.svhn import load_svhn

EMBEDDED = {"stroke": load_stroke}
"""Name in a scenario's `data.set` -> loader, with `data.owner` as its argument."""
IN_FOLDER = {
    "adult": load_adult,
    "cifar10": load_cifar10,
    "diabetes": load_diabetes,
    "diabetes-early": load_diabetes_early,
    "fashion": load_fashion,
    "glyphs": load_glyphs,
    "mnist": load_mnist,
    "mnist-writers": load_mnist_writers,
    "pneumonia": load_pneumonia,
    "svhn": load_svhn,
}
"""The same with the folder of the data sets as its argument."""
TABLES = ("heart",)
"""Embedded too; a `Source` in which public rows decide what is filled in (`source.READY`)."""
IN_PACKAGE = (*EMBEDDED, *TABLES)
"""Names of the sets that are part of the package, and read no file of the user's."""
NAMES = tuple(sorted([*EMBEDDED, *IN_FOLDER, *TABLES]))


def load_dataset(name: str, path: str = "", owner: str = "") -> Dataset:
    """The data set of that name, from the folder `path` (else as `folder.data_folder` says) if not embedded.

    owner: of an embedded one whose owners may be chosen.

    Raises
    ------
    KeyError : no such name, or it is one of `TABLES`. DataError : its files are not there, or damaged. ConfigError :
        there is no such owner.
    """
    if name in EMBEDDED:
        return EMBEDDED[name](owner)
    return IN_FOLDER[name](data_folder(path))
