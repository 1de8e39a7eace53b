"""What one party changes: rows whose winner is another without it."""

from __future__ import annotations

import numpy as np

from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.study.measures.figures import Figures
from consilium.simulations.study.measures.votes import DIGITS, shares_for
from consilium.simulations.vote import Ensemble, TeacherVotes

METHOD = "teachers"
METRIC = "winners_flipped"


def influence_rows(case: Case, ensemble: Ensemble) -> list[Row]:
    """What changes without each party, as method "teachers". Secret. Empty where there is one party.

    party: winners_flipped, rows of the pool whose plurality is another without it. run: its mean and quantiles over
    parties, and _most.
    """
    if len(case.parties) < 2:
        return []
    figures, values = Figures(METHOD), winners_flipped(ensemble.pool, len(case.classes))
    figures.series("party", case.parties, METRIC, values)
    figures.spread(METRIC, values)
    figures.run(f"{METRIC}_most", values.max())
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
