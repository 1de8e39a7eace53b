"""Rows owner after owner, what of their variance lies between owners, and what is said of one kind of difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.stats import pearson3, rankdata, skew

from consilium.protocol.errors import DataError
from consilium.report.words import many
from consilium.simulations.study.measures.figures import ratio

ShiftKind = Literal["quantity", "label", "covariate", "concept"]
SHIFT_KINDS: tuple[ShiftKind, ...] = get_args(ShiftKind)
ERROR = 0.025  # share of divisions by lot in which some kind is named, at most
LOTS = 200
MOST_ROWS = 20_000
"""Rows that are looked at: of each owner at most so many, by lot, that all owners together have no more."""
MOST_INPUTS = 64  # columns beyond which principal components of so many are looked at
PURPOSE = 0x7768696368


@dataclass(frozen=True)
class ShiftPart:
    """strength: from 0 to 1, see `SCALES`; low, high: 95 %, owners drawn anew. floor: mean of rows dealt by lot. p:
    corrected over all kinds."""

    kind: ShiftKind
    strength: float
    low: float
    high: float
    floor: float
    p: float

    @property
    def named(self) -> bool:
        """Whether it is said to be there."""
        return self.p <= ERROR


SCALES: dict[ShiftKind, str] = {
    "quantity": "Gini index of the sizes",
    "label": "share of the labels' variance that lies between owners",
    "covariate": "share of the features' variance within a class that lies between owners",
    "concept": "I² of what features say of the label",
}


@dataclass(frozen=True)
class OwnerRows:
    """Rows owner after owner. x: float64 (n, d). y, owner: int64 (n,). sizes: of the owners as looked at, every: all"""

    x: np.ndarray
    y: np.ndarray
    owner: np.ndarray
    classes: int
    sizes: np.ndarray
    every: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, owners: np.ndarray, unit: np.ndarray | None, seed: int) -> OwnerRows:
        if x.ndim != 2 or not len(x) == len(y) == len(owners):
            shapes = f"x is {x.shape}, with {len(y)} labels and {len(owners)} owners"
            raise DataError(shapes, "Give one of each for every row")
        if unit is not None and len(unit) != len(x):
            raise DataError(f"unit has {len(unit)} values for {len(x)} rows", "Give one for every row")
        if np.isinf(x).any():
            raise DataError("x has a value that is infinite", "Write NaN where a value is missing")
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        names, owner = np.unique(np.asarray(owners), return_inverse=True)
        if len(names) < 2:
            raise DataError(f"there are rows of {many(len(names), 'owner')}", "Compare two owners at least")
        every, generator = np.bincount(owner), np.random.default_rng([seed, PURPOSE, 1])
        places = np.arange(len(x))
        if unit is not None:
            lot = generator.permutation(len(x))
            pairs = np.stack([owner[lot], np.unique(np.asarray(unit), return_inverse=True)[1][lot]])
            places = np.sort(lot[np.unique(pairs, axis=1, return_index=True)[1]])
        places = places[np.argsort(owner[places], kind="stable")]
        places = places[capped(owner[places], generator, MOST_ROWS)]
        sizes = np.bincount(owner[places], minlength=len(names))
        return cls(x[places], codes[places], owner[places], len(classes), sizes, every)

    @property
    def starts(self) -> np.ndarray:
        """Where each owner's rows begin."""
        return np.r_[0, np.cumsum(self.sizes)[:-1]]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """By owner, float64 (owners, ...), of values (n, ...)."""
        return np.add.reduceat(values, self.starts, axis=0, dtype=np.float64)

    def dealt(self, strata: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Positions int64 (n,): rows by lot in the place of others, of the same stratum int64 (n,)."""
        order = np.argsort(strata, kind="stable")
        drawn = np.empty_like(order)
        drawn[order] = np.argsort(strata + generator.random(len(strata)))
        return drawn


def capped(party: np.ndarray, generator: np.random.Generator, most_rows: int) -> np.ndarray:
    """Positions int64, in order: of each party as many rows by lot as keep the whole within `most_rows`, at least 2.
    party: int64 (n,), ascending."""
    sizes = np.bincount(party)
    if sizes.sum() <= most_rows:
        return np.arange(len(party))
    most = max((cap for cap in range(2, int(sizes.max())) if np.minimum(sizes, cap).sum() <= most_rows), default=2)
    lot = generator.permutation(len(party))
    by_party = lot[np.argsort(party[lot], kind="stable")]
    place = np.arange(len(party)) - np.repeat(np.r_[0, np.cumsum(sizes)[:-1]], sizes)
    return np.sort(by_party[place < most])


class BetweenOwners(NamedTuple):
    """What of the variance of features lies between owners. value: their mean share, floor: of rows by lot; by_owner:
    Σ S²/n. p: of the mean share, or of the direction in which owners differ most."""

    value: float
    floor: float
    by_owner: np.ndarray
    p: float

    def part(self, kind: ShiftKind, rows: OwnerRows, p: float, generator: np.random.Generator) -> ShiftPart:
        """What is said of this kind. p: before correction."""
        columns = max(self.by_owner.sum() / max(self.value, 1e-300) / rows.sizes.sum(), 1.0)
        value, low, high = ratio(self.by_owner, rows.sizes * columns, generator)
        return ShiftPart(kind, value, low or 0.0, min(high or 1.0, 1.0), self.floor, p)


def between_owners(
    rows: OwnerRows, values: np.ndarray, strata: np.ndarray, generator: np.random.Generator
) -> BetweenOwners:
    """values: float64 (n, m), of mean 0 in each stratum and deviation 1 (or 0) in all. Components of equal deviation
    are dealt, so that correlated columns count once, and a difference along one direction is seen among many (Pillai's
    trace and Roy's largest root, by lot in place of a normal law)."""
    content = components(values) if values.shape[1] > 1 else values
    by_owner = np.zeros(len(rows.sizes))
    if not content.shape[1]:
        return BetweenOwners(0.0, 0.0, by_owner, 1.0)
    content, root, columns = content.astype(np.float32), np.sqrt(rows.sizes)[:, None], content.shape[1]
    trace, largest = np.empty((2, 1 + LOTS))
    for lot in range(1 + LOTS):
        dealt = content[rows.dealt(strata, generator)] if lot else content
        means = np.add.reduceat(dealt, rows.starts, axis=0).astype(np.float64) / root
        inner = means.T @ means
        trace[lot], largest[lot] = np.trace(inner), np.linalg.eigvalsh(inner)[-1]
        if not lot:
            by_owner = (means**2).sum(axis=1)
    both = tail(trace[0], trace[1:]), tail(largest[0], largest[1:])
    shares = trace / (len(values) * columns)
    p = min(1.0, 2 * min(both)) if columns > 1 else both[0]
    return BetweenOwners(shares[0], float(shares[1:].mean()), by_owner, p)


def tail(value: float, lots: np.ndarray) -> float:
    """Probability of at least `value`, of lots float (n,): counted where many are above, else of Pearson's type III law
    with their mean, variance and skewness (Josse, Pages, Husson 2008)."""
    above, spread = int((lots >= value).sum()), float(lots.std())
    if above >= 10 or spread <= 1e-12 * max(abs(value), 1e-300):
        return (1 + above) / (1 + len(lots))
    skewness = float(skew(lots))
    return float(pearson3.sf((value - lots.mean()) / spread, skewness if skewness >= 0.02 else 0.0))


def centred(values: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """Less the mean of the stratum, of deviation 1, and 0 where NaN."""
    centred = np.zeros_like(values)
    for stratum in np.unique(strata):
        part = values[strata == stratum]
        known = ~np.isnan(part)
        mean = np.where(known, part, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        centred[strata == stratum] = np.where(known, part - mean, 0)
    spread = centred.std(axis=0)
    return centred / np.where(spread > 1e-9, spread, np.inf)


def ranks(x: np.ndarray) -> np.ndarray:
    """Ranks of each column from -1 to 1, NaN where missing: what a row says whatever the column's scale and tails."""
    return 2 * rankdata(x, axis=0, nan_policy="omit") / ((~np.isnan(x)).sum(axis=0) + 1) - 1


def components(values: np.ndarray) -> np.ndarray:
    """The first principal components of deviation 1, at most `MOST_INPUTS`."""
    size, turned = np.linalg.eigh(values.T @ values / len(values))
    chosen = np.argsort(-size)[:MOST_INPUTS]
    chosen = chosen[size[chosen] > 1e-6]
    return values @ turned[:, chosen] / np.sqrt(size[chosen])
