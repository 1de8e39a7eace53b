"""What owners lack, or write in another unit or coding: cells in which they cannot be compared with others."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import bdtrc
from scipy.stats import rankdata

from consilium.simulations.study.measures.between import OwnerRows, ShiftPart, between_owners, centred, shift_part

_SPREAD, _OFFSET, _CELLS = 1.7, 2.0, 1e-3
"""Of another unit: the least factor between spreads, or difference in spreads; and p, corrected over all cells."""
_OF_OWNERS = 0.3
"""Share of a column's variance between owners, beyond which it says something of owners, such as how far away they are:
no unit is asked about, and one value in all rows of an owner is no lack."""
_MOST_CODES, _OUTSIDE = 12, 0.25
"""Different values of a column of codes; share of an owner's rows beyond the others' range, where it lies elsewhere."""
_FEW_OWNERS = 8
"""Below it nobody knows how much owners differ anyway: the factor is squared, the difference doubled."""


def lacking_cells(rows: OwnerRows) -> np.ndarray:
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


def missing_part(rows: OwnerRows, missing: np.ndarray, generator: np.random.Generator) -> ShiftPart | None:
    """Given the label: those who died may have fewer values."""
    some = np.any(missing, axis=0) & ~np.all(missing, axis=0)
    if not some.any():
        return None
    between = between_owners(rows, centred(missing[:, some].astype(np.float64), rows.y), rows.y, generator)
    names = [name for name, is_there in zip(rows.columns, some, strict=True) if is_there]
    return shift_part("missing", rows, between, between.p, generator, names, cells=float(missing.mean()))


class UnitCells(NamedTuple):
    """part: what is said, None where no column has numbers; cells: bool (owners, columns), in another unit."""

    part: ShiftPart | None
    cells: np.ndarray


def units_part(rows: OwnerRows, x: np.ndarray) -> UnitCells:
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
        far = np.abs(steps) > np.maximum(times * np.log(_SPREAD), 4 * usual_deviation(steps))
        scaled = np.exp(steps) * (float(np.nanmedian(middle)) + expected)  # where a factor would put it
        far &= (spread > 0) & (np.abs(middle + expected - scaled) <= spread)
        beyond = np.abs(offset) > np.maximum(times * _OFFSET, 4 * usual_deviation(offset))
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
        return UnitCells(None, cells)
    cells[cells[:, numbers].sum(axis=1) > max(1, len(numbers) / 2)] = False  # noise on everything, or another place
    if not cells.any():
        return UnitCells(ShiftPart("units", 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), cells)
    share = float((cells.any(axis=1) * rows.sizes).sum() / rows.sizes.sum())
    flagged = [
        (owner, column) for column in np.flatnonzero(cells.any(axis=0)) for owner in np.flatnonzero(cells[:, column])
    ]
    where = tuple(
        f"{rows.columns[column]} at {rows.names[owner]} (× {factor[owner, column]:.3g})" for owner, column in flagged
    )
    return UnitCells(
        ShiftPart("units", share, share, share, 0.0, 0.0, best, where[:3], {"cells": float(cells.sum())}), cells
    )


def _of_owners(rows: OwnerRows, values: np.ndarray, owners: np.ndarray) -> bool:
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


def usual_deviation(values: np.ndarray) -> float:
    """A deviation over owners that no few of them decide."""
    known = values[np.isfinite(values)]
    return 1.4826 * float(np.median(np.abs(known - np.median(known)))) if len(known) > 3 else 0.0


def _mostly_constant(rows: OwnerRows, values: np.ndarray) -> bool:
    """A column that says something of owners, such as their region, and not of rows."""
    low, high = np.fmin.reduceat(values, rows.starts), np.fmax.reduceat(values, rows.starts)
    return 2 * rows.sizes[~(high > low)].sum() > rows.sizes.sum()


def _strange(rows: OwnerRows, values: np.ndarray, owners: np.ndarray) -> tuple[np.ndarray, bool]:
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


def _median(values: np.ndarray) -> float:
    """Of those that are known; NaN where none is."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else math.nan


def _spread(rows: OwnerRows, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each owner mean absolute deviation from the median, median less what its labels explain, and what these do;
    NaN where it has fewer than five values."""
    means = [_median(values[rows.y == label]) for label in range(len(rows.classes))]
    overall = _median(values)
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


def _cell_p(rows: OwnerRows, values: np.ndarray, suspects: np.ndarray) -> np.ndarray:
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
