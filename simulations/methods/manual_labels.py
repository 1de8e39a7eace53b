"""Manual labels: the yardstick of public rows that somebody labels, and no federation at all.

How often the student's trainer is run on them hangs on its kind and on the numbers of rows, inputs and classes, never
on a clock: a run must give the same twice.

Beside it stands what anybody would train on such rows: ridge regression whose penalty these rows choose for themselves.
Linear scores of one-hot classes by least squares. The penalty is the one with the least squared error when each row in
turn is left out, which one decomposition gives for all penalties (Golub, Heath, Wahba 1979, equation 2.3, with the
intercept as in Hastie, Tibshirani, Friedman 2009, section 7.10). On stroke and adult it is as good as scikit-learn's
logistic regression with C from five-fold cross-validation (AUC .755 to .748 with 100 labels of stroke, .883 to .882
with 500 of adult), in a twentieth of the time, and it takes any number of classes, and more inputs than rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.linalg import solve

from consilium.models.base import Model
from consilium.models.evaluation import Metric, evaluate, leading_metric, row_scores
from consilium.models.keys import ImageStudent, LogisticRegressionStudent, TrainerKind
from consilium.protocol.schema import Schema
from consilium.simulations.metrics import drawn_intervals, mean_metrics
from consilium.simulations.population.specs import ManualLabelMode
from consilium.student.config import StudentSpec
from consilium.student.learn import train
from consilium.student.selection import BY_ROWS

MOST_DRAWS: dict[ManualLabelMode, int] = {"full": 60, "quick": 20, "none": 0}
FEWEST_DRAWS = 3
_BUDGET = 1e10
"""Floating point operations, a second or two, of all draws of one number of labels."""
_SOLVER_STEPS = 200


@dataclass(frozen=True)
class Effort:
    """What is tried. `draws` of labels; `bisected`: whether the search for the break-even uses the trainer too."""

    draws: int
    bisected: bool


def draws_of(operations: float, mode: ManualLabelMode) -> int:
    """Draws of labels for a training of so many floating point operations.

    >>> draws_of(1e6, "quick"), draws_of(2e9, "quick"), draws_of(1e12, "quick")
    (20, 5, 3)
    """
    return int(min(MOST_DRAWS[mode], max(FEWEST_DRAWS, _BUDGET // max(operations, 1.0))))


def plain_operations(rows: int, inputs: int) -> float:
    """Of one training of `plain_ridge`, roughly."""
    return 2.0 * rows * inputs * min(rows, inputs)


def most_plain_rows(rows: int, inputs: int, mode: ManualLabelMode) -> int:
    """So many of the `rows` of the pool get manual labels at most; all but where that takes minutes.

    >>> most_plain_rows(9000, 50, "quick"), most_plain_rows(9000, 3969, "quick"), most_plain_rows(9000, 3969, "full")
    (9000, 1587, 9000)
    """
    limit = 2 * _BUDGET
    if mode == "full" or plain_operations(rows, inputs) <= limit:
        return rows
    return int((limit / (2 * inputs)) ** 0.5 if 2 * inputs**3 > limit else limit / (2 * inputs**2))


@singledispatch
def effort(kind: TrainerKind, rows: int, inputs: int, classes: int, mode: ManualLabelMode) -> Effort:
    """Of a trainer on at most `rows` labelled rows of so many `inputs`; a kind without an entry is tried rarely."""
    return Effort(FEWEST_DRAWS, bisected=mode == "full")


@effort.register
def _(kind: LogisticRegressionStudent, rows: int, inputs: int, classes: int, mode: ManualLabelMode) -> Effort:
    operations = 4.0 * _SOLVER_STEPS * rows * inputs * classes
    return Effort(draws_of(operations, mode), bisected=mode == "full" or operations <= _BUDGET)


@effort.register
def _(kind: ImageStudent, rows: int, inputs: int, classes: int, mode: ManualLabelMode) -> Effort:
    """Minutes each, so once and never in the search."""
    return Effort(FEWEST_DRAWS if mode == "full" else 1, bisected=False)


PENALTIES = 10.0 ** np.arange(-4, 3.5, 0.5)
"""Times the rows' mean squared distance from their mean."""
MOST_JUDGED = 1000
"""Rows that choose the penalty; it says little that more of them do, and the decomposition takes their number cubed."""


