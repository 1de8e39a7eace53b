"""Teachers of one party on the held-out rows of another, against its own: how far what is true here is true there.

A party's own teachers have seen rows of the same place: the same features, the same rate of the classes and the same
rule from one to the other. Accuracy tells of all three, the area under the ROC curve of the first and the last, since
ranks within one party do not hang on its rate. On B's rows all teachers are judged on the same rows, so that hard and
easy places do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import rankdata

from consilium.simulations.study.case import Case
from consilium.simulations.study.ensemble import Ensemble
from consilium.simulations.study.measures.spoken import shares_right


@dataclass(frozen=True)
class CrossSite:
    """places: int64 (places,), parties with held-out rows. accuracy: float64 (parties, places), of the votes of the
    party's teachers on the rows of the place. auc: likewise, of its mean probabilities, NaN where the place does not
    have both classes; (0, 0) of more than two classes.
    """

    places: np.ndarray = field(repr=False)
    accuracy: np.ndarray = field(repr=False)
    auc: np.ndarray = field(repr=False)


def cross_site(case: Case, ensemble: Ensemble) -> CrossSite:
    """All teachers on all held-out rows."""
    party, y = case.home_party, case.home_y
    places, starts = np.unique(party, return_index=True)
    if not len(places):
        none = np.zeros((len(case.parties), 0))
        return CrossSite(places, none, np.zeros((0, 0)))
    right = shares_right(ensemble.home, y, len(case.classes))
    rows = np.diff(np.r_[starts, len(party)])
    accuracy = np.add.reduceat(right, starts, axis=1, dtype=np.float64) / rows
    auc = np.zeros((0, 0))
    if len(case.classes) == 2:
        auc = np.full(accuracy.shape, np.nan)
        for at, (start, count) in enumerate(zip(starts, rows, strict=True)):
            part = slice(start, start + count)
            auc[:, at] = _areas(ensemble.home_scores[:, part], y[part] == 1)
    return CrossSite(places, accuracy, auc)


@dataclass(frozen=True)
class Against:
    """Of each place that has such a figure: float64 (places,) own teachers, and the mean of all others'."""

    places: np.ndarray = field(repr=False)
    own: np.ndarray = field(repr=False)
    others: np.ndarray = field(repr=False)


def own_against_others(places: np.ndarray, found: np.ndarray) -> Against:
    """`found` float64 (parties, places), a figure of `CrossSite`, of two parties at least."""
    known = ~np.isnan(found).any(axis=0)
    places, found = places[known], found[:, known]
    own = found[places, np.arange(len(places))]
    return Against(places, own, (found.sum(axis=0) - own) / (len(found) - 1))


def _areas(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Areas under the curves of scores float (parties, rows), NaN each where `positive` bool (rows,) has one kind."""
    count = int(positive.sum())
    if count in (0, len(positive)):
        return np.full(len(scores), np.nan)
    ranks = rankdata(scores, axis=1)[:, positive].sum(axis=1)
    return (ranks - count * (count + 1) / 2) / (count * (len(positive) - count))
