"""What releases tell of somebody's attributes, beyond what everybody may know who has a good model of such rows.

Of whom: the subject of a query, whose counts of votes were released (Wang et al. 2022, arXiv 2209.10732); or somebody
whose row trained a teacher, by asking the student about the row with one value guessed (Yeom et al. 2018, arXiv
1709.01604). All parties together teach how an attribute goes with an outcome; that is what a federation is for, and no
guarantee hides it. So what is measured is the difference: counts beside what a model of all rows says of the subject
anyway, and rows that trained beside rows of the same law that did not.

An attribute is whether a feature lies above its median on public rows, or the last class where it is the outcome. The
control of subjects are counts without noise; that of rows is a model that learnt its rows by heart: the nearest row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from consilium.models.published.model import Published
from consilium.simulations.attack.membership import NoNoise, OnRows
from consilium.simulations.attack.shadows import Shadows
from consilium.simulations.divide import Case
from consilium.simulations.methods.pooled import pooled_probabilities
from consilium.simulations.metrics import Interval, mean_interval, normal_interval, one_against_rest
from consilium.simulations.release import replay

MOST_ROWS = 2000
"""Rows that trained, and rows that did not, of which attributes are guessed."""
LEAST = 0.1
"""Of the public rows on either side of an attribute."""
OUTCOME = "the outcome"
BY_HEART = "a model that learnt its rows by heart"
SUBJECT, TRAINED = "the subject of a query", "a row that trained"


@dataclass(frozen=True)
class Guessed:
    """whose: `SUBJECT` or `TRAINED`. attribute. by: what the attacker has. control: whether it is one that succeeds.
    value: AUC of its guesses. beyond: how much higher that is than without what was released, with its interval of
    95 %. rows: of which it was guessed. Secret."""

    whose: str
    attribute: str
    by: str
    control: bool
    value: float
    beyond: float
    interval: Interval
    rows: int

    def to_json(self) -> dict[str, Any]:
        return {
            "whose": self.whose,
            "attribute": self.attribute,
            "by": self.by,
            "control": self.control,
            "auc": self.value,
            "beyond": self.beyond,
            "interval": self.interval,
            "rows": self.rows,
        }


def guessed_attributes(everything: Shadows, rows: np.ndarray) -> list[Guessed]:
    """Of subjects, and of rows that trained. rows : of the pool, what the student asks."""
    return [*_of_subjects(everything), *_of_rows(everything, rows)]


def _of_subjects(everything: Shadows) -> list[Guessed]:
    """Of public rows whose counts are released: the outcome, and the feature of which exact counts tell most beyond a
    model of all rows. Which that is, and how guesses are made, is learnt on one half of them. Nothing of labels."""
    case, mechanism = everything.case, everything.case.config.mechanism
    votes = everything.whole.sum(axis=0, dtype=np.int64)
    sigma = mechanism.count_sigma(case.config.givers(len(case.parties)))
    if not sigma:
        return []
    generator = everything.generator(71)
    order = generator.permutation(len(votes))
    learnt, judged = order[: len(order) // 2], order[len(order) // 2 :]
    noisy = votes + generator.normal(0, sigma, votes.shape)
    names, known = list(case.dataset.features), case.pool_x
    anyway = _logs(_pooled(case, known))
    found = list[Guessed]()
    for attribute, positive in (
        (OUTCOME, case.pool_y == len(case.classes) - 1),
        _most_told(names, known, anyway, votes, learnt),
    ):
        if _one_kind(positive[learnt]) or _one_kind(positive[judged]):
            continue
        base = _guesses(anyway, positive, learnt)[judged]
        for by, counts, control in (("released counts", noisy, False), ("counts without noise", votes, True)):
            scores = _guesses(np.concatenate([anyway, _shares(counts)], axis=1), positive, learnt)[judged]
            found.append(_compared(SUBJECT, attribute, by, control, scores, base, positive[judged]))
    return found


def _most_told(
    names: list[str], x: np.ndarray, anyway: np.ndarray, votes: np.ndarray, rows: np.ndarray
) -> tuple[str, np.ndarray]:
    """The feature of which exact counts tell most beyond `anyway`, on these rows."""
    best, choice = -np.inf, (names[0], _above(x[:, 0], x[:, 0]))
    first, second = rows[::2], rows[1::2]
    for place in _divided(x):
        name, positive = names[place], _above(x[:, place], x[:, place])
        if _one_kind(positive[first]) or _one_kind(positive[second]):
            continue
        with_counts = _guesses(np.concatenate([anyway, _shares(votes)], axis=1), positive, first)[second]
        gain = (
            one_against_rest(with_counts, positive[second]).mean()
            - one_against_rest(_guesses(anyway, positive, first)[second], positive[second]).mean()
        )
        if gain > best:
            best, choice = float(gain), (name, positive)
    return choice


def _of_rows(everything: Shadows, asked: np.ndarray) -> list[Guessed]:
    """Of rows of all parties, and of the public test rows, which trained nothing: the outcome by the model's answer,
    and the feature that weighs most in the model by asking it about both values."""
    case, generator = everything.case, everything.generator(72)
    private = np.concatenate(list(case.partition.parties.values()))
    inside = generator.permutation(private)[:MOST_ROWS]
    outside = generator.permutation(case.partition.test)[:MOST_ROWS]
    data = case.dataset
    if len(outside) < 20 or len(inside) < 20:
        return []
    votes = OnRows(asked, everything.whole[:, asked].sum(axis=0, dtype=np.int64))
    students: dict[str, Any] = {
        "the student's model": replay(case, votes).student.predict_proba,
        "a student without noise": replay(case, votes, lambda batch: NoNoise()).student.predict_proba,
        "a model of all rows": lambda x: _pooled(case, x),
        BY_HEART: _by_heart(case, private),
    }
    heaviest, found = _heaviest(case, replay(case, votes).student), list[Guessed]()
    for by, model in students.items():
        for attribute in (OUTCOME,) if by == BY_HEART else (OUTCOME, data.features[heaviest]):
            parts = []
            for rows in (inside, outside):
                x, y = data.x[rows], data.y[rows]
                if attribute == OUTCOME:
                    scores, positive = _logs(model(x))[:, -1], y == len(case.classes) - 1
                else:
                    scores = _by_both_values(case, model, x, y, heaviest)
                    positive = _above(x[:, heaviest], case.pool_x[:, heaviest])
                if _one_kind(positive):
                    break
                parts.append(one_against_rest(scores, positive))
            if len(parts) < 2:
                continue
            beyond = float(parts[0].mean() - parts[1].mean())
            spread = float(np.hypot(*(part.std() / np.sqrt(len(part)) for part in parts)))
            control = by == BY_HEART
            value = float(parts[0].mean())
            found.append(
                Guessed(TRAINED, attribute, by, control, value, beyond, normal_interval(beyond, spread), len(inside))
            )
    return found


def _divided(x: np.ndarray) -> list[int]:
    """Features of which a tenth of the rows at least is on either side."""
    shares = [float(_above(column, column).mean()) for column in x.T]
    return [place for place, share in enumerate(shares) if min(share, 1 - share) >= LEAST]


def _heaviest(case: Case, student: Published) -> int:
    """The feature whose other value changes the student's answer most, in the mean over public rows."""
    changes, places = [], _divided(case.pool_x)
    for place in places:
        low, high = (_with(case.pool_x, place, value) for value in _values(case, place))
        changes.append(float(np.abs(student.predict_proba(low) - student.predict_proba(high)).mean()))
    return places[int(np.argmax(changes))] if places else 0