@dataclass(frozen=True)
class PlainRidge:
    """Scores x `weights` + `intercept`: (inputs, classes) in the floats of the rows, and (classes,)."""

    weights: np.ndarray = field(repr=False)
    intercept: np.ndarray = field(repr=False)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Scores (n, classes) that sum to 1 and may lie outside [0, 1]: for ranks and the largest, not for risks."""
        return x @ self.weights + self.intercept


def train_plain(x: np.ndarray, y: np.ndarray, classes: int) -> PlainRidge:
    """Train on `x` float (n, inputs) and `y` int64 (n,); rows of one class, or none, give scores that say only that."""
    if len(np.unique(y)) < 2:
        shares = np.bincount(y, minlength=classes) / len(y) if len(y) else np.full(classes, 1 / classes)
        return PlainRidge(np.zeros((x.shape[1], classes), dtype=x.dtype), shares)
    targets = np.eye(classes, dtype=x.dtype)[y]
    mean, shares = x.mean(axis=0), targets.mean(axis=0)
    penalty = _penalty(x[:MOST_JUDGED], targets[:MOST_JUDGED])
    rows, targets = x - mean, targets - shares
    if len(x) <= x.shape[1]:
        weights = rows.T @ _solve(rows @ rows.T, targets, penalty)
    else:
        weights = _solve(rows.T @ rows, rows.T @ targets, penalty)
    return PlainRidge(weights.astype(x.dtype), shares - mean @ weights)


def _penalty(x: np.ndarray, targets: np.ndarray) -> float:
    """The best by leaving one out; that of one class against the others counts for each class."""
    count = len(x)
    rows = (x - x.mean(axis=0)).astype(np.float64)
    targets = targets - targets.mean(axis=0)
    scale = (rows**2).sum() / count
    if scale == 0:
        return 1.0
    left, squares = _left_vectors(rows)
    along, leverage = left.T @ targets, left**2
    errors = []
    for penalty in PENALTIES * scale:
        shrunk = squares / (squares + penalty)
        residual = targets - left @ (shrunk[:, None] * along)
        leverages = np.minimum(leverage @ shrunk + 1 / count, 1 - 1e-9)  # what a row adds to its own fitted value
        errors.append(((residual / (1 - leverages)[:, None]) ** 2).sum())
    return float(PENALTIES[int(np.argmin(errors))] * scale)


def _left_vectors(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Left singular vectors (n, rank) of `rows` (n, inputs), and the squares of the singular values (rank,)."""
    if len(rows) <= rows.shape[1]:
        squares, left = np.linalg.eigh(rows @ rows.T)
    else:
        squares, right = np.linalg.eigh(rows.T @ rows)
        left = rows @ right / np.sqrt(np.maximum(squares, 1e-300))
    large = squares > squares.max() * 1e-10
    return left[:, large], squares[large]


def _solve(gram: np.ndarray, targets: np.ndarray, penalty: float) -> np.ndarray:
    gram[np.diag_indices_from(gram)] += penalty
    return solve(gram.astype(np.float64), targets.astype(np.float64), assume_a="pos", overwrite_a=True)


OWN, PLAIN = "own", "plain"
"""The run's own trainer, and ridge regression whose penalty the labelled rows choose (`plain_ridge`)."""
_PURPOSE = 0x68616E64

Learn = Callable[[np.ndarray, int], np.ndarray]
"""Rows of the pool int64 (n,) and the draw -> probabilities (test, classes) after training on their true labels."""


@dataclass(frozen=True)
class PublicTruth:
    """Public rows, canonical float32 (n, features), with true labels int64 (n,), which only a simulation has."""

    schema: Schema
    queries: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)
    test_x: np.ndarray = field(repr=False)
    test_y: np.ndarray = field(repr=False)


