"""Which rows are public: the data set's own public part, or owners, patients or rows that are held out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.spec import PublicSpec

_PURPOSE = 0x7061727469


class PublicPart(NamedTuple):
    """Row indices int64: what the student asks, and what is held out to evaluate it. owners: those held out whole."""

    queries: np.ndarray
    test: np.ndarray
    owners: np.ndarray


def owners_of_size(source: Source, least_rows: int) -> np.ndarray:
    """Ids of the owners of private rows with at least `least_rows` rows, whatever these say, ascending."""
    owners, sizes = np.unique(source.owner[not_public(source)], return_counts=True)
    return owners[sizes >= least_rows]


def public_part(source: Source, public: PublicSpec, least_rows: int, seed: int) -> PublicPart:
    """The data set's own public part if it has one, and no owner is held out; else what `public` says.

    Owners are drawn by lot, separately among those with `least_rows` rows and the others, so that the number of parties
    does not depend on the seed; or they are those that are named. By share, or where all rows have one owner, rows are
    drawn, or whole patients where the set says whose rows are. Half of what is public, by lot, is asked, the other half
    is the test set; no patient is in both. Nothing looks at more than owners, patients and sizes, so every way to
    divide the rows of the others has the same public part.

    Raises
    ------
    DataError : fewer than two rows would be public. ConfigError : there is no such owner.
    """
    generator = np.random.default_rng([seed, _PURPOSE])
    nobody = np.zeros(0, dtype=np.int64)
    if source.public is not None:
        if len(source.public.test):
            return PublicPart(source.public.queries, source.public.test, nobody)
        rows = generator.permutation(source.public.queries)
        return PublicPart(*_halves(source, rows, "data.public"), nobody)
    if public.by == "share" or (not public.owners and len(np.unique(source.owner)) == 1):
        units = _units(source)
        held = generator.permutation(np.unique(units))[: round(public.share * len(np.unique(units)))]
        rows = generator.permutation(np.flatnonzero(np.isin(units, held)))
        return PublicPart(*_halves(source, rows, f"data.public.share {public.share:g}"), nobody)
    owners = _named(source, public.owners) if public.owners else _drawn(source, public.share, least_rows, generator)
    rows = generator.permutation(np.flatnonzero(np.isin(source.owner, owners)))
    return PublicPart(*_halves(source, rows, f"data.public_share {public.share:g}"), owners)


def not_public(source: Source) -> np.ndarray:
    """Indices of the rows that are not public by the data set's own division, ascending."""
    rows = np.arange(len(source.y))
    if source.public is None:
        return rows
    return np.setdiff1d(rows, np.concatenate([source.public.queries, source.public.test]))


def private_rows(source: Source, public: PublicPart) -> np.ndarray:
    """Indices of the rows that parties may have, ascending: neither public nor of an owner that is held out, nor of a
    patient who has public rows, at whichever owner; where the data set itself says which rows are public, it decides.
    """
    asked = np.concatenate([public.queries, public.test])
    rows = np.setdiff1d(not_public(source), asked)
    rows = rows[~np.isin(source.owner[rows], public.owners)]
    if source.patient is None or source.public is not None:
        return rows
    return rows[~np.isin(source.patient[rows], source.patient[asked])]


def _drawn(source: Source, share: float, least_rows: int, generator: np.random.Generator) -> np.ndarray:
    large = owners_of_size(source, least_rows)
    small = np.setdiff1d(np.unique(source.owner), large)
    return np.concatenate([generator.permutation(group)[: round(share * len(group))] for group in (large, small)])


def _named(source: Source, names: tuple[str, ...]) -> np.ndarray:
    """Ids of the owners with these names."""
    known = {str(who): int(who) for who in np.unique(source.owner)}
    if source.owner_names is not None:
        known = {source.owner_names[who]: who for who in known.values()}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(
            f"data.public.owners: {source.name} has no {source.owner_label} {unknown[0]!r}",
            f"It has {_few(list(known))}",
        )
    return np.array([known[name] for name in names], dtype=np.int64)


def _few(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _units(source: Source) -> np.ndarray:
    """What is never divided: patients where they are known, else rows."""
    return np.arange(len(source.y)) if source.patient is None else source.patient


def _halves(source: Source, rows: np.ndarray, why: str) -> tuple[np.ndarray, np.ndarray]:
    """The first half of rows in an order by lot, and the second; of patients, where these are known."""
    if source.patient is None:
        cut = np.arange(len(rows)) < len(rows) // 2
    else:
        whose = source.patient[rows]
        patients = whose[np.sort(np.unique(whose, return_index=True)[1])]  # in the order of the lot
        cut = np.isin(whose, patients[: len(patients) // 2])
    if not cut.any() or cut.all():
        what = "no rows are public" if not len(rows) else f"{len(rows)} public rows cannot be halved"
        raise DataError(f"{source.name}: {what} with {why}", "Make more rows public: data.public_share or data.public")
    return rows[cut], rows[~cut]
