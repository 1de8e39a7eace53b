"""Who is a party, and what is public.

By owner: each with enough rows is a party. Public are the data set's own test part if it has one, else hospitals held
out whole, half of their rows to ask, half to test. By lot ("iid"): equal shards of the private rows, as in the papers;
or ("groups") equal numbers of owners, where these are patients: all rows of one are at the same party.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from consilium.protocol.errors import DataError, NotEnoughParties
from consilium.simulations.datasets.base import Dataset

Division = Literal["owners", "iid", "groups"]


@dataclass(frozen=True)
class Partition:
    """Row indices into the data set: of each party by name, of the student's queries, and of the test set.

    too_near: public rows that are not asked, since others are too much like them (`population.public_rows`).
    """

    parties: dict[str, np.ndarray] = field(repr=False)
    queries: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)
    too_near: np.ndarray = field(repr=False, default_factory=lambda: np.zeros(0, dtype=np.int64))


def eligible_owners(dataset: Dataset, least_rows: int) -> np.ndarray:
    """Ids of the owners of private rows with at least `least_rows` rows and every class among them."""
    owners = np.unique(dataset.owner[dataset.private_rows()])
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
    """One party for each eligible owner that is not held out; none is where the data set has its own test part.

    Otherwise `public_share` of the owners are held out whole, drawn by lot separately among eligible ones and others,
    so that the number of parties does not depend on the seed. Owners that are neither are not used.

    Raises
    ------
    NotEnoughParties, DataError
    """
    generator = np.random.default_rng([seed, 0x7061727469])
    eligible = eligible_owners(dataset, least_rows)
    others = np.setdiff1d(np.unique(dataset.owner), eligible)
    public: list[np.ndarray] = []
    private = eligible
    for group in (eligible, others) if dataset.public is None else ():
        drawn = generator.permutation(group)[: round(public_share * len(group))]
        public.append(drawn)
        private = np.setdiff1d(private, drawn)
    if len(private) < minimum_parties:
        raise NotEnoughParties(
            f"{dataset.name}: {len(private)} {dataset.owner_label}s are left as parties with at least {least_rows} rows"
            f" and every class, at least {minimum_parties} are required",
            "Lower federation.minimum_parties, data.least_rows or data.public_share",
        )
    width = len(str(dataset.owner.max()))
    parties = {
        f"{dataset.owner_label}-{owner:0{width}d}": np.flatnonzero(dataset.owner == owner) for owner in sorted(private)
    }
    if dataset.public is not None:
        return Partition(parties, dataset.public.queries, dataset.public.test)
    rows = generator.permutation(np.flatnonzero(np.isin(dataset.owner, np.concatenate(public))))
    if len(rows) < 2:
        raise DataError(
            f"{dataset.name}: no rows are public with data.public_share {public_share}", "Raise data.public_share"
        )
    return Partition(parties=parties, queries=rows[: len(rows) // 2], test=rows[len(rows) // 2 :])


def iid_partition(
    dataset: Dataset, parties: int, most_rows: int | None, seed: int, whole_owners: bool = False
) -> Partition:
    """So many parties with equal shards of the private rows, drawn by lot; the public rows are the data set's own.

    Sizes differ by at most one; `most_rows` (None: no limit) cuts each shard, and what is cut off is not used.
    `whole_owners` draws owners instead of rows, so that the parties' numbers of owners differ by at most one.

    Raises
    ------
    DataError : the data set has no test part of its own. NotEnoughParties : fewer rows or owners than parties.
    """
    if dataset.public is None:
        raise DataError(f"{dataset.name} has no test part of its own", 'Use data.partition = "owners"')
    rows = dataset.private_rows()
    units = np.unique(dataset.owner[rows]) if whole_owners else rows
    if len(units) < parties:
        what = f"{dataset.owner_label}s" if whole_owners else "rows"
        raise NotEnoughParties(f"{dataset.name}: {len(units)} {what} for {parties} parties", "Lower data.parties")
    shards = np.array_split(np.random.default_rng([seed, 0x696964]).permutation(units), parties)
    if whole_owners:
        shards = [rows[np.isin(dataset.owner[rows], owners)] for owners in shards]
    width = len(str(parties - 1))
    return Partition(
        parties={f"party-{index:0{width}d}": np.sort(shard[:most_rows]) for index, shard in enumerate(shards)},
        queries=dataset.public.queries,
        test=dataset.public.test,
    )
