"""Which kind of difference a division has: each kind with its strength, an interval, and what chance alone gives.

A plain label skew moves the features too, a change of the features moves the labels, and swapped labels move both given
the other. So each test is conditioned on what would explain it away:

- label: how frequent the classes are, where features given the class are the same, or do not explain it;
- covariate: the features, and the features given the class. Rows are dealt to owners by lot within each class, so that
  no skew of labels, however strong, counts as a difference of features;
- concept, or annotators: labels given features. Against one additive logistic regression of all rows, with an intercept
  for each owner, slopes and coefficients differ between owners (Cochran's Q, DerSimonian and Laird's tau^2, Higgins'
  I^2); chance is drawn from the regression's own probabilities. Annotators where wrong labels, each owner's own share
  of them, explain all of it. A level that moves without the features that come with the class is concept too.
- missing, units: what a column lacks, or is written in, at some owners. These cells are left out of what follows.
- quantity, time, public: sizes, when rows were, and how frequent classes are among public rows, estimated without
  their labels (Lipton, Wang, Smola 2018, black box shift estimation).

Holm's correction is over the kinds that can be judged, so that of divisions by lot at most `ERROR` have any kind named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import bdtrc, chdtrc, ndtr
from scipy.stats import rankdata

from consilium.protocol.errors import DataError
from consilium.report.words import many, value_text
from consilium.simulations.divide import Case
from consilium.simulations.study.measures.figures import Divided, capped, ends, gini, hellinger, ratio, shares
from consilium.simulations.study.measures.heterogeneity import (
    LOTS,
    Heterogeneity,
    Labelled,
    levels,
    slopes,
    tail,
    wrong_shares,
)

ShiftKind = Literal["quantity", "missing", "units", "label", "covariate", "concept", "annotators", "time", "public"]
SHIFT_KINDS: tuple[ShiftKind, ...] = get_args(ShiftKind)
ERROR = 0.025
"""Share of divisions by lot in which some kind is named, at most."""
MOST_ROWS = 20_000
"""Rows that are looked at: of each owner at most so many, by lot, that all owners together have no more."""
MOST_INPUTS = 64
"""Columns beyond which principal components of so many are looked at."""
MOST_DIRECTIONS = 24
"""In which coefficients of two classes may differ between owners; of more classes fewer."""
_LEFT = 0.01
"""p above which nothing is left once owners differ in their share of wrong labels."""
_SPREAD, _OFFSET, _CELLS = 1.7, 2.0, 1e-3
"""Of another unit: the least factor between spreads, or difference in spreads; and p, corrected over all cells."""
_OF_OWNERS = 0.3
"""Share of a column's variance between owners, beyond which it says something of owners, such as how far away they are:
no unit is asked about, and one value in all rows of an owner is no lack."""
_MOST_CODES, _OUTSIDE = 12, 0.25
"""Different values of a column of codes; share of an owner's rows beyond the others' range, where it lies elsewhere."""
_FEW_OWNERS = 8
"""Below it nobody knows how much owners differ anyway: the factor is squared, the difference doubled."""


@dataclass(frozen=True)
class ShiftPart:
    """One kind of difference.

    strength: from 0 to 1, see `SCALES`; low, high: 95 %, owners drawn anew. floor, floor_high: what rows dealt by lot
    give in the mean, and below which 97.5 % of them lie. p: corrected over all kinds. where: columns or owners that
    have most of it. figures: more, by name.
    """

    kind: ShiftKind
    strength: float
    low: float
    high: float
    floor: float
    floor_high: float
    p: float
    where: tuple[str, ...] = field(default=(), repr=False)
    figures: Mapping[str, float] = field(default_factory=dict, repr=False)

    @property
    def named(self) -> bool:
        """Whether it is said to be there."""
        return self.p <= ERROR

    def text(self) -> str:
        """A sentence for people."""
        interval = f"{value_text(self.low)} to {value_text(self.high)}"
        chance = f"by chance {value_text(self.floor)}, at most {value_text(self.floor_high)}"
        where = f", most in {', '.join(self.where)}" if self.where and self.named else ""
        verdict = SAID[self.kind] if self.named else f"no {self.kind} shift beyond chance"
        p = "p < .001" if self.p < 0.001 else f"p {value_text(self.p)}"
        return f"{verdict}: {SCALES[self.kind]} {value_text(self.strength)} ({interval}; {chance}; {p}){where}"


SAID: dict[ShiftKind, str] = {
    "quantity": "owners differ in how many rows they have",
    "missing": "owners differ in what is missing",
    "units": "a column is written in another unit or coding at some owners",
    "label": "owners differ in how frequent the classes are",
    "covariate": "owners differ in their features, also within a class",
    "concept": "the same features mean another class at some owners",
    "annotators": "owners differ in how often labels contradict the features, as by mistakes",
    "time": "owners are of different times",
    "public": "classes are not as frequent among the public rows as among the owners'",
}
"""What a kind says where it is named."""
SCALES: dict[ShiftKind, str] = {
    "quantity": "Gini index of the sizes",
    "missing": "share of the variance of what is missing that lies between owners",
    "units": "share of the rows concerned",
    "label": "share of the labels' variance that lies between owners",
    "covariate": "share of the features' variance within a class that lies between owners",
    "concept": "I² of what features say of the label",
    "annotators": "I² of what features say of the label",
    "time": "share of the variance of time that lies between owners",
    "public": "total variation between both",
}


@dataclass(frozen=True)
class WhichShift:
    """parts: every kind that could be judged, in the order of `SHIFT_KINDS`."""

    owners: int
    rows: int
    parts: tuple[ShiftPart, ...]

    @property
    def named(self) -> tuple[ShiftKind, ...]:
        """Kinds that are there beyond chance."""
        return tuple(part.kind for part in self.parts if part.named)

    def of(self, kind: ShiftKind) -> ShiftPart | None:
        """That kind; None where it could not be judged."""
        return next((part for part in self.parts if part.kind == kind), None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "owners": self.owners,
            "rows": self.rows,
            "named": list(self.named),
            "parts": [
                {**{name: getattr(part, name) for name in _NUMBERS}, "kind": part.kind, "named": part.named,
                 "where": list(part.where), "figures": dict(part.figures)}
                for part in self.parts
            ],
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """For people: what is there, the strongest first, then what is not."""
        yield f"{many(self.owners, 'owner')}, {many(self.rows, 'row')}: " + (", ".join(self.named) or "no shift") + "."
        for part in sorted(self.parts, key=lambda part: (not part.named, part.p, -part.strength)):
            yield part.text() + "."


_NUMBERS = ("strength", "low", "high", "floor", "floor_high", "p")


def shift_of(case: Case) -> WhichShift:
    """Of all rows that the parties have, beside the student's pool."""
    dataset, divided = case.dataset, Divided.of(case)
    x, features = np.array(dataset.x, dtype=np.float64), list(dataset.features)
    shown = np.ones(len(features), dtype=bool)
    for column in dataset.columns:
        if column.missing:  # the schema has filled these in, and says where
            *places, missing = (features.index(name) for name in column.features)
            x[np.ix_(x[:, missing] == 1, places)] = np.nan
            shown[missing] = False
    order = np.lexsort((divided.rows, divided.party))  # whichever of them are held out at home
    rows = divided.rows[order]
    return which_shift(
        x[np.ix_(rows, shown)],
        dataset.y[rows],
        np.array(case.parties)[divided.party[order]],
        columns=[name for name, there in zip(features, shown, strict=True) if there],
        time=None if dataset.time is None else dataset.time[rows],
        unit=None if dataset.patient is None else dataset.patient[rows],
        public=x[np.ix_(case.partition.queries, shown)],
        seed=case.seed,
    )


