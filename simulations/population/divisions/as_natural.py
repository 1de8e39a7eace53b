"""Divisions of the same rows as the natural one: by lot with its sizes, and by time.

They keep all of the natural division but one thing, so that what follows from that thing is seen alone.
"""

from __future__ import annotations

import numpy as np

from consilium.protocol.errors import ConfigError, DataError, NotEnoughParties
from consilium.simulations.datasets.base import Source
from consilium.simulations.population.held_out import PublicPart
from consilium.simulations.population.partition import Partition, named

_SHUFFLED, _TIME = 0x73687566, 0x74696D65


def shuffled_partition(natural: Partition, seed: int) -> Partition:
    """The rows of the natural division by lot: as many parties, each as large as one of the natural ones."""
    sizes = [len(rows) for rows in natural.parties.values()]
    rows = np.random.default_rng([seed, _SHUFFLED]).permutation(np.concatenate(list(natural.parties.values())))
    return Partition(named(np.split(rows, np.cumsum(sizes)[:-1])), natural.queries, natural.test)


def timed_partition(
    source: Source, public: PublicPart, parties: int, most_rows: int | None, rows: np.ndarray, seed: int
) -> Partition:
    """So many contiguous pieces of time, the earliest first; sizes differ by at most one.

    Rows of the same moment are in an order by lot. `most_rows` (None: no limit) keeps the earliest of each piece.
    Patients are not kept whole: one who comes back later is at two parties.

    Raises
    ------
    ConfigError : nobody says when the rows were. DataError : a row has no time. NotEnoughParties : fewer rows than
        parties.
    """
    if source.time is None:
        raise ConfigError(
            f'data.partition is "time", and nobody says when the rows of {source.name} were',
            "Name the column of dates or numbers with data.time, or choose another division",
        )
    if not (known := np.isfinite(source.time[rows])).all():
        what = f"{source.name}: {np.count_nonzero(~known)} of {len(rows)} private rows have no time"
        raise DataError(what, 'Leave them out of the data, or choose another division than "time"')
    if len(rows) < parties:
        raise NotEnoughParties(f"{source.name}: {len(rows)} rows for {parties} parties", "Lower data.parties")
    lot = np.random.default_rng([seed, _TIME]).permutation(len(rows))
    ordered = rows[np.lexsort((lot, source.time[rows]))]
    pieces = [piece[:most_rows] for piece in np.array_split(ordered, parties)]
    return Partition(named(pieces), public.queries, public.test)
