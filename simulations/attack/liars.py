"""Parties that lie: what c of them do to the student, by way of their votes.

Plaintext and verified votes hold a party to one vote for each teacher. Then c liars move each count by c times that: a
tenth of the parties, a tenth of the votes. Under masks nothing does, and one party may give as many votes as the noise
explains. No clipping hides a lie that is a vote; how much it moves is what is measured here.

flip : the liars vote against what most honest parties say, on every query. trigger : they vote for one class on rows
with a large value of one feature, so that the student learns it (a backdoor), and honestly elsewhere. class : they vote
for the last class on every query, so that it is said more often. gain : they want a student that is good for their own
patients, and all vote for what a model of their rows says, whatever others may need; the largest parties lie, since
their gain can be seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from consilium.simulations.attack.membership import OnRows
from consilium.simulations.attack.shadows import Shadows
from consilium.simulations.methods.pooled import pooled_probabilities
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
    trigger, or of all where there is none, that are called what the liars want; None of other lies. own, own_honest:
    of the student on the liars' rows, with the lie and without; None of other lies. moved: share of the rows where
    most votes are for another class than without the lie."""

    attack: str
    liars: int
    metric: str
    value: float | None
    hit: float | None
    own: float | None
    own_honest: float | None
    moved: float

    def to_json(self) -> dict[str, Any]:
        return {
            "attack": self.attack,
            "liars": self.liars,
            "metric": self.metric,
            "value": self.value,
            "hit": self.hit,
            "own": self.own,
            "own_honest": self.own_honest,
            "moved": self.moved,
        }


def poisoned_students(everything: Shadows, rows: np.ndarray) -> list[Poisoned]:
    """Every attack at every share of liars, with the noise of the case. rows : of the pool, what the student asks.

    The same noise is drawn each time, so that students differ by the lie alone.
    """
    case, generator = everything.case, everything.generator(51)
    votes = everything.whole[:, rows].astype(np.int64)
    x, most = case.pool_x[rows], votes.sum(axis=0)
    one_hot = np.eye(votes.shape[2], dtype=np.int64) * case.config.teachers_per_party
    feature = int(np.argmax([len(np.unique(column)) for column in x.T]))
    above = float(np.quantile(x[:, feature], _TRIGGER))
    armed, rarer, last = x[:, feature] > above, int(np.argmin(most.sum(axis=0))), votes.shape[2] - 1
    against = np.argsort(-most, axis=1, kind="stable")[:, 1]
    order = generator.permutation(len(votes))
    sizes = [len(part) for part in case.partition.parties.values()]
    largest = np.argsort(sizes, kind="stable")[::-1]
    judge = _Judge(everything, rows, most)
    results = []
    counts = dict.fromkeys(max(round(share * len(votes)), int(share > 0)) for share in SHARES)
    for count in counts:
        for name, liars, where, wanted in (
            ("flip", order[:count], np.ones(len(rows), dtype=bool), against),
            ("trigger", order[:count], armed, np.full(len(rows), rarer)),
            ("class", order[:count], np.ones(len(rows), dtype=bool), np.full(len(rows), last)),
            ("gain", largest[:count], np.ones(len(rows), dtype=bool), _wished(everything, rows, largest[:count])),
        ):
            lied = votes.copy()
            lied[np.ix_(liars, where)] = one_hot[wanted[where]]
            mark = {"trigger": (feature, above, rarer), "class": (feature, -np.inf, last)}.get(name)
            results.append(judge(name, lied.sum(axis=0), count, mark, liars if name == "gain" else liars[:0]))
    for name, wanted in (("flip", against), ("gain", _wished(everything, rows, largest[:1]))):
        lied = _unverified(everything, most, wanted)
        results.append(judge(f"{name}, of unverified votes", lied, 1, None, largest[: int(name == "gain")]))
    return results


def _wished(everything: Shadows, rows: np.ndarray, liars: np.ndarray) -> np.ndarray:
    """Classes int64 (rows,) that a model of these parties' rows says of the queries; of none, nothing that counts."""
    case, data = everything.case, everything.case.dataset
    if not len(liars):
        return np.zeros(len(rows), dtype=np.int64)
    mine = np.concatenate([case.partition.parties[case.parties[party]] for party in liars])
    schema = case.config.rows
    inputs = schema.inputs(case.pool_x[rows])
    return pooled_probabilities(schema, case.config.teacher, data.x[mine], data.y[mine], inputs).argmax(axis=1)


def _unverified(everything: Shadows, most: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Sums in which one party gave as many votes as the noise explains for what it wants, from whatever leads."""
    sigma = everything.case.config.mechanism.label_noise(len(everything.case.parties)) or 0.0
    lied, places = most.copy(), np.arange(len(most))
    others = most.copy()
    others[places, wanted] = -1
    top = others.argmax(axis=1)
    lie = np.minimum(round(_NOISES * sigma), lied[places, top])  # below none no sum may be
    lied[places, wanted] += lie
    lied[places, top] -= lie
    return lied


class _Judge:
    """Trains a student on votes, and says what became of it."""

    def __init__(self, everything: Shadows, rows: np.ndarray, honest: np.ndarray) -> None:
        self._case, self._rows, self._most = everything.case, rows, honest
        self._honest = replay(everything.case, OnRows(rows, honest)).student

    def __call__(
        self, attack: str, votes: np.ndarray, count: int, mark: tuple[int, float, int] | None, liars: np.ndarray
    ) -> Poisoned:
        """mark: feature, limit and class of a trigger. liars: parties on whose rows the student is judged."""
        case = self._case
        student, y = replay(case, OnRows(self._rows, votes)).student, case.test_y
        metric, value, hit, own, honest = "", None, None, None, None
        if len(y):
            probabilities = student.predict_proba(case.test_x)
            metric = leading_metric(y, len(case.classes))
            value = float(row_scores(probabilities, y, metric).mean())
            if mark is not None:
                feature, above, target = mark
                armed = case.test_x[:, feature] > above
                hit = float((probabilities[armed].argmax(axis=1) == target).mean()) if armed.any() else None
        if len(liars):
            mine = np.concatenate([case.partition.parties[case.parties[party]] for party in liars])
            x, own_y = case.dataset.x[mine], case.dataset.y[mine]
            of_own = leading_metric(own_y, len(case.classes))
            if of_own == metric:
                own = float(row_scores(student.predict_proba(x), own_y, of_own).mean())
                honest = float(row_scores(self._honest.predict_proba(x), own_y, of_own).mean())
        moved = float((votes.argmax(axis=1) != self._most.argmax(axis=1)).mean())
        return Poisoned(attack, count, metric, value, hit, own, honest, moved)
