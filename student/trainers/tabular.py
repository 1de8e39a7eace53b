"""Students that scikit-learn trains; what is kept are their arrays, so that no object of the library need be loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from consilium.student.trainers.base import Model
from consilium.student.trainers.linear import Linear
from consilium.student.trainers.trees import Boosted, Forest, TreeNodes

if TYPE_CHECKING:  # half a second to import: where a student is trained, and nowhere else
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

_LEAST_SHARE = 0.005


@dataclass(frozen=True)
class LinearTrainer:
    """Logistic regression. C: inverse regularisation."""

    C: float

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`; no random part, so the seed is not used."""
        from sklearn.linear_model import LogisticRegression

        return linear_arrays(LogisticRegression(C=self.C, max_iter=1000).fit(x, y), classes)


@dataclass(frozen=True)
class ForestTrainer:
    """Random forest."""

    trees: int
    depth: int

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`."""
        return forest_arrays(self._untrained(seed).fit(x, y), classes)

    def fit_soft(self, x: np.ndarray, shares: np.ndarray, seed: int) -> Model:
        """See `SoftTrainer.fit_soft`."""
        rows, labels, weights = weighted_labels(x, shares)
        return forest_arrays(self._untrained(seed).fit(rows, labels, sample_weight=weights), shares.shape[1])

    def _untrained(self, seed: int) -> RandomForestClassifier:
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(n_estimators=self.trees, max_depth=self.depth, random_state=seed)


@dataclass(frozen=True)
class BoostingTrainer:
    """Gradient boosting."""

    trees: int
    depth: int

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`."""
        return boosted_arrays(self._untrained(seed).fit(x, y), x[:1], classes)

    def fit_soft(self, x: np.ndarray, shares: np.ndarray, seed: int) -> Model:
        """See `SoftTrainer.fit_soft`."""
        rows, labels, weights = weighted_labels(x, shares)
        return boosted_arrays(self._untrained(seed).fit(rows, labels, sample_weight=weights), x[:1], shares.shape[1])

    def _untrained(self, seed: int) -> GradientBoostingClassifier:
        from sklearn.ensemble import GradientBoostingClassifier

        return GradientBoostingClassifier(n_estimators=self.trees, max_depth=self.depth, random_state=seed)


def weighted_labels(x: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each row once for each class, with its share (n, classes) as its weight: rows, labels int64, weights.

    Smaller shares than `_LEAST_SHARE` are left out; two classes at least stay, as trees insist on.
    """
    kept = shares >= _LEAST_SHARE
    kept[:1] = True
    rows, labels = np.nonzero(kept)
    return x[rows], labels.astype(np.int64), shares[rows, labels]


def linear_arrays(fitted: LogisticRegression, classes: int) -> Linear:
    """The same probabilities; of two classes the first one's scores are 0."""
    weights, intercept = np.asarray(fitted.coef_, np.float64), np.asarray(fitted.intercept_, np.float64)
    if len(fitted.classes_) == 2:
        weights, intercept = np.concatenate([np.zeros_like(weights), weights]), np.append(0.0, intercept)
    return Linear(weights, intercept, _seen(fitted), classes)


def forest_arrays(fitted: RandomForestClassifier, classes: int) -> Forest:
    """The same probabilities."""
    trees = [estimator.tree_ for estimator in fitted.estimators_]
    values = [tree.value[:, 0, :] / tree.value[:, 0, :].sum(axis=1, keepdims=True) for tree in trees]
    return Forest(TreeNodes.of(trees, values), _seen(fitted), classes)


def boosted_arrays(fitted: GradientBoostingClassifier, row: np.ndarray, classes: int) -> Boosted:
    """The same probabilities, up to rounding; `row` float64 (1, inputs) is any row that may be judged.

    What the library starts from is no public attribute: it is what the trees do not explain of one row's score.
    """
    trees = [estimator.tree_ for stage in fitted.estimators_ for estimator in stage]
    nodes = TreeNodes.of(trees, [fitted.learning_rate * tree.value[:, 0, :] for tree in trees])
    outputs = len(trees) // len(fitted.estimators_)
    rows = row.astype(np.float32)
    ends = [nodes.value[nodes.leaves(rows, tree)[0], 0] for tree in range(len(nodes))]
    explained = np.array(ends).reshape(-1, outputs).sum(axis=0)
    baseline = np.asarray(fitted.decision_function(row), dtype=np.float64).reshape(outputs) - explained
    return Boosted(nodes, baseline, _seen(fitted), classes)


def _seen(fitted: LogisticRegression | RandomForestClassifier | GradientBoostingClassifier) -> np.ndarray:
    return np.asarray(fitted.classes_, dtype=np.int64)
