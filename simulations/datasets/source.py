"""A data set by what a scenario says of it."""

from __future__ import annotations

from collections.abc import Callable

from consilium.simulations.datasets import NAMES, load_dataset
from consilium.simulations.datasets.array_files import open_arrays
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.heart import open_heart
from consilium.simulations.datasets.hub import open_hub
from consilium.simulations.datasets.image_files import open_images
from consilium.simulations.datasets.installed import open_installed
from consilium.simulations.datasets.memory import MEMORY, open_memory
from consilium.simulations.datasets.r_sets import open_r_set
from consilium.simulations.datasets.spec import R_SETS, SourceSpec
from consilium.simulations.datasets.table_files import open_tables

__all__ = ["OWN", "Source", "open_source"]

OWN: dict[str, Callable[[SourceSpec], Source]] = {
    "table": open_tables,
    "npz": open_arrays,
    "images": open_images,
    "hub": open_hub,
    R_SETS: open_r_set,
    MEMORY: open_memory,
}
"""Kinds of data that the user describes, by what `data.set` calls them."""
READY: dict[str, Callable[[], Source]] = {"heart": open_heart}
"""Data sets that ship (`datasets.TABLES`) and become numbers by what public rows say."""


def open_source(spec: SourceSpec) -> Source:
    """The rows, with owners and labels.

    Raises
    ------
    ConfigError : a key that this set needs is missing. DataError, PathError : its files are not there, or damaged.
    """
    if spec.set in OWN:
        return OWN[spec.set](spec)
    if spec.set in READY:
        return READY[spec.set]()
    if spec.set in NAMES:
        return load_dataset(spec.set, spec.path, spec.owner)
    return open_installed(spec.set, spec.options)
