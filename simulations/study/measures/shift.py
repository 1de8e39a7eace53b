"""How the parties' data differ: labels, sizes, features by a two-sample test; and which kind of difference a division
has: each kind with its strength, an interval, and what chance alone gives.

A plain label skew moves the features too, a change of the features moves the labels, and swapped labels move both given
the other. So each test is conditioned on what would explain it away:

- label: how frequent the classes are, where features given the class are the same, or do not explain it;
- covariate: the features, and the features given the class. Rows are dealt to owners by lot within each class, so that
  no skew of labels counts as a difference of features;
- concept: labels given features. Against one additive logistic regression of all rows, with an intercept for each
  owner, slopes and coefficients differ between owners (`between`). A level that moves without the features that
  come with the class is concept too.
- quantity: sizes.

Holm's correction is over the kinds that can be judged, so that of divisions by lot at most `ERROR` have any kind named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import chisquare

from consilium.models.evaluation import area_under_curve
from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.metrics import holm, shares
from consilium.simulations.study.measures.between import (
    ERROR,
    LOTS,
    MOST_INPUTS,
    PURPOSE,
    SHIFT_KINDS,
    Heterogeneity,
    Labelled,
    OwnerRows,
    ShiftKind,
    ShiftPart,
    between_owners,
    centred,
    components,
    levels,
    ranks,
    slopes,
)
from consilium.simulations.study.measures.figures import (
    DISTANCES,
    Figures,
    counted,
    ends,
    gini,
    label_counts,
    ratio,
    rows_of,
)

MOST_DIRECTIONS = 24  # in which coefficients of two classes may differ between owners; of more classes fewer
_STAYS = 1e-3  # p of `_moves_with` below which features stay, where nothing else says that labels mean something else
_MOST_COLUMNS = 256
"""Beyond which columns are pixels, and principal components of their ranks are looked at in their place."""


class WhichShift(NamedTuple):
    """parts: every kind that could be judged, in the order of `SHIFT_KINDS`."""

    owners: int
    rows: int
    parts: tuple[ShiftPart, ...]

    @property
    def named(self) -> tuple[ShiftKind, ...]:
        return tuple(part.kind for part in self.parts if part.named)


def shift_of(case: Case) -> WhichShift:
    """Of all rows that the parties have."""
    dataset, (rows, party) = case.dataset, rows_of(case)
    x, features = np.array(dataset.x, dtype=np.float64), list(dataset.features)
    shown = np.ones(len(features), dtype=bool)
    for column in dataset.columns:
        if column.missing:  # the schema has filled these in, and says where
            *places, missing = (features.index(name) for name in column.features)
            x[np.ix_(x[:, missing] == 1, places)] = np.nan
            shown[missing] = False
    order = np.lexsort((rows, party))  # whichever of them are held out at home
    rows = rows[order]
    owners, unit = np.array(case.parties)[party[order]], None if dataset.patient is None else dataset.patient[rows]
    return which_shift(x[np.ix_(rows, shown)], dataset.y[rows], owners, unit=unit, seed=case.seed)


def which_shift(
    x: np.ndarray, y: np.ndarray, owners: np.ndarray, *, unit: np.ndarray | None = None, seed: int = 0
) -> WhichShift:
    """Which kinds of difference there are between owners.

    x: float (rows, columns), NaN where a value is missing; categories as columns of 0 and 1. y: label of each row, and
    owners: whose it is, (rows,) of anything that can be sorted. unit: (rows,), whose rows belong together (patients);
    one row of each at an owner is looked at.

    Raises DataError: shapes that do not fit, a value that is infinite, one owner alone.

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
    sizes, count = rows.every, len(rows.every)  # against rows that fall to each owner with the same probability
    lots = [gini(row) for row in generator.multinomial(int(sizes.sum()), np.full(count, 1 / count), size=LOTS)]
    again = np.array([gini(sizes[generator.integers(count, size=count)]) for _ in range(LOTS)])
    p_sizes = float(chisquare(sizes).pvalue)
    quantity = ShiftPart("quantity", gini(sizes), *ends(again), float(np.mean(lots)), p_sizes)
    # first and second moments of the features' ranks
    scores, none = ranks(rows.x), np.zeros(len(rows.y), dtype=np.int64)
    values = np.column_stack([scores, scores[:, _numbers(scores)] ** 2])
    within = between_owners(rows, centred(values, rows.y), rows.y, generator)
    over_all = between_owners(rows, centred(values, none), none, generator)
    covariate = within.part("covariate", rows, max(within.p, over_all.p), generator)
    judged = [quantity, covariate, *(_explained(rows, within.p, generator) if rows.classes > 1 else [])]
    corrected = zip(judged, holm([part.p for part in judged]), strict=True)
    parts = sorted((replace(part, p=p) for part, p in corrected), key=lambda part: SHIFT_KINDS.index(part.kind))
    return WhichShift(count, int(sizes.sum()), tuple(parts))


