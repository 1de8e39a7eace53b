"""Parties that vote against the truth: what so many of them do to the student.

A lie that is a vote cannot be told from an opinion: it counts as one, and no clipping hides it. Under masks nothing
proves that a party sent votes at all: there one liar moves as many as it likes, within what the noise explains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilium.models.evaluation import leading_metric, row_scores
from consilium.simulations.attack.targets import AttackedRun

SHARES = (0.0, 0.01, 0.05, 0.1, 0.2)
"""Of the parties that lie; at least one where it is not 0."""


@dataclass(frozen=True)
class Poisoned:
    """liars: of the parties. each: votes that one of them moves on a query; more than it has teachers only under masks
    (`secure`). moved: share of the queries where most votes are for another class than without the lie.
    metric, value: of the student on public test rows; None without any."""

    liars: int
    each: int
    moved: float
    metric: str
    value: float | None


def poisoned_students(attacked: AttackedRun, seed: int) -> list[Poisoned]:
    """Liars by lot vote on every query for the class that most parties take for the truth when they err. The last of
    them is alone, and under masks: it moves as many votes there as all parties have, away from the truth. The noise is
    the run's own each time, so that students differ by the lie alone."""
    case, votes = attacked.case, attacked.votes
    teachers, one_hot = case.config.teachers_per_party, np.eye(len(case.classes), dtype=np.int64)
    honest, truth = votes.sum(axis=0), one_hot[case.pool_y]
    lie = one_hot[np.where(truth, -1, honest).argmax(axis=1)]
    order = np.random.default_rng([seed, 0x6C696172]).permutation(len(votes))
    metric, results = leading_metric(case.test_y, len(case.classes)) if len(case.test_y) else "", list[Poisoned]()
    counts = dict.fromkeys(max(round(share * len(votes)), int(share > 0)) for share in SHARES)
    for count, each in [*((count, teachers) for count in counts), (1, teachers * len(votes))]:
        lied = honest - votes[order[:count]].sum(axis=0) + count * teachers * lie + (each - teachers) * (lie - truth)
        student = attacked.run(lied).student
        value = float(row_scores(student.predict_proba(case.test_x), case.test_y, metric).mean()) if metric else None
        moved = (lied.argmax(axis=1) != honest.argmax(axis=1))[attacked.rows].mean()
        results.append(Poisoned(count, each, float(moved), metric, value))
    return results
