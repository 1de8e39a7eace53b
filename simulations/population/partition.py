"""Who is a party, and what is public. Nothing here looks at a label but "dirichlet", which is made to.

By owner: each with enough rows is a party. By lot: equal shards of the private rows ("iid"), as in the papers, or equal
numbers of owners ("groups"), where these are patients: all rows of one are at the same party. By class ("dirichlet"):
parties differ in their classes, `population.dirichlet`. What is public is drawn alike for all of them
(`population.held_out`). Divisions that follow the natural one, and those of flwr-datasets, are in
`population.divisions`, which has the table of them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from consilium.protocol.errors import NotEnoughParties
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.spec import PublicSpec
from consilium.simulations.population.dirichlet import deal_by_class
from consilium.simulations.population.held_out import PublicPart, private_rows, public_part
from consilium.simulations.population.names import party_names

Division = Literal["owners", "iid", "groups", "dirichlet", "shuffled", "matched", "time", "flwr"]


@dataclass(frozen=True)
class Partition:
    """Row indices into the data set: of each party by name, of the student's queries, and of the test set.

    too_near: public rows that are not asked, since others are too much like them (`population.public_rows`).
    left_out: owners, or shards, that are no party since they have too few rows. found: what the division had to look
    for, by name, six digits each (`divisions.matched`).
    """

    parties: dict[str, np.ndarray] = field(repr=False)
    queries: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)
    too_near: np.ndarray = field(repr=False, default_factory=lambda: np.zeros(0, dtype=np.int64))
    left_out: int = 0
    found: dict[str, float] = field(default_factory=dict)


def natural_partition(
    source: Source,
    public_rule: PublicSpec,
    least_rows: int,
    minimum_parties: int,
    seed: int,
    rows: np.ndarray | None = None,
) -> Partition:
    """One party for each owner with `least_rows` rows that is not held out, whatever its labels are.

    Rows of smaller owners are not used. `rows` are those that parties may have, None: all private ones.

    Raises
    ------
    NotEnoughParties, DataError, ConfigError
    """
    public = public_part(source, public_rule, least_rows, seed)
    rows = private_rows(source, public) if rows is None else rows
    owner = source.owner[rows]
    owners, sizes = np.unique(owner, return_counts=True)
    private = owners[sizes >= least_rows]
    if len(private) < minimum_parties:
        raise NotEnoughParties(
            f"{source.name}: {len(private)} {source.owner_label}s are left as parties with at least {least_rows}"
            f" rows, at least {minimum_parties} are required",
            "Lower federation.minimum_parties, data.least_rows or data.public_share",
        )
    parties = {name: rows[owner == who] for who, name in party_names(source, private).items()}
    return Partition(parties, public.queries, public.test, left_out=len(owners) - len(private))


def iid_partition(
    source: Source,
    public: PublicPart,
    parties: int,
    most_rows: int | None,
    seed: int,
    whole_owners: bool = False,
    rows: np.ndarray | None = None,
) -> Partition:
    """So many parties with equal shards of the private rows, drawn by lot.

    Sizes differ by at most one; `most_rows` (None: no limit) cuts each shard, and what is cut off is not used.
    `whole_owners` draws patients instead of rows, or owners where the set names no patients, so that the parties'
    numbers of them differ by at most one. `rows` are those that are dealt, None: all private ones.

    Raises
    ------
    NotEnoughParties : fewer rows or owners than parties.
    """
    rows = private_rows(source, public) if rows is None else rows
    whose = source.owner if source.patient is None else source.patient
    units = np.unique(whose[rows]) if whole_owners else rows
    if len(units) < parties:
        what = "rows" if not whole_owners else f"{source.owner_label}s" if source.patient is None else "patients"
        raise NotEnoughParties(f"{source.name}: {len(units)} {what} for {parties} parties", "Lower data.parties")
    shards = np.array_split(np.random.default_rng([seed, 0x696964]).permutation(units), parties)
    if whole_owners:
        shards = [rows[np.isin(whose[rows], shard)] for shard in shards]
    return Partition(named([shard[:most_rows] for shard in shards]), public.queries, public.test)


def dirichlet_partition(
    source: Source,
    public: PublicPart,
    parties: int,
    alpha: float,
    sizes: float,
    most_rows: int | None,
    least_rows: int,
    seed: int,
    rows: np.ndarray | None = None,
) -> Partition:
    """So many parties that differ in their classes, and with `sizes` > 0 more in their numbers of rows.

    `most_rows` cuts, and `rows` are dealt, as in `iid_partition`; a party that has fewer than `least_rows` then is left
    out.

    Raises
    ------
    NotEnoughParties : fewer rows than parties.
    """
    rows = private_rows(source, public) if rows is None else rows
    if len(rows) < parties:
        raise NotEnoughParties(f"{source.name}: {len(rows)} rows for {parties} parties", "Lower data.parties")
    dealt = deal_by_class(source.y[rows], parties, alpha, sizes, seed)
    return large_enough([rows[shard][:most_rows] for shard in dealt], public, least_rows)


def large_enough(shards: Sequence[np.ndarray], public: PublicPart, least_rows: int) -> Partition:
    """The shards (row indices) as parties, but for those with fewer than `least_rows` rows, which are left out."""
    everybody = named(shards)
    large = {name: shard for name, shard in everybody.items() if len(shard) >= least_rows}
    return Partition(large, public.queries, public.test, left_out=len(everybody) - len(large))


def named(shards: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Parties by name, numbered in the order of the shards; rows ascending."""
    width = len(str(len(shards) - 1))
    return {f"party-{index:0{width}d}": np.sort(shard) for index, shard in enumerate(shards)}