def _numbers(scores: np.ndarray) -> list[int]:
    return [place for place in range(scores.shape[1]) if len(np.unique(scores[:, place])) > 3]


def _explained(rows: OwnerRows, p_within: float, generator: np.random.Generator) -> list[ShiftPart]:
    """Label and concept, each beside what would explain it away. A column that an owner has no value of says nothing of
    concept: owners are not comparable there."""
    none = np.zeros(len(rows.y), dtype=np.int64)
    between = between_owners(rows, centred(np.eye(rows.classes)[rows.y], none), none, generator)
    label = between.part("label", rows, between.p, generator)
    known = np.flatnonzero(~np.isnan(np.fmin.reduceat(rows.x, rows.starts, axis=0)).any(axis=0))
    if not len(known):
        return [label]
    labelled = _labelled(rows, rows.x[:, known])
    p = labelled.fit()
    level, tau2 = levels(labelled, p, generator)
    by_slope, by_rest = slopes(labelled, labelled.with_levels(p, tau2), p, generator)
    p_label, p_rule = label.p, min(1.0, 2 * min(by_slope.p, by_rest.p))
    p_moved = _moves_with(rows, p, generator)
    if p_moved < (_STAYS if p_rule > ERROR else 2 * ERROR):
        p_rule, p_label = min(p_rule, max(level.p, p_moved)), 1.0
    elif p_within <= ERROR:
        p_label = max(p_label, level.p)
    return [replace(label, p=p_label), _concept(min(by_slope, by_rest, key=lambda found: found.p), p_rule, generator)]