def which_shift(
    x: np.ndarray,
    y: np.ndarray,
    owners: np.ndarray,
    *,
    columns: Sequence[str] = (),
    time: np.ndarray | None = None,
    unit: np.ndarray | None = None,
    public: np.ndarray | None = None,
    seed: int = 0,
) -> WhichShift:
    """Which kinds of difference there are between owners.

    x: float (rows, columns), NaN where a value is missing; categories as columns of 0 and 1. y: label of each row, and
    owners: whose it is, (rows,) of anything that can be sorted. columns: names. time: float (rows,), when each row was.
    unit: (rows,), whose rows belong together (patients); one row of each at an owner is looked at. public: float
    (public rows, columns), without labels.

    400 owners with 20,000 rows of 30 columns take seconds.

    Raises
    ------
    DataError : shapes that do not fit, a value that is infinite, one owner alone.

    >>> generator = np.random.default_rng(0)
    >>> owners = np.repeat(np.arange(20), 50)
    >>> y = (generator.random(1000) < np.where(owners < 10, 0.2, 0.6)).astype(int)
    >>> x = generator.normal(size=(1000, 3)) + y[:, None]
    >>> which_shift(x, y, owners).named
    ('label',)
    """
    x, columns, public = _few(np.asarray(x, dtype=np.float64), tuple(columns), public)
    rows = _Rows.of(x, y, owners, columns, time, unit, seed)
    generator = np.random.default_rng([seed, _PURPOSE])
    judged: list[ShiftPart | None] = [_quantity(rows, generator)]
    lacking = _lacking(rows)
    missing = np.isnan(rows.x) | lacking[rows.owner]
    judged.append(_missing(rows, missing, generator))
    units = _units(rows, np.where(missing, np.nan, rows.x))
    judged.append(units.part)
    unclear = lacking | units.cells
    seen = np.where(np.isnan(rows.x) | unclear[rows.owner], np.nan, rows.x)
    if len(rows.classes) > 1:
        judged += _explained(rows, seen, np.any(unclear, axis=0), public, generator)
    else:
        judged.append(_covariate(rows, _scores(seen), generator)[0])
    judged.append(_time(rows, generator))
    known = [part for part in judged if part is not None]
    return WhichShift(len(rows.sizes), int(rows.every.sum()), _corrected(known))


