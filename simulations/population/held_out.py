"""Which rows are public: the data set's own test part, or owners that are held out whole."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset

_PURPOSE = 0x7061727469


class PublicPart(NamedTuple):
    """Row indices int64: what the student asks, and what is held out to evaluate it. owners: those held out whole."""

    queries: np.ndarray
    test: np.ndarray
    owners: np.ndarray


def owners_of_size(dataset: Dataset, least_rows: int) -> np.ndarray:
    """Ids of the owners of private rows with at least `least_rows` rows, whatever these say, ascending."""
    owners, sizes = np.unique(dataset.owner[dataset.private_rows()], return_counts=True)
    return owners[sizes >= least_rows]


def public_part(dataset: Dataset, public_share: float, least_rows: int, seed: int) -> PublicPart:
    """The data set's own test part if it has one, and no owner is held out; else `public_share` of the owners.

    They are drawn by lot, separately among those with `least_rows` rows and the others, so that the number of parties
    does not depend on the seed. Half of their rows, by lot, are asked, the other half are the test set. The draw looks
    at owners and sizes alone, so every way to divide the rows of the others has the same public part.

    Raises
    ------
    DataError : fewer than two rows would be public.
    """
    if dataset.public is not None:
        return PublicPart(dataset.public.queries, dataset.public.test, np.zeros(0, dtype=np.int64))
    generator = np.random.default_rng([seed, _PURPOSE])
    large = owners_of_size(dataset, least_rows)
    small = np.setdiff1d(np.unique(dataset.owner), large)
    held = np.concatenate(
        [generator.permutation(group)[: round(public_share * len(group))] for group in (large, small)]
    )
    rows = generator.permutation(np.flatnonzero(np.isin(dataset.owner, held)))
    if len(rows) < 2:
        raise DataError(
            f"{dataset.name}: no rows are public with data.public_share {public_share}", "Raise data.public_share"
        )
    return PublicPart(rows[: len(rows) // 2], rows[len(rows) // 2 :], held)


def private_rows(dataset: Dataset, public: PublicPart) -> np.ndarray:
    """Indices of the rows that parties may have, ascending: of no owner that is held out."""
    rows = dataset.private_rows()
    return rows[~np.isin(dataset.owner[rows], public.owners)]
