"""What the teachers of a division say: how clear their votes are, how far they agree, where they are right.

All of it is before noise, and of votes as `measures.spoken` counts them: it does not change with the mechanism, the
caps or the promise, and every teacher counts once.
"""

from __future__ import annotations

import numpy as np

from consilium.simulations.metrics.intervals import wilson
from consilium.simulations.study.artifact import Arrays
from consilium.simulations.study.case import Case
from consilium.simulations.study.ensemble import Ensemble
from consilium.simulations.study.measures.agreement import agreement
from consilium.simulations.study.measures.cross_site import CrossSite, cross_site, own_against_others
from consilium.simulations.study.measures.figures import (
    Figures,
    label_counts,
    largest,
    pair_correlation,
    pairwise_hellinger,
    ratio,
    shares,
)
from consilium.simulations.study.measures.spoken import total_votes
from consilium.simulations.study.rows import Row

METHOD = "teachers"
AMBIGUOUS = {"ambiguity_02": 0.02, "ambiguity_10": 0.1, "ambiguity_20": 0.2}
"""Lead of the winner, as a share of all votes, below which a row counts as ambiguous, by the figure's name."""
_PURPOSE = 0x63726F7373


def teacher_rows(case: Case, ensemble: Ensemble) -> list[Row]:
    """Figures of the teachers, as method "teachers". Secret.

    run, on the pool and with the prefix test_ on the test rows: consensus (mean share of the votes that the winner
    has), gap_mean and its quantiles (lead of the winner, in votes), ambiguity_02, _10, _20 (share of rows whose lead is
    below so many hundredths of the votes), plurality_right with Wilson's interval.
    run, on the pool: agreement, kappa, kappa_fleiss, kappa_pairs (`measures.agreement`); equal_scores: share of votes
    that a lot decides.
    run: teacher_right_mean and quantiles, accuracy of each party's teachers on the test rows. cross_site_accuracy_own,
    cross_site_accuracy_others and cross_site_accuracy_shift, own minus others, in the mean over parties with held-out
    rows and with parties drawn anew, cross_site_accuracy_parties: how many; of two classes all of it with _auc, of
    parties that held both classes out. cross_site_distance_correlation: Spearman's, over pairs (A, B), of what A's
    teachers lose against B's own on B's rows with the Hellinger distance of A's labels to B's.
    class: plurality_right (of rows of this class, those whose plurality is it) and plurality_wrong (of rows whose
    plurality it is, those of another class), on the pool, with Wilson's intervals; test_ likewise.
    party: teacher_right; kappa with teachers of others; cross_site_accuracy_own and _others on its own rows, and
    cross_site_accuracy_abroad: of its teachers on the rows of others.
    """
    told = Figures(METHOD)
    for prefix, said, y in (("", ensemble.pool, case.pool_y), ("test_", ensemble.test, case.test_y)):
        if len(y):
            _add_votes(told, prefix, total_votes(said, len(case.classes)), y, case.classes)
    if ensemble.pool.said.shape[0] * ensemble.pool.said.shape[1] > 1:
        _add_agreement(told, case, ensemble)
    told.run("equal_scores", len(ensemble.pool.tied_row) / ensemble.pool.said.size)
    if len(case.test_y):
        told.spread("teacher_right", ensemble.test_right)
        told.each("party", case.parties, "teacher_right", ensemble.test_right)
    if len(case.parties) > 1:
        _add_cross_site(told, case, cross_site(case, ensemble))
    return told.rows


def teacher_matrices(case: Case, ensemble: Ensemble) -> Arrays:
    """For pictures, of the largest parties with held-out rows (`divided.MOST_IN_MATRIX`): cross_site_parties (names),
    cross_site_accuracy and, of two classes, cross_site_auc, float64 (teachers of, rows of); NaN where there is none."""
    crossed = cross_site(case, ensemble)
    sizes = label_counts(case).sum(axis=1)
    column = largest(sizes[crossed.places])
    place = crossed.places[column]
    found = {
        "cross_site_parties": np.array([case.parties[at] for at in place], dtype=str),
        "cross_site_accuracy": crossed.accuracy[np.ix_(place, column)],
    }
    if crossed.auc.size:
        found["cross_site_auc"] = crossed.auc[np.ix_(place, column)]
    return found


def _add_votes(told: Figures, prefix: str, votes: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> None:
    """`votes` float64 (rows, classes), of all parties together."""
    ordered = np.sort(votes, axis=1)
    total = round(float(votes[0].sum()))
    gap, plurality = ordered[:, -1] - ordered[:, -2], votes.argmax(axis=1)
    told.run(f"{prefix}consensus", ordered[:, -1].mean() / total)
    told.spread(f"{prefix}gap", gap)
    for metric, least in AMBIGUOUS.items():
        told.run(f"{prefix}{metric}", (gap < least * total).mean())
    right = int((plurality == y).sum())
    told.run(f"{prefix}plurality_right", right / len(y), *wilson(right, len(y)))
    for label, name in enumerate(classes):
        both = int(((plurality == label) & (y == label)).sum())
        so, called = int((y == label).sum()), int((plurality == label).sum())
        if so:
            told.add("class", name, f"{prefix}plurality_right", both / so, *wilson(both, so))
        if called:
            told.add("class", name, f"{prefix}plurality_wrong", 1 - both / called, *wilson(called - both, called))


def _add_agreement(told: Figures, case: Case, ensemble: Ensemble) -> None:
    found = agreement(ensemble.pool, len(case.classes), case.seed)
    told.run("agreement", found.agreement)
    for metric, value in {"kappa": found.cohen, "kappa_fleiss": found.fleiss}.items():
        told.each("run", ("",), metric, (value,))
    told.run("kappa_pairs", found.pairs)
    told.each("party", case.parties, "kappa", found.by_party)


def _add_cross_site(told: Figures, case: Case, crossed: CrossSite) -> None:
    generator = np.random.default_rng([case.seed, _PURPOSE])
    for name, found in {"cross_site_accuracy": crossed.accuracy, "cross_site_auc": crossed.auc}.items():
        if not found.size:
            continue
        against = own_against_others(crossed.places, found)
        told.run(f"{name}_parties", len(against.places))
        if len(against.places):
            ones = np.ones(len(against.places))
            told.estimate(f"{name}_own", ratio(against.own, ones, generator))
            told.estimate(f"{name}_others", ratio(against.others, ones, generator))
            told.estimate(f"{name}_shift", ratio(against.own - against.others, ones, generator))
    _add_by_place(told, case, crossed)
    place = crossed.places
    if len(place):
        accuracy = crossed.accuracy[place]
        lost = np.diag(accuracy) - accuracy
        distance = pairwise_hellinger(shares(label_counts(case)[place]))
        told.estimate("cross_site_distance_correlation", pair_correlation(distance, lost, generator))


def _add_by_place(told: Figures, case: Case, crossed: CrossSite) -> None:
    names = [case.parties[at] for at in crossed.places]
    against = own_against_others(crossed.places, crossed.accuracy)
    told.each("party", names, "cross_site_accuracy_own", against.own)
    told.each("party", names, "cross_site_accuracy_others", against.others)
    own = np.zeros(len(case.parties))
    own[crossed.places] = against.own
    elsewhere = len(crossed.places) - np.isin(np.arange(len(case.parties)), crossed.places)
    abroad = (crossed.accuracy.sum(axis=1) - own) / np.maximum(elsewhere, 1)
    told.each("party", case.parties, "cross_site_accuracy_abroad", np.where(elsewhere > 0, abroad, np.nan))
