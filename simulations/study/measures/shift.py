"""Which kind of difference a division has: each kind with its strength, an interval, and what chance alone gives.

A plain label skew moves the features too, a change of the features moves the labels, and swapped labels move both given
the other. So each test is conditioned on what would explain it away:

- label: how frequent the classes are, where features given the class are the same, or do not explain it;
- covariate: the features, and the features given the class. Rows are dealt to owners by lot within each class, so that
  no skew of labels, however strong, counts as a difference of features;
- concept: labels given features. Against one additive logistic regression of all rows, with an intercept for each
  owner, slopes and coefficients differ between owners (Cochran's Q, DerSimonian and Laird's tau^2, Higgins' I^2);
  chance is drawn from the regression's own probabilities. A level that moves without the features that come with the
  class is concept too.
- quantity: sizes.

Holm's correction is over the kinds that can be judged, so that of divisions by lot at most `ERROR` have any kind named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc, ndtr

from consilium.simulations.divide import Case
from consilium.simulations.metrics import holm
from consilium.simulations.study.measures.between import (
    ERROR,
    MOST_INPUTS,
    PURPOSE,
    SHIFT_KINDS,
    OwnerRows,
    ShiftKind,
    ShiftPart,
    between_owners,
    centred,
    components,
    ranks,
    shift_part,
)
from consilium.simulations.study.measures.figures import Divided, ends, gini
from consilium.simulations.study.measures.heterogeneity import LOTS, Heterogeneity, Labelled, levels, slopes

MOST_DIRECTIONS = 24
"""In which coefficients of two classes may differ between owners; of more classes fewer."""


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


def shift_of(case: Case) -> WhichShift:
    """Of all rows that the parties have."""
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
        unit=None if dataset.patient is None else dataset.patient[rows],
        seed=case.seed,
    )


def which_shift(
    x: np.ndarray, y: np.ndarray, owners: np.ndarray, *, unit: np.ndarray | None = None, seed: int = 0
) -> WhichShift:
    """Which kinds of difference there are between owners.

    x: float (rows, columns), NaN where a value is missing; categories as columns of 0 and 1. y: label of each row, and
    owners: whose it is, (rows,) of anything that can be sorted. unit: (rows,), whose rows belong together (patients);
    one row of each at an owner is looked at.

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
    x = np.asarray(x, dtype=np.float64)
    if x.ndim == 2 and x.shape[1] > _MOST_COLUMNS:
        x = components(centred(ranks(x), np.zeros(len(x))))
    rows = OwnerRows.of(x, y, owners, unit, seed)
    generator = np.random.default_rng([seed, PURPOSE])
    judged = [_quantity(rows, generator)]
    if len(np.unique(rows.y)) > 1:
        judged += _explained(rows, generator)
    else:
        judged.append(_covariate(rows, ranks(rows.x), generator)[0])
    return WhichShift(len(rows.sizes), int(rows.every.sum()), _corrected(judged))


_MOST_COLUMNS = 256
"""Beyond which columns are pixels, and principal components of their ranks are looked at in their place."""


def _quantity(rows: OwnerRows, generator: np.random.Generator) -> ShiftPart:
    """Against rows that fall to each owner with the same probability."""
    sizes, count = rows.every, len(rows.every)
    expected = sizes.sum() / count
    p = float(chdtrc(count - 1, ((sizes - expected) ** 2).sum() / expected))
    lots = [gini(row) for row in generator.multinomial(int(sizes.sum()), np.full(count, 1 / count), size=LOTS)]
    again = [gini(sizes[generator.integers(count, size=count)]) for _ in range(LOTS)]
    low, high = ends(np.array(again))
    floor = np.array(lots)
    return ShiftPart("quantity", gini(sizes), low, high, float(floor.mean()), ends(floor)[1], p)


def _covariate(rows: OwnerRows, scores: np.ndarray, generator: np.random.Generator) -> tuple[ShiftPart, float]:
    """First and second moments of the features' ranks; and p of what differs within a class."""
    numbers = [place for place in range(scores.shape[1]) if len(np.unique(scores[:, place])) > 3]
    values = np.column_stack([scores, scores[:, numbers] ** 2])
    none = np.zeros(len(rows.y), dtype=np.int64)
    within = between_owners(rows, centred(values, rows.y), rows.y, generator)
    over_all = between_owners(rows, centred(values, none), none, generator)
    return shift_part("covariate", rows, within, max(within.p, over_all.p), generator), within.p