def _values(case: Case, place: int) -> tuple[float, float]:
    """A typical value of a feature on either side of its median on public rows."""
    column = case.pool_x[:, place]
    above = _above(column, column)
    if _one_kind(above):
        return float(column[0]), float(column[0])
    return float(np.median(column[~above])), float(np.median(column[above]))


def _by_both_values(case: Case, model: Any, x: np.ndarray, y: np.ndarray, place: int) -> np.ndarray:
    """How much better the row's outcome, which the attacker knows, fits to the larger value: float64 (rows,)."""
    low, high = (_logs(model(_with(x, place, value))) for value in _values(case, place))
    mine = np.arange(len(y))
    return high[mine, y] - low[mine, y]


def _with(x: np.ndarray, place: int, value: float) -> np.ndarray:
    changed = x.copy()
    changed[:, place] = value
    return changed


def _pooled(case: Case, x: np.ndarray) -> np.ndarray:
    """What a model of all parties' rows says of rows float32 (n, features): float64 (n, classes)."""
    private = np.concatenate(list(case.partition.parties.values()))
    schema, data = case.config.rows, case.dataset
    return pooled_probabilities(schema, case.config.teacher, data.x[private], data.y[private], schema.inputs(x))


def _by_heart(case: Case, private: np.ndarray) -> Any:
    schema, data, classes = case.config.rows, case.dataset, len(case.classes)
    nearest = KNeighborsClassifier(1).fit(schema.inputs(data.x[private]), data.y[private])

    def probabilities(x: np.ndarray) -> np.ndarray:
        return np.eye(classes)[nearest.predict(schema.inputs(x))] * 0.98 + 0.02 / classes

    return probabilities


def _compared(
    whose: str, attribute: str, by: str, control: bool, scores: np.ndarray, base: np.ndarray, positive: np.ndarray
) -> Guessed:
    value = one_against_rest(scores, positive)
    more = value - one_against_rest(base, positive)
    return Guessed(
        whose, attribute, by, control, float(value.mean()), float(more.mean()), mean_interval(more), len(more)
    )


def _guesses(known: np.ndarray, positive: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """float64 (all rows,) by a logistic regression on these rows, with squares: an attribute may go with doubt."""
    wide = np.concatenate([known, known**2, np.abs(known)], axis=1)
    wide = (wide - wide[rows].mean(axis=0)) / np.maximum(wide[rows].std(axis=0), 1e-9)
    return LogisticRegression(max_iter=200).fit(wide[rows], positive[rows]).decision_function(wide)


def _shares(counts: np.ndarray) -> np.ndarray:
    """All columns but the first, less its mean."""
    return counts[:, 1:].astype(np.float64) / max(float(counts.sum(axis=1).mean()), 1.0)


def _logs(probabilities: np.ndarray) -> np.ndarray:
    return np.log(np.clip(probabilities, 1e-6, 1.0))


def _above(column: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Whether a value lies above the median of `reference`; at it, where nothing lies above."""
    middle = np.median(reference)
    return column > middle if (reference > middle).any() else column >= middle


def _one_kind(positive: np.ndarray) -> bool:
    return bool(positive.all() or not positive.any())
