"""Who gains at home: each method against what the party has by itself, on the rows that it held out.

A gain is positive where the method is better. Of one party it is the mean over its rows of the difference in accuracy
(right or not) or in Brier score (of two classes that of the second's probability, else the sum over classes), and the
difference in AUC where it held both classes out. Few rows make a gain uncertain, and the parties with the largest gains
and losses are then those with the fewest rows. So what is said of the worst decile stands
beside its floor: the same after all rows' differences were dealt to parties of the very same sizes by lot, `LOTS`
times, when no party gains more than another. Of the AUC there is none, for it is of pairs of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from consilium.models.evaluation import area_under_curve
from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.methods.base import Predicted
from consilium.simulations.metrics import brier_row_scores, wilson
from consilium.simulations.study.measures.figures import Figures, ratio

AGAINST = "local"
"""The method that gains are against: each party's own teachers."""
LOTS = 200
WORST = 0.1
"""Share of the parties that the worst decile is."""
_EQUAL = 1e-12
_PURPOSE = 0x6761696E


@dataclass(frozen=True)
class Gains:
    """Of the parties at `place` int64 (parties,), indices into `Case.parties`: points float64 (parties,) that the
    method has more than the party by itself, of how many (rows, or pairs of two rows). rows: float64 (n,), the points
    by row, party after party, where a figure is of rows.
    """

    place: np.ndarray = field(repr=False)
    points: np.ndarray = field(repr=False)
    of: np.ndarray = field(repr=False)
    rows: np.ndarray | None = field(repr=False, default=None)

    @property
    def by_party(self) -> np.ndarray:
        """float64 (parties,)."""
        return self.points / self.of


def gain_rows(case: Case, mine: Mapping[str, Predicted]) -> list[Row]:
    """Gains of each of the methods, by name, against the one named `AGAINST`, as rows of that method. Secret.

    Empty where `AGAINST` is not among them, or nothing is held out at home. NAME is gain_accuracy, gain_brier, or, of
    two classes, gain_auc.

    party: NAME. run: NAME, over all rows (or pairs) of all parties, with parties drawn anew; NAME_parties;
    NAME_better, NAME_worse: how many parties gain and lose; NAME_better_share of those that do either, with Wilson's
    interval; NAME_worst_decile: mean over the tenth of the parties (rounded up) with the least gain, and its floor.
    """
    alone = mine.get(AGAINST)
    if alone is None or alone.home is None or not len(case.home_y):
        return []
    rows: list[Row] = []
    for method, predicted in mine.items():
        if method == AGAINST or predicted.home is None:
            continue
        figures = Figures(method)
        for name, gains in _gains(case, alone.home, predicted.home).items():
            if len(gains.place):
                _add(figures, case, name, gains)
        rows += figures.rows
    return rows


def _gains(case: Case, alone: np.ndarray, method: np.ndarray) -> dict[str, Gains]:
    y, place = case.home_y, case.home_party
    scores = {
        "gain_accuracy": _by_rows(place, _right(method, y) - _right(alone, y)),
        "gain_brier": _by_rows(place, brier_row_scores(alone, y) - brier_row_scores(method, y)),
    }
    if len(case.classes) == 2:
        scores["gain_auc"] = _by_pairs(place, y == 1, alone[:, 1], method[:, 1])
    return scores


def _right(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (probabilities.argmax(axis=1) == y).astype(np.float64)


def _by_rows(party: np.ndarray, points: np.ndarray) -> Gains:
    place, starts = np.unique(party, return_index=True)
    of = np.diff(np.r_[starts, len(party)]).astype(np.float64)
    return Gains(place, np.add.reduceat(points, starts), of, points)


def _by_pairs(party: np.ndarray, positive: np.ndarray, alone: np.ndarray, method: np.ndarray) -> Gains:
    """Pairs of a positive and another row of one party that are in the right order, ties for a half."""
    place, points, of = [], [], []
    for one in np.unique(party):
        mine = party == one
        so = positive[mine]
        pairs = float(so.sum()) * float((~so).sum())
        if pairs:
            place.append(one)
            of.append(pairs)
            points.append(pairs * (area_under_curve(method[mine], so) - area_under_curve(alone[mine], so)))
    return Gains(np.array(place, dtype=np.int64), np.array(points), np.array(of))


def _add(figures: Figures, case: Case, name: str, gains: Gains) -> None:
    by_party, generator = gains.by_party, np.random.default_rng([case.seed, _PURPOSE])
    figures.series("party", [case.parties[place] for place in gains.place], name, by_party)
    figures.run(name, *ratio(gains.points, gains.of, generator))
    figures.run(f"{name}_parties", len(by_party))
    better, worse = int((by_party > _EQUAL).sum()), int((by_party < -_EQUAL).sum())
    figures.run(f"{name}_better", better)
    figures.run(f"{name}_worse", worse)
    if better + worse:
        figures.run(f"{name}_better_share", better / (better + worse), *wilson(better, better + worse))
    figures.run(f"{name}_worst_decile", worst_decile(by_party))
    if gains.rows is not None:
        starts = np.r_[0, np.cumsum(gains.of)[:-1]].astype(np.int64)
        dealt = [np.add.reduceat(generator.permutation(gains.rows), starts) / gains.of for _ in range(LOTS)]
        figures.floor(f"{name}_worst_decile", np.array([worst_decile(lot) for lot in dealt]))


def worst_decile(gains: np.ndarray) -> float:
    """Mean of the least tenth of float (parties,), rounded up.

    >>> worst_decile(np.array([3.0, -1.0, 2.0])), worst_decile(np.arange(20.0))
    (-1.0, 0.5)
    """
    return float(np.sort(gains)[: int(np.ceil(WORST * len(gains)))].mean())
