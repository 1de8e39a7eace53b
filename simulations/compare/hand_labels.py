"""What a person gets who labels public rows by hand instead: the student's own trainer, and a plain one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.protocol.rows.schema import Schema
from consilium.simulations.compare.effort import (
    draws_of,
    effort,
    plain_operations,
)
from consilium.simulations.compare.means import mean_metrics
from consilium.simulations.compare.plain_ridge import train_plain
from consilium.simulations.metrics.intervals import drawn_intervals
from consilium.simulations.metrics.row_scores import Metric, leading_metric, row_scores
from consilium.simulations.population.specs import HandLabelMode
from consilium.student.asking.selection import BY_ROWS
from consilium.student.config import StudentSpec
from consilium.student.evaluation import evaluate
from consilium.student.run import train
from consilium.student.trainers.base import Model

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


class HandLabels:
    """Models on true labels of rows that are drawn by lot, judged on the test rows.

    Draw d of n labels are the first n rows of `by_lot` d of the pool: more labels are the same ones, and others.
    `asked` int64 (n,): rows that the student asked for, in its order. `width`: inputs of the plain trainer. `metric`:
    what is compared.
    """

    def __init__(
        self, public: PublicTruth, spec: StudentSpec, asked: np.ndarray, seed: int, mode: HandLabelMode
    ) -> None:
        self._public, self._spec, self._asked, self._seed = public, spec, asked, seed
        self._by_rows = spec.selection in BY_ROWS
        self._mode: HandLabelMode = mode
        self._classes = len(public.schema.classes)
        self.metric: Metric = leading_metric(public.test_y, self._classes)
        represented, test = public.schema.inputs(public.queries), public.schema.inputs(public.test_x)
        bare = spec.inputs == "features"
        own_rows, own_test = (public.queries, public.test_x) if bare else (represented, test)
        self.width, self._own_width = represented.shape[1], own_rows.shape[1]
        self._learners: dict[str, Learn] = {
            OWN: _own_learner(public, spec, own_rows, own_test, seed),
            PLAIN: _plain_learner(public, represented, test),
        }
        whole = effort(spec.trainer, len(represented), self._own_width, self._classes, mode)
        self._searched = (OWN, PLAIN) if whole.bisected else (PLAIN,)
        self.better: dict[int, str] = {}
        """Of each number of labels that `learnt` was asked for, which trainer was the better."""

    def learnt(self, count: int) -> np.ndarray:
        """Row scores float64 (draws, test) of `count` labels: of that trainer whose mean over the draws is higher.

        So the choice of the trainer is made on the test rows, in favour of the labels by hand. A trainer that takes
        long is not tried (`effort`).
        """
        found = {}
        for name in self._searched:
            learn, draws = self._learners[name], 1 if count == len(self._public.labels) else self._draws(name, count)
            found[name] = np.stack([self._scores(learn(self._by_lot(draw)[:count], draw)) for draw in range(draws)])
        self.better[count] = max(found, key=lambda name: float(found[name].mean()))
        return found[self.better[count]]

    def at(self, count: int) -> dict[str, Any]:
        """Means over draws of `count` labels, on rows as the student chose its own: its metrics, and whose.

        That is by lot, or, where its selection looks at the rows alone, on the first that it asked for itself, once.

        labels, draws, trainer (the one that is better on the test rows), accuracy, auc, recall_per_class, deviation (of
        the leading metric between draws), intervals (of one draw, see `drawn_intervals`), and the leading metric's mean
        for each trainer by name.
        """
        found: dict[str, list[np.ndarray]] = {}
        for name, learn in self._learners.items():
            draws = 1 if self._by_rows else self._draws(name, count)
            found[name] = [learn(self._as_chosen(draw)[:count], draw) for draw in range(draws)]
        metrics = {name: [self._metrics(each) for each in learnt] for name, learnt in found.items()}
        means = {name: mean_metrics(of) for name, of in metrics.items()}
        better = max(means, key=lambda name: means[name][self.metric])
        values = [item[self.metric] for item in metrics[better]]
        names = self._public.schema.classes
        return {
            "labels": count,
            "trainer": better,
            **means[better],
            "deviation": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            "draws": len(values),
            "intervals": drawn_intervals(found[better], self._public.test_y, names, one=True),
            **{name: of[self.metric] for name, of in means.items()},
        }

    def score(self, probabilities: np.ndarray) -> np.ndarray:
        """Row scores float64 (test,) of any model's probabilities (test, classes) of the test rows."""
        return self._scores(probabilities)

    def _scores(self, probabilities: np.ndarray) -> np.ndarray:
        return row_scores(probabilities, self._public.test_y, self.metric)

    def _metrics(self, probabilities: np.ndarray) -> dict[str, Any]:
        return evaluate(probabilities, self._public.test_y, self._public.schema.classes)

    def _draws(self, name: str, count: int) -> int:
        if name == PLAIN:
            return draws_of(plain_operations(count, self.width), self._mode)
        return effort(self._spec.trainer, count, self._own_width, self._classes, self._mode).draws

    def _as_chosen(self, draw: int) -> np.ndarray:
        return self._asked if self._by_rows else self._by_lot(draw)

    def _by_lot(self, draw: int) -> np.ndarray:
        return by_lot(self._seed, draw, len(self._public.labels))


def by_lot(seed: int, draw: int, rows: int) -> np.ndarray:
    """All `rows` of the pool in the order of one draw int64 (rows,): whoever labels n labels the first n."""
    return np.random.default_rng([seed, _PURPOSE, draw]).permutation(rows)


def learnt_by_hand(
    schema: Schema, spec: StudentSpec, rows: np.ndarray, labels: np.ndarray, chosen: np.ndarray, seed: int
) -> Model:
    """The student's own trainer on the true labels of these rows of the pool, the others as rows without a label.

    rows: the pool as the student's model takes it, see `StudentSpec.inputs`; labels int64 (pool,); chosen int64 (n,).
    """
    rest = rows[np.setdiff1d(np.arange(len(rows)), chosen)]
    return train(rows[chosen], labels[chosen], rest, len(schema.classes), spec, seed, represent=schema.inputs)


def _own_learner(public: PublicTruth, spec: StudentSpec, rows: np.ndarray, test: np.ndarray, seed: int) -> Learn:
    def learn(chosen: np.ndarray, draw: int) -> np.ndarray:
        model = learnt_by_hand(public.schema, spec, rows, public.labels, chosen, seed + draw)
        return model.predict_proba(test)

    return learn


def _plain_learner(public: PublicTruth, rows: np.ndarray, test: np.ndarray) -> Learn:
    classes = len(public.schema.classes)
    return lambda chosen, draw: train_plain(rows[chosen], public.labels[chosen], classes).predict_proba(test)