class ManualLabels:
    """Models on true labels of rows that are drawn by lot, judged on the test rows.

    Draw d of n labels are the first n rows of `by_lot` d of the pool: more labels are the same ones, and others.
    `queried` int64 (n,): rows that the student asked for, in its order. `width`: inputs of the plain trainer. `metric`:
    what is compared.
    """

    def __init__(
        self, public: PublicTruth, spec: StudentSpec, queried: np.ndarray, seed: int, mode: ManualLabelMode
    ) -> None:
        self._public, self._spec, self._asked = public, spec, queried
        self._by_rows = spec.selection == BY_ROWS
        self._mode: ManualLabelMode = mode
        self._classes = len(public.schema.classes)
        self._lots = [by_lot(seed, draw, len(public.labels)) for draw in range(MOST_DRAWS[mode])]
        self.metric: Metric = leading_metric(public.test_y, self._classes)
        schema, labels = public.schema, public.labels
        plain_rows, plain_test = schema.inputs(public.queries), schema.inputs(public.test_x)
        bare = spec.inputs == "features"
        own_rows, own_test = (public.queries, public.test_x) if bare else (plain_rows, plain_test)
        self.width, self._own_width = plain_rows.shape[1], own_rows.shape[1]

        def own(chosen: np.ndarray, draw: int) -> np.ndarray:
            return learnt_from_labels(schema, spec, own_rows, labels, chosen, seed + draw).predict_proba(own_test)

        def plain(chosen: np.ndarray, draw: int) -> np.ndarray:
            return train_plain(plain_rows[chosen], labels[chosen], self._classes).predict_proba(plain_test)

        self._learners: dict[str, Learn] = {OWN: own, PLAIN: plain}
        whole = effort(spec.trainer, len(own_rows), self._own_width, self._classes, mode)
        self._searched = (OWN, PLAIN) if whole.bisected else (PLAIN,)
        self._known: dict[int, np.ndarray] = {}
        self.better: dict[int, str] = {}
        """Of each number of labels that `learnt` was asked for, which trainer was the better."""

    def learnt(self, count: int) -> np.ndarray:
        """Row scores float64 (draws, test) of `count` labels: of that trainer whose mean over the draws is higher.

        So the choice of the trainer is made on the test rows, in favour of the manual labels. A trainer that takes
        long is not tried (`effort`). Learned once, however many students are compared with it.
        """
        if count in self._known:
            return self._known[count]
        scores = {}
        for name in self._searched:
            learn, draws = self._learners[name], 1 if count == len(self._public.labels) else self._draws(name, count)
            scores[name] = np.stack([self.score(learn(self._lots[draw][:count], draw)) for draw in range(draws)])
        self.better[count] = max(scores, key=lambda name: float(scores[name].mean()))
        self._known[count] = scores[self.better[count]]
        return self._known[count]

    @property
    def searches_own(self) -> bool:
        """Whether `learnt` tries the student's own trainer."""
        return OWN in self._searched

    @property
    def most(self) -> int:
        """Labels that are tried at most."""
        return most_plain_rows(len(self._public.labels), self.width, self._mode)

    def metrics_of(self, count: int) -> dict[str, Any]:
        """Means over draws of `count` labels, on rows as the student chose its own: its metrics, and whose.

        That is by lot, or, where its selection looks at the rows alone, on the first that it asked for itself, once.

        labels, draws, trainer (the one that is better on the test rows), accuracy, auc, recall_per_class, deviation (of
        the leading metric between draws), intervals (of one draw, see `drawn_intervals`), and the leading metric's mean
        for each trainer by name.
        """
        y, names = self._public.test_y, self._public.schema.classes
        learnt_by: dict[str, list[np.ndarray]] = {}
        for name, learn in self._learners.items():
            lots = [self._asked] if self._by_rows else self._lots[: self._draws(name, count)]
            learnt_by[name] = [learn(lot[:count], draw) for draw, lot in enumerate(lots)]
        metrics = {name: [evaluate(draw, y, names) for draw in learnt] for name, learnt in learnt_by.items()}
        means = {name: mean_metrics(of) for name, of in metrics.items()}
        better = max(means, key=lambda name: means[name][self.metric])
        values = [item[self.metric] for item in metrics[better]]
        return {
            "labels": count,
            "trainer": better,
            **means[better],
            "deviation": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            "draws": len(values),
            "intervals": drawn_intervals(learnt_by[better], y, names, one=True),
            **{name: of[self.metric] for name, of in means.items()},
        }

    def score(self, probabilities: np.ndarray) -> np.ndarray:
        """Row scores float64 (test,) of any model's probabilities (test, classes) of the test rows."""
        return row_scores(probabilities, self._public.test_y, self.metric)

    def _draws(self, name: str, count: int) -> int:
        if name == PLAIN:
            return draws_of(plain_operations(count, self.width), self._mode)
        return effort(self._spec.trainer, count, self._own_width, self._classes, self._mode).draws


def by_lot(seed: int, draw: int, rows: int) -> np.ndarray:
    """All `rows` of the pool in the order of one draw int64 (rows,): whoever labels n labels the first n."""
    return np.random.default_rng([seed, _PURPOSE, draw]).permutation(rows)


def learnt_from_labels(
    schema: Schema, spec: StudentSpec, rows: np.ndarray, labels: np.ndarray, chosen: np.ndarray, seed: int
) -> Model:
    """The student's own trainer on the true labels of these rows of the pool, the others as rows without a label.

    rows: the pool as the student's model takes it, see `StudentSpec.inputs`; labels int64 (pool,); chosen int64 (n,).
    """
    rest = np.ones(len(rows), dtype=bool)
    rest[chosen] = False
    return train(rows[chosen], labels[chosen], rows[rest], len(schema.classes), spec, seed, schema=schema)
