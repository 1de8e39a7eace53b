"""What the teachers of a division say: how good, how alike, and what one party changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.metrics import wilson
from consilium.simulations.study.measures.figures import Figures
from consilium.simulations.vote import Ensemble, TeacherVotes

DIGITS = 6
"""Of sums of shares: what differs in later ones is equal."""


def shares_for(votes: TeacherVotes, label: int) -> np.ndarray:
    """Share of each teacher's vote that is for this class, float32 (parties, teachers, rows)."""
    votes_for = (votes.cast == label).astype(np.float32)
    if len(votes.tied_row):
        part = votes.tied[:, label] / votes.tied.sum(axis=1)
        votes_for[votes.tied_party, votes.tied_teacher, votes.tied_row] = part
    return votes_for


def total_votes(cast: TeacherVotes, classes: int) -> np.ndarray:
    """Votes of all teachers float64 (rows, classes); each row sums to their number."""
    votes = [shares_for(cast, label).sum(axis=(0, 1), dtype=np.float64) for label in range(classes)]
    return np.stack(votes, axis=1).round(DIGITS)


MOST_OPERATIONS = 1e11
"""Floating point operations, some seconds, of all pairs; else they are compared on fewer rows, by lot."""
_AGREEMENT_PURPOSE = 0x6B617070


class VoteAgreement(NamedTuple):
    """share: mean over pairs of teachers of the share of rows on which they say the same. kappa: Cohen's, mean over the
    pairs that have one (not where both always say the same one class), NaN where none does."""

    share: float
    kappa: float


def agreement(cast: TeacherVotes, classes: int, seed: int) -> VoteAgreement:
    """Of at least two teachers, on at least one row. Counts are products of matrices, not loops over pairs."""
    parties, per_party, rows = cast.cast.shape
    teachers = parties * per_party
    most = int(MOST_OPERATIONS / (2.0 * teachers**2 * classes))
    taken = np.arange(rows)
    if most < rows:
        taken = np.sort(np.random.default_rng([seed, _AGREEMENT_PURPOSE]).permutation(rows)[: max(most, 1)])
    same, chance = np.zeros((teachers, teachers)), np.zeros((teachers, teachers))
    for label in range(classes):
        votes = shares_for(cast, label).reshape(teachers, rows)[:, taken]
        same += votes @ votes.T / len(taken)
        shares = votes.mean(axis=1, dtype=np.float64)
        chance += np.outer(shares, shares)
    pairs = np.triu(np.ones((teachers, teachers), dtype=bool), 1)
    exists = pairs & (chance < 1 - 1e-9)
    kappas = (same[exists] - chance[exists]) / (1 - chance[exists])
    return VoteAgreement(float(same[pairs].mean()), float(kappas.mean()) if len(kappas) else float("nan"))


METHOD, FLIPPED = "teachers", "winners_flipped"
AMBIGUOUS = 0.1
"""Lead of the winner, as a share of all votes, below which a row counts as ambiguous."""


def teacher_rows(case: Case, ensemble: Ensemble) -> list[Row]:
    """Figures of the teachers, as method "teachers". Secret.

    run, on the pool: consensus (mean share of the votes that the winner has), gap: mean and quantiles of the winner's
    lead, in votes, ambiguity_10 (share of rows whose lead is below a tenth of the votes), plurality_right with Wilson's
    interval; agreement, kappa (`agreement`). On the test rows: mean and quantiles of teacher_right, accuracy of each
    party's teachers.
    class: plurality_right (of rows of this class, those whose plurality is it) and plurality_wrong (of rows whose
    plurality it is, those of another class), on the pool, with Wilson's intervals.
    party: teacher_right.
    """
    figures, pool, y, classes = Figures(METHOD), ensemble.pool, case.pool_y, len(case.classes)
    votes = total_votes(pool, classes)
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
    if pool.cast.shape[0] * pool.cast.shape[1] > 1:
        alike = agreement(pool, classes, case.seed)
        figures.run("agreement", alike.share)
        figures.series("run", ("",), "kappa", (alike.kappa,))
    if len(case.test_y):
        figures.spread("teacher_right", ensemble.test_right)
        figures.series("party", case.parties, "teacher_right", ensemble.test_right)
    return figures.rows


def influence_rows(case: Case, ensemble: Ensemble) -> list[Row]:
    """What changes without each party, as method "teachers". Secret. Empty where there is one party.

    party: winners_flipped, rows of the pool whose plurality is another without it. run: its mean and quantiles over
    parties, and _most.
    """
    if len(case.parties) < 2:
        return []
    figures, values = Figures(METHOD), winners_flipped(ensemble.pool, len(case.classes))
    figures.series("party", case.parties, FLIPPED, values)
    figures.spread(FLIPPED, values)
    figures.run(f"{FLIPPED}_most", values.max())
    return figures.rows


def winners_flipped(pool: TeacherVotes, classes: int) -> np.ndarray:
    """Rows whose plurality is another without each party, int64 (parties,); of equal sums the first class is it."""
    parties, _, rows = pool.cast.shape
    most, winner = np.full((parties + 1, rows), -1.0), np.zeros((parties + 1, rows), dtype=np.int64)
    for label in range(classes):
        shares = shares_for(pool, label).sum(axis=1, dtype=np.float64)
        total = shares.sum(axis=0)
        votes = np.concatenate([total - shares, total[None]]).round(DIGITS)
        more = votes > most
        most[more], winner[more] = votes[more], label
    return (winner[:-1] != winner[-1]).sum(axis=1)