_PURPOSE = 0x7768696368
_MOST_COLUMNS = 256
"""Beyond which columns are pixels, and principal components of their ranks are looked at in their place."""


def _few(
    x: np.ndarray, columns: tuple[str, ...], public: np.ndarray | None
) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    """x, names and public rows, of columns or components."""
    if public is None:
        public = np.zeros((0, x.shape[-1]))
    public = np.asarray(public, dtype=np.float64)
    if x.ndim == 2 and public.shape[1:] != x.shape[1:]:
        raise DataError(f"public rows are {public.shape}, and x is {x.shape}", "Give the same columns")
    if x.ndim != 2 or x.shape[1] <= _MOST_COLUMNS:
        return x, columns, public
    both = np.concatenate([x, public])
    turned = _components(_centred(_scores(both), np.zeros(len(both))))
    return turned[: len(x)], (), turned[len(x) :]


@dataclass(frozen=True)
class _Rows:
    """Rows owner after owner. x: float64 (n, d), y and owner: int64 (n,), sizes: of the owners as looked at, every: in
    all. starts: where each owner's rows begin."""

    x: np.ndarray
    y: np.ndarray
    owner: np.ndarray
    names: np.ndarray
    classes: np.ndarray
    columns: tuple[str, ...]
    sizes: np.ndarray
    every: np.ndarray
    time: np.ndarray | None

    @classmethod
    def of(
        cls, x: np.ndarray, y: np.ndarray, owners: np.ndarray, columns: Sequence[str],
        time: np.ndarray | None, unit: np.ndarray | None, seed: int,
    ) -> _Rows:  # fmt: skip
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 2 or not len(x) == len(y) == len(owners):
            raise DataError(
                f"x is {x.shape}, with {len(y)} labels and {len(owners)} owners", "Give one of each for every row"
            )
        for name, other in {"time": time, "unit": unit}.items():
            if other is not None and len(other) != len(x):
                raise DataError(f"{name} has {len(other)} values for {len(x)} rows", "Give one for every row")
        if columns and len(columns) != x.shape[1]:
            raise DataError(f"{len(columns)} names for {x.shape[1]} columns", "Name all of them, or none")
        if np.isinf(x).any():
            raise DataError("x has a value that is infinite", "Write NaN where a value is missing")
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        names, owner = np.unique(np.asarray(owners), return_inverse=True)
        if len(names) < 2:
            raise DataError(f"there are rows of {many(len(names), 'owner')}", "Compare two owners at least")
        every, generator = np.bincount(owner), np.random.default_rng([seed, _PURPOSE, 1])
        places = np.arange(len(x))
        if unit is not None:
            lot = generator.permutation(len(x))
            pairs = np.stack([owner[lot], np.unique(np.asarray(unit), return_inverse=True)[1][lot]])
            places = np.sort(lot[np.unique(pairs, axis=1, return_index=True)[1]])
        places = places[np.argsort(owner[places], kind="stable")]
        places = places[capped(owner[places], generator, MOST_ROWS)]
        return cls(
            x[places], codes[places], owner[places], names, classes,
            tuple(columns) or tuple(f"column {place}" for place in range(x.shape[1])),
            np.bincount(owner[places], minlength=len(names)), every,
            None if time is None else np.asarray(time, dtype=np.float64)[places],
        )  # fmt: skip

    @property
    def starts(self) -> np.ndarray:
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


class _Between(NamedTuple):
    """What of the variance of features lies between owners. value: their mean share, lots: of rows by lot; by_owner:
    Σ S²/n; by_column: float64 (m,) shares. p: of the mean share, or of the direction in which owners differ most."""

    value: float
    lots: np.ndarray
    by_owner: np.ndarray
    by_column: np.ndarray
    p: float


