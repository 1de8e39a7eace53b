"""Who gains at home: each method against what the party has by itself, on the rows that it held out.

A gain is positive where the method is better: of one party the difference in accuracy over its rows, and in AUC where
it held both classes out. The parties with the largest gains and losses may be those with the fewest rows. So the worst
decile stands beside its floor: the same after all rows' differences were dealt to parties of the same sizes by lot."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import spearmanr

from consilium.models.evaluation import area_under_curve
from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.methods.base import Predicted
from consilium.simulations.study.measures.figures import Figures, hellinger, label_counts, ratio, shares

AGAINST = "local"  # the method that gains are against: each party's own teachers
LOTS = 200
_EQUAL = 1e-12
_PURPOSE = 0x6761696E


def gain_rows(case: Case, mine: Mapping[str, Predicted]) -> list[Row]:
    """Gains of each of the methods, by name, as rows of that method; none where nothing is held out. Secret.

    party: gain_accuracy, and of two classes gain_auc. run: both, over all rows (or pairs) of all parties, with parties
    drawn anew. Of the accuracy: _parties; _better, _worse: how many parties gain and lose; _worst_decile: mean over the
    tenth of the parties (rounded up) with the least gain, and its floor; _by_size, _by_distance: Spearman's correlation
    of the gain with a party's rows, and with the Hellinger distance of its labels to those of all."""
    alone = mine.get(AGAINST)
    if alone is None or alone.home is None or not len(case.home_y):
        return []
    rows: list[Row] = []
    for method, predicted in mine.items():
        if method != AGAINST and predicted.home is not None:
            figures = Figures(method, rows)
            _add_accuracy(figures, case, alone.home, predicted.home)
            if len(case.classes) == 2:
                _add_auc(figures, case, alone.home[:, 1], predicted.home[:, 1])
    return rows


def _add_accuracy(figures: Figures, case: Case, alone: np.ndarray, method: np.ndarray) -> None:
    name, generator = "gain_accuracy", np.random.default_rng([case.seed, _PURPOSE])
    more = (method.argmax(axis=1) == case.home_y).astype(np.float64) - (alone.argmax(axis=1) == case.home_y)
    place, starts, sizes = np.unique(case.home_party, return_index=True, return_counts=True)
    points = np.add.reduceat(more, starts)
    gains = points / sizes
    figures.series("party", [case.parties[party] for party in place], name, gains)
    figures.run(name, *ratio(points, sizes.astype(np.float64), generator))
    figures.run(f"{name}_parties", len(gains))
    figures.run(f"{name}_better", (gains > _EQUAL).sum())
    figures.run(f"{name}_worse", (gains < -_EQUAL).sum())
    figures.run(f"{name}_worst_decile", worst_decile(gains))
    dealt = [np.add.reduceat(generator.permutation(more), starts) / sizes for _ in range(LOTS)]
    figures.floor(f"{name}_worst_decile", np.array([worst_decile(lot) for lot in dealt]))
    counts = label_counts(case)
    far = hellinger(shares(counts), shares(counts.sum(axis=0)))
    for along, values in {"size": counts.sum(axis=1)[place], "distance": far[place]}.items():
        if np.ptp(values) > _EQUAL and np.ptp(gains) > _EQUAL:
            alike = spearmanr(values, gains).statistic  # pyright: ignore[reportAttributeAccessIssue]
            figures.run(f"{name}_by_{along}", alike)


def _add_auc(figures: Figures, case: Case, alone: np.ndarray, method: np.ndarray) -> None:
    """By pairs of a row of the second class and one of the first, of one party; scores float64 (home,)."""
    gains, pairs = np.full((2, len(case.parties)), np.nan)
    for party in np.unique(case.home_party):
        mine = case.home_party == party
        second = case.home_y[mine] == 1
        if second.any() and not second.all():
            gains[party] = area_under_curve(method[mine], second) - area_under_curve(alone[mine], second)
            pairs[party] = float(second.sum()) * float((~second).sum())
    figures.series("party", case.parties, "gain_auc", gains)
    known = ~np.isnan(gains)
    if known.any():
        generator = np.random.default_rng([case.seed, _PURPOSE])
        figures.run("gain_auc", *ratio(gains[known] * pairs[known], pairs[known], generator))


def worst_decile(gains: np.ndarray) -> float:
    """Mean of the least tenth of float (parties,), rounded up.

    >>> worst_decile(np.array([3.0, -1.0, 2.0])), worst_decile(np.arange(20.0))
    (-1.0, 0.5)
    """
    return float(np.sort(gains)[: int(np.ceil(0.1 * len(gains)))].mean())
