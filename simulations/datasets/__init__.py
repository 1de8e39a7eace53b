"""Data sets behind one interface (`base.Dataset`): one that is embedded, others read from a folder (`folder`)."""

from __future__ import annotations

from consilium.simulations.datasets.adult import load_adult
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.datasets.diabetes import load_diabetes, load_diabetes_early
from consilium.simulations.datasets.folder import data_folder
from consilium.simulations.datasets.images import load_fashion, load_mnist, load_mnist_writers
from consilium.simulations.datasets.pneumonia import load_pneumonia
from consilium.simulations.datasets.stroke import load_stroke

EMBEDDED = {"stroke": load_stroke}
IN_FOLDER = {
    "adult": load_adult,
    "diabetes": load_diabetes,
    "diabetes-early": load_diabetes_early,
    "fashion": load_fashion,
    "mnist": load_mnist,
    "mnist-writers": load_mnist_writers,
    "pneumonia": load_pneumonia,
}
"""Name in a scenario's `data.set` -> loader, without an argument or with the folder of the data sets."""

NAMES = tuple(sorted([*EMBEDDED, *IN_FOLDER]))


def load_dataset(name: str, path: str = "") -> Dataset:
    """The data set of that name, from the folder `path` (or the usual ones, see `folder.data_folder`) if not embedded.

    Raises
    ------
    KeyError : no such name. DataError : its files are not there, or damaged.
    """
    if name in EMBEDDED:
        return EMBEDDED[name]()
    return IN_FOLDER[name](data_folder(path))