def _between(rows: _Rows, values: np.ndarray, strata: np.ndarray, generator: np.random.Generator) -> _Between:
    """values: float64 (n, m), of mean 0 in each stratum and deviation 1 (or 0) in all.

    Components of equal deviation are dealt, so that correlated columns count once, and a difference along one direction
    is seen among many (Pillai's trace and Roy's largest root, with rows dealt by lot in place of a normal law).
    """
    content = _components(values) if values.shape[1] > 1 else values
    if not content.shape[1]:
        return _Between(0.0, np.zeros(LOTS), np.zeros(len(rows.sizes)), np.zeros(values.shape[1]), 1.0)
    content, root, columns = content.astype(np.float32), np.sqrt(rows.sizes)[:, None], content.shape[1]
    trace, largest = np.empty(1 + LOTS), np.empty(1 + LOTS)
    by_owner = np.zeros(len(rows.sizes))
    for lot in range(1 + LOTS):
        dealt = content[rows.dealt(strata, generator)] if lot else content
        means = np.add.reduceat(dealt, rows.starts, axis=0).astype(np.float64) / root
        inner = means.T @ means
        trace[lot], largest[lot] = np.trace(inner), np.linalg.eigvalsh(inner)[-1]
        if not lot:
            by_owner = (means**2).sum(axis=1)
    both = tail(trace[0], trace[1:]), tail(largest[0], largest[1:])
    by_column = (rows.sums(values) ** 2 / rows.sizes[:, None]).sum(axis=0) / len(values)
    scale = len(values) * columns
    p = min(1.0, 2 * min(both)) if columns > 1 else both[0]
    return _Between(trace[0] / scale, trace[1:] / scale, by_owner, by_column, p)


