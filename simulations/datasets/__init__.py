"""Data sets with a natural partition, behind one interface (`base.Dataset`)."""

from __future__ import annotations

from simulations.datasets.base import Dataset
from simulations.datasets.stroke import load_stroke

LOADERS = {"stroke": load_stroke}
"""Name in a scenario's `data.set` -> loader."""


def load_dataset(name: str) -> Dataset:
    """The data set of that name; KeyError for a name that `LOADERS` does not have."""
    return LOADERS[name]()