def _explained(rows: OwnerRows, generator: np.random.Generator) -> list[ShiftPart]:
    """Label, covariate and concept, each beside what would explain it away. A column that an owner has no value of says
    nothing of concept: owners are not comparable there."""
    covariate, p_within = _covariate(rows, ranks(rows.x), generator)
    label = _labels(rows, generator)
    p_label = label.p
    clear = np.flatnonzero(~np.isnan(np.fmin.reduceat(rows.x, rows.starts, axis=0)).any(axis=0))
    if not len(clear):
        return [covariate, replace(label, p=p_label)]
    labelled = _labelled(rows, rows.x[:, clear])
    p = labelled.fit()
    level, tau2 = levels(labelled, p, generator)
    by_slope, by_rest = slopes(labelled, labelled.with_levels(p, tau2), p, generator)
    p_rule = min(1.0, 2 * min(by_slope.p, by_rest.p))
    p_moved = _moves_with(rows, p, generator)
    if p_moved < (_STAYS if p_rule > ERROR else 2 * ERROR):
        p_rule, p_label = min(p_rule, max(level.p, p_moved)), 1.0
    elif p_within <= ERROR:
        p_label = max(p_label, level.p)
    concept = _concept(rows, (by_slope, by_rest), p_rule, generator)
    return [covariate, replace(label, p=p_label), concept]


def _labels(rows: OwnerRows, generator: np.random.Generator) -> ShiftPart:
    none = np.zeros(len(rows.y), dtype=np.int64)
    counts = np.eye(rows.classes)[rows.y]
    between = between_owners(rows, centred(counts, none), none, generator)
    return shift_part("label", rows, between, between.p, generator)


def _labelled(rows: OwnerRows, x: np.ndarray) -> Labelled:
    """The regression's design: ranks, their squares, and where a value is missing, few enough for the rows."""
    scores = ranks(x)
    none, count = np.zeros(len(scores)), len(x)
    numbers = [place for place in range(scores.shape[1]) if len(np.unique(scores[:, place])) > 3]
    missing = np.isnan(scores)
    some = missing.mean(axis=0)
    holes = missing[:, (some > 0.01) & (some < 0.99)].astype(np.float64)
    first = centred(scores, none)
    design = np.column_stack([first, centred(scores[:, numbers] ** 2, none), centred(holes, none)])
    design = components(design)[:, : max(1, min(MOST_INPUTS, count // 15))]
    most = max(4, 2 * MOST_DIRECTIONS // rows.classes)
    directions = first if first.shape[1] <= most else components(first)[:, :most]
    return Labelled(rows.y, rows.classes, rows.starts, design, directions)


def _moves_with(rows: OwnerRows, p: np.ndarray, generator: np.random.Generator) -> float:
    """p of that features move with the classes' frequencies as they do within all rows; 1 where they do so more than
    they stay where they are.

    With M the mean of the probabilities by true class, an owner with other frequencies has probabilities that differ by
    their change times M if features given the class are the same, and by 0 if features are.
    """
    means = np.stack([p[rows.y == label].mean(axis=0) for label in range(rows.classes)])
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


def _concept(
    rows: OwnerRows, differences: tuple[Heterogeneity, Heterogeneity], p_rule: float, generator: np.random.Generator
) -> ShiftPart:
    by_slope, by_rest = differences
    best = by_slope if by_slope.p <= by_rest.p else by_rest
    floor = float(best.lots.mean())
    again = generator.multinomial(len(rows.sizes), np.full(len(rows.sizes), 1 / len(rows.sizes)), size=1000)
    drawn = again @ best.by_owner
    low, high = ends(np.maximum(0.0, 1 - floor / np.maximum(drawn, 1e-300)))
    by_chance = np.maximum(0.0, 1 - floor / np.maximum(best.lots, 1e-300))
    chance, top = float(by_chance.mean()), ends(by_chance)[1]
    return ShiftPart("concept", best.i2, low, high, chance, top, p_rule)


def _corrected(parts: Sequence[ShiftPart]) -> tuple[ShiftPart, ...]:
    shown = [replace(part, p=p) for part, p in zip(parts, holm([part.p for part in parts]), strict=True)]
    return tuple(sorted(shown, key=lambda part: SHIFT_KINDS.index(part.kind)))
