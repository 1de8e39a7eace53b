"""How the parties' data differ: labels and sizes, and features by a two-sample test."""

from __future__ import annotations

import numpy as np

from consilium.models.evaluation import area_under_curve
from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.study.measures.figures import (
    DISTANCES,
    Figures,
    counted,
    gini,
    label_counts,
    ratio,
    rows_of,
    shares,
)
from consilium.simulations.study.measures.shift import shift_of

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
        fold[kind] = _folds(unit[kind], generator)
    ordered, pairs = 0.0, 0.0
    for index in range(FOLDS):
        tested = fold == index
        of = float((rows & tested).sum()) * float((~rows & tested).sum())
        if of and rows[~tested].any() and not rows[~tested].all():
            model = LogisticRegression(max_iter=300).fit(x[~tested], rows[~tested])
            ordered += of * area_under_curve(model.decision_function(x[tested]), rows[tested])
            pairs += of
    return ordered / pairs if pairs else float("nan")


def _folds(unit: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Fold int64 (n,) of each row: units by lot, or rows where there are few units."""
    names, which = np.unique(unit, return_inverse=True)
    if len(names) < 2 * FOLDS:
        which = np.arange(len(unit))
    return (generator.permutation(which.max() + 1) % FOLDS)[which]


CHANCE_LOTS = 200  # times that labels are dealt by lot
_PURPOSE = 0x666C6F6F72


def division_rows(case: Case) -> list[Row]:
    """Figures of the division, as method "division". run: sizes; one_class_parties (share of parties with a single
    class); left_out (owners or shards with too few rows); division_alpha and others that dividing found
    (`Partition.measures`). Of each label distance (`figures.DISTANCES`) to the labels of all: mean and quantiles over
    parties, and the mean's floor. Of features: see `add_features`. shift_KIND of each kind of difference that can be
    judged, with the floor, p corrected over the kinds, and _named: 1 or 0. class: share, and the parties that have a
    row of it. party: rows, the distances."""
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
    figures.series("class", case.classes, "share", counts.sum(axis=0) / sizes.sum())
    figures.series("class", case.classes, "parties", (counts > 0).sum(axis=0))
    figures.series("party", case.parties, "rows", sizes)
    _add_labels(figures, case, counts)
    add_features(figures, case)
    for part in shift_of(case).parts:
        figures.run(f"shift_{part.kind}", part.strength, part.low, part.high)
        for metric, value in {"floor": part.floor, "p": part.p, "named": part.named}.items():
            figures.run(f"shift_{part.kind}_{metric}", value)
    return figures.rows


def _add_labels(figures: Figures, case: Case, counts: np.ndarray) -> None:
    generator = np.random.default_rng([case.seed, _PURPOSE])
    pooled = shares(counts.sum(axis=0))
    party = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    y = np.repeat(np.arange(len(pooled)), counts.sum(axis=0))
    dealt = [shares(counted(party, generator.permutation(y), *counts.shape)) for _ in range(CHANCE_LOTS)]
    for name, distance in DISTANCES.items():
        distances = distance(shares(counts), pooled)
        figures.spread(name, distances)
        figures.floor(f"{name}_mean", np.array([distance(lot, pooled).mean() for lot in dealt]))
        figures.series("party", case.parties, name, distances)