def _labelled(rows: OwnerRows, x: np.ndarray) -> Labelled:
    """The regression's design: ranks, their squares, and where a value is missing, few enough for the rows."""
    scores, none = ranks(x), np.zeros(len(x))
    missing = np.isnan(scores)
    some = missing.mean(axis=0)
    holes = missing[:, (some > 0.01) & (some < 0.99)].astype(np.float64)
    first = centred(scores, none)
    design = np.column_stack([first, centred(scores[:, _numbers(scores)] ** 2, none), centred(holes, none)])
    design = components(design)[:, : max(1, min(MOST_INPUTS, len(x) // 15))]
    most = max(4, 2 * MOST_DIRECTIONS // rows.classes)
    return Labelled(rows, design, first if first.shape[1] <= most else components(first)[:, :most])


def _moves_with(rows: OwnerRows, p: np.ndarray, generator: np.random.Generator) -> float:
    """p of that features move with the classes' frequencies as they do within all rows; 1 where they do so more than
    they stay where they are. With M the mean of the probabilities by true class, an owner with other frequencies has
    probabilities that differ by their change times M if features given the class are the same, and by 0 if features
    are."""
    means = np.stack([p[rows.y == label].mean(axis=0) for label in range(rows.classes)])
    expected = means[rows.y]
    wanted = rows.sums(expected - expected.mean(axis=0)) / rows.sizes[:, None]
    excess = p - expected

    def together(values: np.ndarray) -> float:
        return float((rows.sums(values) * wanted).sum())

    lots = np.array([together(excess[rows.dealt(rows.y, generator)]) for _ in range(LOTS)])
    by_chance = float(expected.var(axis=0).sum()) * (len(rows.sizes) - 1)
    between = float((rows.sizes[:, None] * wanted**2).sum()) - by_chance
    value = together(excess)
    if value >= -0.5 * max(between, 0.0):
        return 1.0
    return float(ndtr((value - lots.mean()) / (lots.std() or 1.0)))


def _concept(found: Heterogeneity, p: float, generator: np.random.Generator) -> ShiftPart:
    """I²: the share of Q that chance does not give."""
    floor, owners = float(found.lots.mean()), len(found.by_owner)

    def i2(q: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1 - floor / np.maximum(q, 1e-300))

    again = generator.multinomial(owners, np.full(owners, 1 / owners), size=1000) @ found.by_owner
    strength, by_chance = float(i2(np.array(found.q))), float(i2(found.lots).mean())
    return ShiftPart("concept", strength, *ends(i2(again)), by_chance, p)


WIDTH = 256
"""Inputs beyond which rows are seen in so many random directions (Johnson, Lindenstrauss 1984), which keep distances:
images have thousands."""
JUDGED = 20  # parties, the largest ones, that a classifier tells from the others
LEAST_JUDGED = 12  # rows that such a party has at least
OWN_ROWS, OTHER_ROWS = 500, 1500  # of a party and of the others, by lot, that a classifier sees at most
FOLDS = 3
_FEATURES_PURPOSE = 0x66656174


def add_features(figures: Figures, case: Case) -> None:
    """run: c2st_auc_mean with its interval, c2st_parties: how many were judged. party: c2st_auc."""
    (divided, party), generator = rows_of(case), np.random.default_rng([case.seed, _FEATURES_PURPOSE])
    sizes = np.bincount(party)
    if len(sizes) < 2:
        return
    inputs, areas = case.config.rows.inputs(case.pool_x[:1]).shape[1], np.full(len(sizes), np.nan)
    onto = generator.standard_normal((inputs, WIDTH)) / np.sqrt(WIDTH) if inputs > WIDTH else None
    for place in np.argsort(-sizes, kind="stable")[:JUDGED]:
        inside, others = np.flatnonzero(party == place), np.flatnonzero(party != place)
        if min(len(inside), len(others)) >= LEAST_JUDGED:
            mine, rest = generator.permutation(inside)[:OWN_ROWS], generator.permutation(others)[:OTHER_ROWS]
            rows = divided[np.r_[mine, rest]]
            unit = rows if case.dataset.patient is None else case.dataset.patient[rows]
            seen = case.config.rows.inputs(case.dataset.x[rows])
            seen = seen if onto is None else seen @ onto
            areas[place] = told_apart(seen, np.arange(len(rows)) < len(mine), unit, generator)
    judged = areas[~np.isnan(areas)]
    figures.series("party", case.parties, "c2st_auc", areas)
    figures.run("c2st_parties", len(judged))
    if len(judged):
        figures.run("c2st_auc_mean", *ratio(judged, np.ones(len(judged)), generator))


def told_apart(x: np.ndarray, rows: np.ndarray, unit: np.ndarray, generator: np.random.Generator) -> float:
    """Area under the curve of a logistic regression that tells rows that are `rows` bool (n,) from the others. x:
    float64 (n, inputs), standardised. unit: int64 (n,), whose each row is. Pairs are of rows of one fold, that one
    regression has judged and not seen; NaN where no fold has both kinds."""
    from sklearn.linear_model import LogisticRegression  # half a second to import: only where it is used

    fold = np.zeros(len(x), dtype=np.int64)
    for kind in (rows, ~rows):
        names, which = np.unique(unit[kind], return_inverse=True)
        if len(names) < 2 * FOLDS:  # few units: by rows
            which = np.arange(len(which))
        fold[kind] = (generator.permutation(which.max() + 1) % FOLDS)[which]
    ordered, pairs = 0.0, 0.0
    for index in range(FOLDS):
        tested = fold == index
        of = float((rows & tested).sum()) * float((~rows & tested).sum())
        if of and rows[~tested].any() and not rows[~tested].all():
            model = LogisticRegression(max_iter=300).fit(x[~tested], rows[~tested])
            ordered += of * area_under_curve(model.decision_function(x[tested]), rows[tested])
            pairs += of
    return ordered / pairs if pairs else float("nan")


CHANCE_LOTS = 200  # times that labels are dealt by lot
_PURPOSE = 0x666C6F6F72


def division_rows(case: Case) -> list[Row]:
    """Figures of the division, as method "division". run: sizes; one_class_parties (share of parties with a single
    class); left_out (owners or shards with too few rows); division_alpha and others that dividing found
    (`Partition.measures`). Of each label distance (`figures.DISTANCES`) to the labels of all: mean and quantiles over
    parties, and the mean's floor. Of features: see `add_features`. shift_KIND of each kind of difference that can be
    judged, with the floor, p corrected over the kinds, and _named: 1 or 0. party: rows, the distances."""
    counts = label_counts(case)
    sizes = counts.sum(axis=1)
    figures = Figures("division")
    for metric, value in {
        "parties": len(sizes),
        "rows": sizes.sum(),
        "rows_least": sizes.min(),
        "rows_median": np.median(sizes),
        "rows_most": sizes.max(),
        "gini": gini(sizes) if len(sizes) > 1 else 0.0,
        "one_class_parties": ((counts > 0).sum(axis=1) == 1).mean(),
        "left_out": case.partition.left_out,
        **{f"division_{metric}": value for metric, value in case.partition.measures.items()},
    }.items():
        figures.run(metric, value)
    figures.series("party", case.parties, "rows", sizes)
    generator, pooled = np.random.default_rng([case.seed, _PURPOSE]), shares(counts.sum(axis=0))
    party, y = np.repeat(np.arange(len(counts)), sizes), np.repeat(np.arange(len(pooled)), counts.sum(axis=0))
    dealt = [shares(counted(party, generator.permutation(y), *counts.shape)) for _ in range(CHANCE_LOTS)]
    for name, distance in DISTANCES.items():
        distances = distance(shares(counts), pooled)
        figures.spread(name, distances)
        figures.floor(f"{name}_mean", np.array([distance(lot, pooled).mean() for lot in dealt]))
        figures.series("party", case.parties, name, distances)
    add_features(figures, case)
    for part in shift_of(case).parts:
        figures.run(f"shift_{part.kind}", part.strength, part.low, part.high)
        for metric, value in {"floor": part.floor, "p": part.p, "named": part.named}.items():
            figures.run(f"shift_{part.kind}_{metric}", value)
    return figures.rows
