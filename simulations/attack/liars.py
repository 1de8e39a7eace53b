"""Parties that lie: what c of them do to the student, by way of their votes.

Plaintext and verified votes hold a party to one vote for each teacher. Then c liars move each count by c times that: a
tenth of the parties, a tenth of the votes. Under masks nothing does, and one party may give as many votes as the noise
explains. No clipping hides a lie that is a vote; how much it moves is what is measured here.

flip : the liars vote against what most honest parties say, on every query. trigger : they vote for one class on rows
with a large value of one feature, so that the student learns it (a backdoor), and honestly elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from consilium.simulations.attack.membership import OnRows
from consilium.simulations.attack.shadows import Shadows
from consilium.simulations.metrics import leading_metric, row_scores
from consilium.simulations.release import replay

SHARES = (0.0, 0.01, 0.05, 0.1, 0.2)
"""Of the parties that lie."""
_TRIGGER = 0.9
"""Quantile of the feature above which a row has the trigger."""
_NOISES = 2.0
"""Deviations of the noise that an unverified liar adds: what is explained by it."""


@dataclass(frozen=True)
class Poisoned:
    """attack, liars. metric, value: of the student on public test rows; None without any. hit: share of rows with the
    trigger that are called what the liars want; None where there is no trigger. moved: share of the rows where most
    votes are for another class than without the lie."""

    attack: str
    liars: int
    metric: str
    value: float | None
    hit: float | None
    moved: float

    def to_json(self) -> dict[str, Any]:
        return {
            "attack": self.attack,
            "liars": self.liars,
            "metric": self.metric,
            "value": self.value,
            "hit": self.hit,
            "moved": self.moved,
        }


def poisoned_students(everything: Shadows, rows: np.ndarray) -> list[Poisoned]:
    """Every attack at every share of liars, with the noise of the case. rows : of the pool, what the student asks.

    The same noise is drawn each time, so that students differ by the lie alone.
    """
    case, generator = everything.case, everything.generator(51)
    votes = everything.whole[:, rows].astype(np.int64)
    x, most = case.pool_x[rows], votes.sum(axis=0)
    feature = int(np.argmax([len(np.unique(column)) for column in x.T]))
    above = float(np.quantile(x[:, feature], _TRIGGER))
    target, order = int(np.argmin(most.sum(axis=0))), generator.permutation(len(votes))
    against = np.argsort(-most, axis=1, kind="stable")[:, 1]
    results = []
    for share in SHARES:
        liars = order[: max(round(share * len(votes)), int(share > 0))]
        flipped, triggered = votes.copy(), votes.copy()
        flipped[liars] = np.eye(votes.shape[2], dtype=np.int64)[against] * case.config.teachers_per_party
        armed = x[:, feature] > above
        triggered[np.ix_(liars, armed)] = (
            np.eye(votes.shape[2], dtype=np.int64)[target] * case.config.teachers_per_party
        )
        results.append(_judged(everything, rows, "flip", len(liars), flipped.sum(axis=0), most, None))
        mark = (feature, above, target)
        results.append(_judged(everything, rows, "trigger", len(liars), triggered.sum(axis=0), most, mark))
    sigma = case.config.mechanism.label_noise(len(votes)) or 0.0
    unverified, top, places = most.copy(), most.argmax(axis=1), np.arange(len(rows))
    lie = np.minimum(round(_NOISES * sigma), unverified[places, top])  # below none no sum may be
    unverified[places, against] += lie
    unverified[places, top] -= lie
    results.append(_judged(everything, rows, "flip, of unverified votes", 1, unverified, most, None))
    return results


def _judged(
    everything: Shadows,
    rows: np.ndarray,
    attack: str,
    liars: int,
    votes: np.ndarray,
    honest: np.ndarray,
    mark: tuple[int, float, int] | None,
) -> Poisoned:
    case = everything.case
    student, y = replay(case, OnRows(rows, votes)).student, case.test_y
    metric, value, hit = "", None, None
    if len(y):
        probabilities = student.predict_proba(case.test_x)
        metric = leading_metric(y, len(case.classes))
        value = float(row_scores(probabilities, y, metric).mean())
        if mark is not None:
            feature, above, target = mark
            armed = case.test_x[:, feature] > above
            hit = float((probabilities[armed].argmax(axis=1) == target).mean()) if armed.any() else None
    moved = float((votes.argmax(axis=1) != honest.argmax(axis=1)).mean())
    return Poisoned(attack, liars, metric, value, hit, moved)
