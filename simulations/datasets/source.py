"""A data set by what a scenario says of it."""

from __future__ import annotations

from consilium.simulations.datasets import load_dataset
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.spec import SourceSpec

__all__ = ["Source", "open_source"]


def open_source(spec: SourceSpec) -> Source:
    """The rows, with owners and labels.

    Raises
    ------
    ConfigError : a key that this set needs is missing. DataError, PathError : its files are not there, or damaged.
    """
    return load_dataset(spec.set, spec.path)
