"""Who is a party, and what is public: hospitals held out whole, half of their rows to ask, half to test."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from protocol.errors import DataError, NotEnoughParties
from simulations.datasets.base import Dataset


@dataclass(frozen=True)
class Partition:
    """Row indices into the data set: of each party by name, of the student's queries, and of the test set."""

    parties: dict[str, np.ndarray] = field(repr=False)
    queries: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)


def eligible_owners(dataset: Dataset, least_rows: int) -> np.ndarray:
    """Ids of the owners with at least `least_rows` rows and every class among them."""
    owners = np.unique(dataset.owner)
    return np.array(
        [
            owner
            for owner in owners
            if (mask := dataset.owner == owner).sum() >= least_rows
            and len(np.unique(dataset.y[mask])) == len(dataset.classes)
        ],
        dtype=np.int64,
    )


def natural_partition(
    dataset: Dataset, public_share: float, least_rows: int, minimum_parties: int, seed: int
) -> Partition:
    """One party for each eligible owner that is not held out.

    `public_share` of the owners are held out whole, drawn by lot separately among eligible ones and others, so that
    the number of parties does not depend on the seed. Owners that are neither are not used.

    Raises
    ------
    NotEnoughParties, DataError
    """
    generator = np.random.default_rng([seed, 0x7061727469])
    eligible = eligible_owners(dataset, least_rows)
    others = np.setdiff1d(np.unique(dataset.owner), eligible)
    public: list[np.ndarray] = []
    private = eligible
    for group in (eligible, others):
        drawn = generator.permutation(group)[: round(public_share * len(group))]
        public.append(drawn)
        private = np.setdiff1d(private, drawn)
    if len(private) < minimum_parties:
        raise NotEnoughParties(
            f"{dataset.name}: {len(private)} {dataset.owner_label}s are left as parties with at least {least_rows} rows"
            f" and every class, at least {minimum_parties} are required",
            "Lower parties.minimum, data.least_rows or data.public_share",
        )
    rows = generator.permutation(np.flatnonzero(np.isin(dataset.owner, np.concatenate(public))))
    if len(rows) < 2:
        raise DataError(
            f"{dataset.name}: no rows are public with data.public_share {public_share}", "Raise data.public_share"
        )
    width = len(str(dataset.owner.max()))
    return Partition(
        parties={
            f"{dataset.owner_label}-{owner:0{width}d}": np.flatnonzero(dataset.owner == owner)
            for owner in sorted(private)
        },
        queries=rows[: len(rows) // 2],
        test=rows[len(rows) // 2 :],
    )
