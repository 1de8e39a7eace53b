"""How much hangs on one party: labels and the student without it, from the votes that are recorded.

For each party (`measures.without_party`): how many of the released labels are others; and of how many rows of the pool
the plurality of all votes, without noise, is another. Where labels change, a student is trained on them anew by the
federation's own trainer and judged on the same test rows. Of a noisy histogram every count changes a little, so the
student is trained on the counts without the party.

What differential privacy bounds is how far the *distribution* of what is released moves with the worst votes; this is
what happened with these votes and this noise. A small influence is no guarantee.
"""

from __future__ import annotations

import numpy as np

from consilium.protocol.labels.service import NO_LABEL
from consilium.simulations.compare.effort import MOST_DRAWS, effort
from consilium.simulations.compare.hand_labels import PublicTruth
from consilium.simulations.compare.learning import CurveLearner, GivenAnswers
from consilium.simulations.study.case import Case
from consilium.simulations.study.ensemble import Ensemble
from consilium.simulations.study.measures.figures import (
    Figures,
    label_counts,
    label_distances,
    quarters,
    rank_correlation,
)
from consilium.simulations.study.measures.spoken import DIGITS, shares_for
from consilium.simulations.study.measures.without_party import Rerun
from consilium.simulations.study.methods.base import Predicted
from consilium.simulations.study.rows import Row
from consilium.simulations.study.said import Said

METHOD = "pate"
_PURPOSE = 0x696E666C


def influence_rows(case: Case, ensemble: Ensemble, predicted: Predicted) -> list[Row]:
    """What changes without each party, as method "pate". Secret. Empty where its result `predicted` is absent.

    party: winners_flipped, rows of the pool whose plurality is another without it; labels_flipped, different queries
    that were asked whose label, or whether they have one, is another; labels_flipped_expected, the same in the mean
    over other noise; auc_change (accuracy_change where there are not two classes), the student's metric without the
    party less that with all, of parties whose student was trained, and 0 of those without whom no label changes.
    run: of each its mean and quantiles over parties and NAME_most (the largest, of changes the largest in size); of the
    first three the rank correlation with the party's rows (NAME_rows_correlation) and with its label distance
    (NAME_distance_correlation). students_trained: of how many parties; where that is not cheap, of the most influential
    and of as many by lot, and mean and quantiles of the change are of the latter. No change without test rows.
    group: "rows 1 of 4" to "rows 4 of 4", parties by their rows: the means.

    A mechanism that takes what the student thinks is followed only where the student asked all at once, with no opinion
    yet; else there is winners_flipped alone.
    """
    if predicted.absent or len(case.parties) < 2:
        return []
    told = Figures(METHOD)
    found = {"winners_flipped": winners_flipped(ensemble.pool, len(case.classes))}
    if len(predicted.arrays["asked_rows"]) and _can_be_followed(case):
        rerun = Rerun(case, ensemble.pool, predicted.arrays)
        flipped = np.array([rerun.flipped(party) for party in range(len(case.parties))])
        found["labels_flipped"], found["labels_flipped_expected"] = flipped[:, 0], flipped[:, 1]
        if len(case.test_y):
            _add_students(told, case, rerun, flipped)
    counts = label_counts(case)
    generator = np.random.default_rng([case.seed, _PURPOSE])
    for metric, values in found.items():
        told.each("party", case.parties, metric, values)
        told.spread(metric, values)
        told.run(f"{metric}_most", values.max())
        told.estimate(f"{metric}_rows_correlation", rank_correlation(values, counts.sum(axis=1), generator))
        told.estimate(f"{metric}_distance_correlation", rank_correlation(values, label_distances(counts), generator))
        _add_groups(told, counts.sum(axis=1), metric, values)
    return told.rows


def winners_flipped(pool: Said, classes: int) -> np.ndarray:
    """Rows whose plurality is another without each party, int64 (parties,); of equal sums the first class is it."""
    parties, _, rows = pool.said.shape
    most, winner = np.full((parties + 1, rows), -1.0), np.zeros((parties + 1, rows), dtype=np.int64)
    for label in range(classes):
        own = shares_for(pool, label).sum(axis=1, dtype=np.float64)
        total = own.sum(axis=0)
        votes = np.concatenate([total - own, total[None]]).round(DIGITS)
        more = votes > most
        most[more], winner[more] = votes[more], label
    return (winner[:-1] != winner[-1]).sum(axis=1)


def _can_be_followed(case: Case) -> bool:
    """Whether it is known what the student thought when it asked: nothing, where it asked all in one round."""
    if case.config.schedule:
        return False
    return not case.config.mechanism.needs_probabilities or case.scenario.student.rounds == 1


def _add_students(told: Figures, case: Case, rerun: Rerun, flipped: np.ndarray) -> None:
    """`flipped` float64 (parties, 2), see `Rerun.flipped`."""
    public = PublicTruth(case.config.rows, case.pool_x, case.pool_y, case.test_x, case.test_y)
    learner = CurveLearner(public, case.scenario.student.last, case.seed)

    def metric(given: GivenAnswers) -> float:
        return float(learner.scores(given.first(len(given.rows))).mean())

    changes = flipped[:, 0] > 0 if rerun.with_all.told is None else np.ones(len(flipped), dtype=bool)
    influence = flipped.sum(axis=1)
    top, by_lot = _chosen(changes, influence, case, int((rerun.with_all.labels != NO_LABEL).sum()))
    before, change = metric(rerun.with_all), np.where(changes, np.nan, 0.0)
    trained = np.intersect1d(np.union1d(top, by_lot), np.flatnonzero(changes))
    for party in trained:
        change[party] = metric(rerun.without(party)) - before
    name = f"{learner.metric}_change"
    told.run("students_trained", len(trained))
    told.each("party", case.parties, name, change)
    told.spread(name, change[by_lot])
    known = change[~np.isnan(change)]
    told.run(f"{name}_most", known[np.abs(known).argmax()])
    if len(known) == len(change):
        _add_groups(told, label_counts(case).sum(axis=1), name, change)


def _chosen(changes: np.ndarray, influence: np.ndarray, case: Case, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Parties whose students are trained, on about so many labels: the most influential of those where labels change,
    `changes` bool (parties,), and as many of all by lot; all, where that is cheap (`compare.effort`)."""
    spec, width = case.scenario.student.last, case.pool_x.shape[1]
    if spec.inputs != "features":
        width = case.config.rows.inputs(case.pool_x[:1]).shape[1]
    whole, parties = effort(spec.trainer, labels, width, len(case.classes), "full"), len(changes)
    draws = whole.draws if whole.bisected else 1  # minutes each
    if draws == MOST_DRAWS["full"] or parties <= 2 * draws:
        return np.arange(parties), np.arange(parties)
    order = np.argsort(-np.where(changes, influence, -1), kind="stable")
    return order[:draws], np.random.default_rng([case.seed, _PURPOSE, 1]).permutation(parties)[:draws]


def _add_groups(told: Figures, rows: np.ndarray, metric: str, values: np.ndarray) -> None:
    groups = quarters(rows)
    for number, part in enumerate(groups, 1):
        told.add("group", f"rows {number} of {len(groups)}", metric, values[part].mean())
