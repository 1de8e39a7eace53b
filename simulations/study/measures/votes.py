"""What the teachers of a division say: how good, how alike, and what one party changes."""

from __future__ import annotations

import numpy as np

from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.metrics import wilson
from consilium.simulations.study.measures.figures import Figures
from consilium.simulations.vote import Ensemble, TeacherVotes

DIGITS = 6  # of sums of shares: what differs in later ones is equal


def shares_of(votes: TeacherVotes, classes: int) -> np.ndarray:
    """Share of each teacher's vote that each class has, float32 (parties, teachers, rows, classes)."""
    shares = np.eye(classes, dtype=np.float32)[votes.cast]
    if len(votes.tied_row):
        part = votes.tied / votes.tied.sum(axis=1, keepdims=True)
        shares[votes.tied_party, votes.tied_teacher, votes.tied_row] = part
    return shares


def agreement(shares: np.ndarray) -> tuple[float, float]:
    """Of at least two teachers, means over their pairs: the share of rows on which they say the same; Cohen's kappa
    over the pairs that have one (not where both always say the same class), NaN where none does."""
    rows = shares.shape[2]
    flat, means = shares.reshape(-1, rows * shares.shape[3]), shares.mean(axis=2, dtype=np.float64)
    means = means.reshape(len(flat), -1)
    pairs = np.triu_indices(len(flat), 1)
    same, chance = (flat @ flat.T)[pairs] / rows, (means @ means.T)[pairs]
    exists = chance < 1 - 1e-9
    kappas = (same[exists] - chance[exists]) / (1 - chance[exists])
    return float(same.mean(dtype=np.float64)), float(kappas.mean()) if len(kappas) else float("nan")


AMBIGUOUS = 0.1  # lead of the winner, as a share of all votes, below which a row counts as ambiguous


def teacher_rows(case: Case, ensemble: Ensemble) -> list[Row]:
    """Figures of the teachers, as method "teachers". Secret.

    run, on the pool: consensus (mean share of the votes that the winner has), gap (the winner's lead, in votes),
    ambiguity_10 (share of rows whose lead is below a tenth of the votes), plurality_right; agreement, kappa;
    winners_flipped (rows whose plurality is another without a party). On the test rows: teacher_right, accuracy of each
    party's teachers. class: plurality_right (of rows of this class, those whose plurality is it) and plurality_wrong
    (of rows whose plurality it is, those of another class). party: teacher_right, winners_flipped."""
    figures, y, shares = Figures("teachers"), case.pool_y, shares_of(ensemble.pool, len(case.classes))
    votes = shares.sum(axis=(0, 1), dtype=np.float64).round(DIGITS)
    ordered, total = np.sort(votes, axis=1), round(float(votes[0].sum()))
    gap, plurality = ordered[:, -1] - ordered[:, -2], votes.argmax(axis=1)
    figures.run("consensus", ordered[:, -1].mean() / total)
    figures.spread("gap", gap)
    figures.run("ambiguity_10", (gap < AMBIGUOUS * total).mean())
    right = int((plurality == y).sum())
    figures.run("plurality_right", right / len(y), *wilson(right, len(y)))
    for label, name in enumerate(case.classes):
        both = int(((plurality == label) & (y == label)).sum())
        so, called = int((y == label).sum()), int((plurality == label).sum())
        if so:
            figures.add("class", name, "plurality_right", both / so, *wilson(both, so))
        if called:
            figures.add("class", name, "plurality_wrong", 1 - both / called, *wilson(called - both, called))
    if len(shares) > 1:
        flipped = winners_flipped(shares)
        figures.series("party", case.parties, "winners_flipped", flipped)
        figures.spread("winners_flipped", flipped)
        figures.run("winners_flipped_most", flipped.max())
    if shares.shape[0] * shares.shape[1] > 1:
        for metric, value in zip(("agreement", "kappa"), agreement(shares), strict=True):
            figures.series("run", ("",), metric, (value,))
    if len(case.test_y):
        figures.spread("teacher_right", ensemble.test_right)
        figures.series("party", case.parties, "teacher_right", ensemble.test_right)
    return figures.rows


def winners_flipped(shares: np.ndarray) -> np.ndarray:
    """Rows whose plurality is another without each party, int64 (parties,), by `shares_of`; of equal sums the first
    class is it."""
    by_party = shares.sum(axis=1, dtype=np.float64)
    total = by_party.sum(axis=0)
    winner = total.round(DIGITS).argmax(axis=1)
    return np.array([((total - own).round(DIGITS).argmax(axis=1) != winner).sum() for own in by_party])