def _centred(values: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """Less the mean of the stratum, of deviation 1, and 0 where NaN."""
    centred = np.zeros_like(values)
    for stratum in np.unique(strata):
        part = values[strata == stratum]
        known = ~np.isnan(part)
        mean = np.where(known, part, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        centred[strata == stratum] = np.where(known, part - mean, 0)
    spread = centred.std(axis=0)
    return centred / np.where(spread > 1e-9, spread, np.inf)


def _part(
    kind: ShiftKind, rows: _Rows, between: _Between, p: float, generator: np.random.Generator,
    names: Sequence[str] = (), **figures: float,
) -> ShiftPart:  # fmt: skip
    columns = max(between.by_owner.sum() / max(between.value, 1e-300) / rows.sizes.sum(), 1.0)
    value, low, high = ratio(between.by_owner, rows.sizes * columns, generator)
    order = [int(place) for place in np.argsort(-between.by_column)[:3] if between.by_column[place] > 0]
    where = dict.fromkeys(str(names[place]) for place in (order if names else ()))
    return ShiftPart(
        kind, value, low or 0.0, min(high or 1.0, 1.0), float(between.lots.mean()), ends(between.lots)[1], p,
        tuple(where), figures,
    )  # fmt: skip


def _quantity(rows: _Rows, generator: np.random.Generator) -> ShiftPart:
    """Against rows that fall to each owner with the same probability."""
    sizes, count = rows.every, len(rows.every)
    expected = sizes.sum() / count
    p = float(chdtrc(count - 1, ((sizes - expected) ** 2).sum() / expected))
    lots = [gini(row) for row in generator.multinomial(int(sizes.sum()), np.full(count, 1 / count), size=LOTS)]
    again = [gini(sizes[generator.integers(count, size=count)]) for _ in range(LOTS)]
    low, high = ends(np.array(again))
    floor = np.array(lots)
    return ShiftPart("quantity", gini(sizes), low, high, float(floor.mean()), ends(floor)[1], p)


def _time(rows: _Rows, generator: np.random.Generator) -> ShiftPart | None:
    if rows.time is None or np.isnan(rows.time).all():
        return None
    none = np.zeros(len(rows.y), dtype=np.int64)
    between = _between(rows, _centred(_scores(rows.time[:, None]), none), none, generator)
    return _part("time", rows, between, between.p, generator)


def _scores(x: np.ndarray) -> np.ndarray:
    """Ranks of each column from -1 to 1, NaN where missing: what a row says whatever the column's scale and tails."""
    ranked = np.full(x.shape, np.nan)
    for place in range(x.shape[1]):
        known = ~np.isnan(x[:, place])
        if known.any():
            ranked[known, place] = 2 * rankdata(x[known, place]) / (known.sum() + 1) - 1
    return ranked


def _lacking(rows: _Rows) -> np.ndarray:
    """Owners that lack a column, bool (owners, d): no value, or one and the same, that no row of others has, in a
    column that varies at most others."""
    x, parties = rows.x, len(rows.sizes)
    low, high = np.fmin.reduceat(x, rows.starts, axis=0), np.fmax.reduceat(x, rows.starts, axis=0)
    empty, constant = np.isnan(low), low == high
    lacking = empty & ~empty.all(axis=0)
    for column in np.flatnonzero(constant.any(axis=0)):
        varies = ~constant[:, column] & ~empty[:, column]
        at_most = x[varies[rows.owner], column]
        at_most = np.sort(at_most[~np.isnan(at_most)])
        if varies.any() and _of_owners(rows, x[:, column], varies):
            continue
        codes = np.unique(x[~np.isnan(x[:, column]), column])
        sparse = 2 * len(at_most) < len(x)
        for owner in np.flatnonzero(constant[:, column]) if len(codes) == 3 or not sparse else ():
            value, values = low[owner, column], at_most
            near = 1e-6 * max(abs(value), 1e-6)
            if sparse:  # two codes, of which one is rare: lacking is what lies between
                if value != codes[1]:
                    continue
                values = np.sort(x[x[:, column] != value, column])
            same = np.searchsorted(values, value + near, "right") - np.searchsorted(values, value - near)
            odds = (1 / len(values)) ** float(rows.sizes[owner]) * parties * x.shape[1]
            lacking[owner, column] = same == 0 and odds < _CELLS
    return lacking


def _missing(rows: _Rows, missing: np.ndarray, generator: np.random.Generator) -> ShiftPart | None:
    """Given the label: those who died may have fewer values."""
    some = np.any(missing, axis=0) & ~np.all(missing, axis=0)
    if not some.any():
        return None
    between = _between(rows, _centred(missing[:, some].astype(np.float64), rows.y), rows.y, generator)
    names = [name for name, is_there in zip(rows.columns, some, strict=True) if is_there]
    return _part("missing", rows, between, between.p, generator, names, cells=float(missing.mean()))


class _Units(NamedTuple):
    part: ShiftPart | None
    cells: np.ndarray


def _units(rows: _Rows, x: np.ndarray) -> _Units:
    """Owners where one column is spread, or lies, as in another unit; given the label, and beside how much owners
    differ in it anyway.

    p of one cell is exact where rows are exchangeable: the range of m rows covers a share c of the others or less with
    probability m c^(m-1) - (m-1) c^m, and so many rows beyond where the others are with a binomial one.
    """
    owners, columns = len(rows.sizes), x.shape[1]
    cells, factor, best = np.zeros((owners, columns), dtype=bool), np.ones((owners, columns)), 1.0
    numbers = []
    for column in range(columns):
        values = x[:, column]
        known = ~np.isnan(values)
        if len(np.unique(values[known])) < 2 or _mostly_constant(rows, values):
            continue
        numbers.append(column)
        spread, middle, expected = _spread(rows, values)
        typical = float(np.nanmedian(spread))
        if not typical > 0:
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.log(spread / typical)
        offset = (middle - np.nanmedian(middle)) / typical
        times = 1 if owners >= _FEW_OWNERS else 2
        far = np.abs(steps) > np.maximum(times * np.log(_SPREAD), 4 * _usual(steps))
        scaled = np.exp(steps) * (float(np.nanmedian(middle)) + expected)  # where a factor would put it
        far &= (spread > 0) & (np.abs(middle + expected - scaled) <= spread)
        beyond = np.abs(offset) > np.maximum(times * _OFFSET, 4 * _usual(offset))
        strange, coded = _strange(rows, values, ~(far | beyond))
        far, beyond = (far & strange, beyond & strange) if coded else (far, beyond & strange)
        p = np.minimum(1.0, _cell_p(rows, values, far | beyond) * owners * columns)
        if _of_owners(rows, values, ~(far | beyond)):
            continue
        cells[:, column] = (far | beyond) & (p < _CELLS)
        factor[:, column] = np.where(far, spread / typical, 1.0)
        if cells[:, column].any():
            best = min(best, float(p[cells[:, column]].min()))
    if not numbers:
        return _Units(None, cells)
    cells[cells[:, numbers].sum(axis=1) > max(1, len(numbers) / 2)] = False  # noise on everything, or another place
    if not cells.any():
        return _Units(ShiftPart("units", 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), cells)
    share = float((cells.any(axis=1) * rows.sizes).sum() / rows.sizes.sum())
    flagged = [
        (owner, column) for column in np.flatnonzero(cells.any(axis=0)) for owner in np.flatnonzero(cells[:, column])
    ]
    where = tuple(
        f"{rows.columns[column]} at {rows.names[owner]} (× {factor[owner, column]:.3g})" for owner, column in flagged
    )
    return _Units(
        ShiftPart("units", share, share, share, 0.0, 0.0, best, where[:3], {"cells": float(cells.sum())}), cells
    )


def _of_owners(rows: _Rows, values: np.ndarray, owners: np.ndarray) -> bool:
    """Whether values float64 (n,) say something of owners, by those that are chosen bool (owners,)."""
    chosen = owners[rows.owner] & ~np.isnan(values)
    if chosen.sum() < 2:
        return False
    ranks, owner = rankdata(values[chosen]), rows.owner[chosen]
    ranks -= ranks.mean()
    counts = np.bincount(owner, minlength=len(owners))
    between = float((np.bincount(owner, weights=ranks, minlength=len(owners)) ** 2 / np.maximum(counts, 1)).sum())
    chance = (np.count_nonzero(counts) - 1) / max(len(ranks) - 1, 1)
    return between / max(float((ranks**2).sum()), 1e-9) - chance > _OF_OWNERS


def _usual(values: np.ndarray) -> float:
    """A deviation over owners that no few of them decide."""
    known = values[np.isfinite(values)]
    return 1.4826 * float(np.median(np.abs(known - np.median(known)))) if len(known) > 3 else 0.0


def _mostly_constant(rows: _Rows, values: np.ndarray) -> bool:
    """A column that says something of owners, such as their region, and not of rows."""
    low, high = np.fmin.reduceat(values, rows.starts), np.fmax.reduceat(values, rows.starts)
    return 2 * rows.sizes[~(high > low)].sum() > rows.sizes.sum()


def _strange(rows: _Rows, values: np.ndarray, owners: np.ndarray) -> tuple[np.ndarray, bool]:
    """Owners that write what none of the chosen ones bool (owners,) does, bool (owners,), and whether these have few
    codes: then in any row, else beyond their range in some."""
    others = values[owners[rows.owner]]
    codes = np.unique(others[~np.isnan(others)])
    if not len(codes):
        return np.zeros(len(owners), dtype=bool), False
    coded = len(codes) <= _MOST_CODES
    outside = ~np.isin(values, codes) & ~np.isnan(values) if coded else (values < codes[0]) | (values > codes[-1])
    share = np.bincount(rows.owner, weights=outside, minlength=len(owners)) / rows.sizes
    return (share > 0 if coded else share >= _OUTSIDE), coded


def _spread(rows: _Rows, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each owner mean absolute deviation from the median, median less what its labels explain, and what these do;
    NaN where it has fewer than five values."""
    means = [float(np.nanmedian(values[rows.y == label])) for label in range(len(rows.classes))]
    overall = float(np.nanmedian(values))
    spread, middle, by_label = np.full((3, len(rows.sizes)), np.nan)
    for owner, (start, size) in enumerate(zip(rows.starts, rows.sizes, strict=True)):
        part = slice(start, start + size)
        inside, labels = values[part], rows.y[part]
        inside, labels = inside[~np.isnan(inside)], labels[~np.isnan(inside)]
        if len(inside) >= 5:
            expected = float(np.mean([means[label] for label in labels])) - overall
            centre = float(np.median(inside))
            spread[owner], middle[owner] = float(np.abs(inside - centre).mean()), centre - expected
            by_label[owner] = expected
    return spread, middle, by_label


def _cell_p(rows: _Rows, values: np.ndarray, suspects: np.ndarray) -> np.ndarray:
    """p of each suspect bool (owners,), else 1, against all others; the least over labels and
    over both tests, corrected for these."""
    least = np.ones(len(rows.sizes))
    for label in range(len(rows.classes)):
        chosen = (rows.y == label) & ~np.isnan(values)
        inside, owner = values[chosen], rows.owner[chosen]
        order = np.argsort(inside, kind="stable")
        inside, owner = inside[order], owner[order]
        counts = np.bincount(owner, minlength=len(rows.sizes))
        others = inside[~suspects[owner]]
        for who in np.flatnonzero((counts >= 2) & suspects) if len(others) >= 20 else ():
            mine = inside[owner == who]
            size = len(mine)
            inner = np.searchsorted(others, mine[-1], "right") - np.searchsorted(others, mine[0], "left")
            share = (inner + 1) / (len(others) + 1)
            covered = size * share ** (size - 1) - (size - 1) * share**size
            low, high = others[[int(0.01 * len(others)), int(0.99 * len(others))]]
            beyond = ((others < low) | (others > high)).mean() + 2 / len(others)
            outside = int(((mine < low) | (mine > high)).sum())
            by_count = float(bdtrc(outside - 1, size, beyond)) if outside else 1.0
            least[who] = min(least[who], 2 * len(rows.classes) * min(covered, by_count))
    return least


def _covariate(rows: _Rows, scores: np.ndarray, generator: np.random.Generator) -> tuple[ShiftPart, float]:
    """First and second moments of the features' ranks; and p of what differs within a class."""
    numbers = [place for place in range(scores.shape[1]) if len(np.unique(scores[:, place])) > 3]
    values = np.column_stack([scores, scores[:, numbers] ** 2])
    names = [*rows.columns, *(rows.columns[place] for place in numbers)]
    none = np.zeros(len(rows.y), dtype=np.int64)
    within = _between(rows, _centred(values, rows.y), rows.y, generator)
    over_all = _between(rows, _centred(values, none), none, generator)
    return _part("covariate", rows, within, max(within.p, over_all.p), generator, names), within.p


def _components(values: np.ndarray) -> np.ndarray:
    """The first principal components of deviation 1, at most `MOST_INPUTS`."""
    size, turned = np.linalg.eigh(values.T @ values / len(values))
    chosen = np.argsort(-size)[:MOST_INPUTS]
    chosen = chosen[size[chosen] > 1e-6]
    return values @ turned[:, chosen] / np.sqrt(size[chosen])


def _explained(
    rows: _Rows, seen: np.ndarray, unclear: np.ndarray, public: np.ndarray, generator: np.random.Generator
) -> list[ShiftPart | None]:
    """Label, covariate, concept, annotators and public, each beside what would explain it away.

    seen: x without cells in which owners are not comparable; unclear: bool (d,), columns that have such.
    """
    scores = _scores(seen)
    covariate, p_within = _covariate(rows, scores, generator)
    label, p_label = _labels(rows, generator)
    parts: list[ShiftPart | None] = [covariate]
    clear = np.flatnonzero(~unclear & ~np.isnan(seen).all(axis=0))
    if not len(clear):
        return [*parts, _replaced(label, p_label)]
    labelled, further = _labelled(rows, seen[:, clear], public[:, clear])
    p, of_public = labelled.fit(further)
    level = levels(labelled, p, generator)
    by_slope, by_rest = slopes(labelled, labelled.with_levels(p, level.tau2), p, generator)
    p_rule = min(1.0, 2 * min(by_slope.p, by_rest.p))
    p_moved = _moves_with(rows, p, generator)
    if p_moved < (_STAYS if p_rule > ERROR else 2 * ERROR):
        p_rule, p_label = min(p_rule, max(level.p, p_moved)), 1.0
    elif p_within <= ERROR:
        p_label = max(p_label, level.p)
    figures = {"level_tau2": level.tau2, "level_i2": level.i2, "level_p": level.p}
    rule, p_mistaken = _rule(rows, labelled, p, (by_slope, by_rest), p_rule, generator)
    parts += [_replaced(label, max(p_label, p_mistaken), figures), *rule]
    if len(of_public) > 1:
        parts.append(_public(rows, p, of_public, generator))
    return parts


def _replaced(part: ShiftPart, p: float, figures: Mapping[str, float] | None = None) -> ShiftPart:
    return replace(part, p=p, figures={**part.figures, **(figures or {})})


def _labels(rows: _Rows, generator: np.random.Generator) -> tuple[ShiftPart, float]:
    none = np.zeros(len(rows.y), dtype=np.int64)
    counts = np.eye(len(rows.classes))[rows.y]
    between = _between(rows, _centred(counts, none), none, generator)
    distances = hellinger(shares(rows.sums(counts)), shares(counts.sum(axis=0)))
    names = [str(name) for name in rows.classes] if len(rows.classes) > 2 else []
    weighted = float(distances @ rows.sizes / rows.sizes.sum())
    return _part("label", rows, between, between.p, generator, names, hellinger_weighted=weighted), between.p


def _labelled(rows: _Rows, x: np.ndarray, public: np.ndarray) -> tuple[Labelled, np.ndarray]:
    """The regression's design: ranks, their squares, and where a value is missing, few enough for the rows; and that of
    the public rows float64 (public rows, d)."""
    scores = _scores(np.concatenate([x, public]))
    none, count = np.zeros(len(scores)), len(x)
    numbers = [place for place in range(scores.shape[1]) if len(np.unique(scores[:, place])) > 3]
    missing = np.isnan(scores)
    some = missing.mean(axis=0)
    holes = missing[:, (some > 0.01) & (some < 0.99)].astype(np.float64)
    first = _centred(scores, none)
    design = np.column_stack([first, _centred(scores[:, numbers] ** 2, none), _centred(holes, none)])
    design = _components(design)[:, : max(1, min(MOST_INPUTS, count // 15))]
    most = max(4, 2 * MOST_DIRECTIONS // len(rows.classes))
    directions = first if first.shape[1] <= most else _components(first)[:, :most]
    labelled = Labelled(rows.y, len(rows.classes), rows.starts, design[:count], directions[:count])
    return labelled, design[count:]


def _moves_with(rows: _Rows, p: np.ndarray, generator: np.random.Generator) -> float:
    """p of that features move with the classes' frequencies as they do within all rows; 1 where they do so more than
    they stay where they are.

    With M the mean of the probabilities by true class, an owner with other frequencies has probabilities that differ by
    their change times M if features given the class are the same, and by 0 if features are.
    """
    means = np.stack([p[rows.y == label].mean(axis=0) for label in range(len(rows.classes))])
    expected, weight = means[rows.y], 1.0 / rows.sizes[:, None]
    wanted = rows.sums(expected - expected.mean(axis=0)) * weight
    excess = p - expected

    def together(values: np.ndarray) -> float:
        return float((rows.sums(values) * wanted).sum())

    lots = np.array([together(excess[rows.dealt(rows.y, generator)]) for _ in range(LOTS)])
    by_chance = float(expected.var(axis=0).sum()) * (len(rows.sizes) - 1)
    between = float((rows.sizes[:, None] * wanted**2).sum()) - by_chance
    value, spread = together(excess), float(lots.std()) or 1.0
    if value >= -0.5 * max(between, 0.0):
        return 1.0
    return float(ndtr((value - float(lots.mean())) / spread))


_STAYS = 1e-3
"""p of `_moves_with` below which features stay, where nothing else says that labels mean something else."""


def _rule(
    rows: _Rows, labelled: Labelled, p: np.ndarray, differences: tuple[Heterogeneity, Heterogeneity], p_rule: float,
    generator: np.random.Generator,
) -> tuple[list[ShiftPart], float]:  # fmt: skip
    """Concept and annotators: one hypothesis, and which of both explains it. Beside them p of the levels that are left
    once owners differ in their share of wrong labels, 0 where they do not."""
    by_slope, by_rest = differences
    wrong, with_mistakes = wrong_shares(labelled, p)
    mistakes = False
    if p_rule <= ERROR:
        mistakes = 2 * min(rest.p for rest in slopes(labelled, with_mistakes, p, generator)) > _LEFT
    figures = {
        "slope_tau2": by_slope.tau2, "slope_i2": by_slope.i2, "slope_p": by_slope.p,
        "coefficients_i2": by_rest.i2, "coefficients_p": by_rest.p,
    }  # fmt: skip
    best = by_slope if by_slope.p <= by_rest.p else by_rest
    floor = float(best.lots.mean())
    again = generator.multinomial(len(rows.sizes), np.full(len(rows.sizes), 1 / len(rows.sizes)), size=1000)
    drawn = again @ best.by_owner
    low, high = ends(np.maximum(0.0, 1 - floor / np.maximum(drawn, 1e-300)))
    top = ends(np.maximum(0.0, 1 - floor / np.maximum(best.lots, 1e-300)))[1]
    chance = float(np.maximum(0.0, 1 - floor / np.maximum(best.lots, 1e-300)).mean())
    names = tuple(str(rows.names[place]) for place in np.argsort(-best.by_owner)[:3])
    spread = {"wrong_least": float(wrong.min()), "wrong_most": float(wrong.max())}
    concept = ShiftPart("concept", best.i2, low, high, chance, top, 1.0 if mistakes else p_rule, names, figures)
    annotators = replace(concept, kind="annotators", p=p_rule if mistakes else 1.0, figures={**figures, **spread})
    return [concept, annotators], levels(labelled, with_mistakes, generator).p if mistakes else 0.0


def _public(rows: _Rows, p: np.ndarray, public: np.ndarray, generator: np.random.Generator) -> ShiftPart:
    """Black box shift estimation: where features given the class are the same, the mean probabilities among public rows
    are the classes' frequencies there, mixed as those of the owners' rows are."""
    means = np.stack([p[rows.y == label].mean(axis=0) for label in range(len(rows.classes))])
    spread = np.cov(p, rowvar=False) * (1 / len(p) + 1 / len(public))
    unmix, step = np.linalg.pinv(means.T, rcond=1e-3), public.mean(axis=0) - p.mean(axis=0)
    freedom = len(rows.classes) - 1
    p_value = float(chdtrc(freedom, step[1:] @ np.linalg.pinv(spread[1:, 1:]) @ step[1:]))
    noise = generator.multivariate_normal(np.zeros(len(step)), spread, size=1000, method="eigh")
    moved = np.minimum(1.0, np.abs(noise @ unmix.T).sum(axis=1) / 2)
    low, high = ends(np.minimum(1.0, np.abs((step + noise) @ unmix.T).sum(axis=1) / 2))
    change = unmix @ step
    frequencies = np.clip(np.bincount(rows.y) / len(rows.y) + change, 0.0, 1.0)
    figures = {f"share of {name}": float(value) for name, value in zip(rows.classes, frequencies, strict=True)}
    strength = min(1.0, float(np.abs(change).sum() / 2))
    return ShiftPart("public", strength, low, high, float(moved.mean()), ends(moved)[1], p_value, (), figures)


def _corrected(parts: Sequence[ShiftPart]) -> tuple[ShiftPart, ...]:
    """Holm's correction; concept and annotators are one hypothesis."""
    tested = {part.kind: part.p for part in parts if part.kind != "annotators"}
    rule = next((part.p for part in parts if part.kind == "annotators"), 1.0)
    if "concept" in tested:
        tested["concept"] = min(tested["concept"], rule)
    corrected, largest = dict[str, float](), 0.0
    for place, kind in enumerate(sorted(tested, key=lambda kind: tested[kind])):
        largest = max(largest, min(1.0, tested[kind] * (len(tested) - place)))
        corrected[kind] = largest
    shown = []
    for part in parts:
        same = corrected["concept" if part.kind == "annotators" else part.kind]
        shown.append(replace(part, p=same if part.p < 1 or part.kind not in ("concept", "annotators") else 1.0))
    return tuple(sorted(shown, key=lambda part: SHIFT_KINDS.index(part.kind)))
