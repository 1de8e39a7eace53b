"""What a division is by itself: sizes, labels and features of its parties, each beside what chance alone would give.

All of a party's rows count, those that it trains on and those that it holds out.

The floor. Small parties differ from the pool by chance, however the rows were divided. So labels are dealt to parties
of the very same sizes by lot, `LOTS` times (the division "shuffled"): the mean of what is measured then stands as
METRIC_floor, with the interval that 95 % of the lots are in. Only what lies above that interval is a finding.
Hellinger's distance is what Hsu, Qi, Brown (2019, arXiv 1909.06335) lack who vary alpha alone: equal alphas give
distances that depend on the number of parties, on their sizes and on the classes.
"""

from __future__ import annotations

import numpy as np

from consilium.simulations.study.artifact import Arrays
from consilium.simulations.study.case import Case
from consilium.simulations.study.measures.features import add_features
from consilium.simulations.study.measures.figures import (
    DISTANCES,
    Divided,
    Figures,
    counted,
    effective_number,
    gini,
    label_counts,
    largest,
    pairwise_hellinger,
    shares,
)
from consilium.simulations.study.rows import Row

METHOD = "division"
LOTS = 200
"""Times that labels are dealt by lot."""
PAIRED_LOTS = 20
"""Of them, those of which distances between all pairs of parties are computed."""
_PURPOSE = 0x666C6F6F72


def division_rows(case: Case) -> list[Row]:
    """Figures of the division, as method "division".

    run: parties, rows, rows_least, rows_median, rows_most, gini of the rows, effective_parties (inverse Simpson),
    one_class_parties (share of parties with a single class), left_out (owners or shards with too few rows);
    division_alpha and others that dividing found (`Partition.found`). Of each label distance (hellinger, js, tv:
    `measures.distances`) to the labels of all: its mean over parties, quantiles, weighted (mean by rows), and the
    floors of mean and weighted; hellinger_pairwise, the mean over all pairs of parties, and its floor. Distances of
    features: see `measures.features`.
    class: share, and the parties that have a row of it. party: rows, the distances.
    """
    counts = label_counts(case)
    sizes = counts.sum(axis=1)
    told = Figures(METHOD)
    for metric, value in {
        "parties": len(sizes),
        "rows": sizes.sum(),
        "rows_least": sizes.min(),
        "rows_median": np.median(sizes),
        "rows_most": sizes.max(),
        "gini": gini(sizes) if len(sizes) > 1 else 0.0,
        "effective_parties": effective_number(sizes),
        "one_class_parties": ((counts > 0).sum(axis=1) == 1).mean(),
        "left_out": case.partition.left_out,
    }.items():
        told.run(metric, value)
    for metric, value in case.partition.found.items():
        told.run(f"division_{metric}", value)
    told.each("class", case.classes, "share", counts.sum(axis=0) / sizes.sum())
    told.each("class", case.classes, "parties", (counts > 0).sum(axis=0))
    told.each("party", case.parties, "rows", sizes)
    _add_labels(told, case, counts)
    add_features(told, case, Divided.of(case))
    return told.rows


def division_matrices(case: Case) -> Arrays:
    """For pictures. parties: names; classes: names; counts int64 (parties, classes). Of at most `MOST_IN_MATRIX`
    parties, the largest: distance_parties (names), and label_distance float64: Hellinger's between each two."""
    counts = label_counts(case)
    chosen = largest(counts.sum(axis=1))
    return {
        "parties": np.array(case.parties, dtype=str),
        "classes": np.array(case.classes, dtype=str),
        "counts": counts,
        "distance_parties": np.array([case.parties[at] for at in chosen], dtype=str),
        "label_distance": pairwise_hellinger(shares(counts[chosen])),
    }


def _add_labels(told: Figures, case: Case, counts: np.ndarray) -> None:
    generator = np.random.default_rng([case.seed, _PURPOSE])
    sizes, pooled = counts.sum(axis=1), shares(counts.sum(axis=0))
    party = np.repeat(np.arange(len(sizes)), sizes)
    y = np.repeat(np.arange(len(pooled)), counts.sum(axis=0))
    chance: dict[str, list[tuple[float, float]]] = {name: [] for name in DISTANCES}
    pairwise = []
    for lot in range(LOTS):
        dealt = shares(counted(party, generator.permutation(y), *counts.shape))
        for name, distance in DISTANCES.items():
            chance[name].append(_means(distance(dealt, pooled), sizes))
        if lot < PAIRED_LOTS and len(sizes) > 1:
            pairwise.append(_mean_of_pairs(dealt))
    for name, distance in DISTANCES.items():
        found, floors = distance(shares(counts), pooled), np.array(chance[name])
        told.spread(name, found)
        told.floor(f"{name}_mean", floors[:, 0])
        told.run(f"{name}_weighted", _means(found, sizes)[1])
        told.floor(f"{name}_weighted", floors[:, 1])
        told.each("party", case.parties, name, found)
    if pairwise:
        told.run("hellinger_pairwise", _mean_of_pairs(shares(counts)))
        told.floor("hellinger_pairwise", np.array(pairwise))


def _means(distances: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    """Over parties, and over parties weighted by their rows."""
    return float(distances.mean()), float(distances @ sizes / sizes.sum())


def _mean_of_pairs(p: np.ndarray) -> float:
    return float(pairwise_hellinger(p).sum() / (len(p) * (len(p) - 1)))
