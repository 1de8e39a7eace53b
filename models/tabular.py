"""Linear models and trees of scikit-learn as arrays, so that no library's object is loaded.

The nodes of all trees follow one another. A row goes from a tree's root to the left where its feature is at most
the threshold, both as scikit-learn compares them: a float32 with a float64.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from consilium.models.base import Model, softmax

if TYPE_CHECKING:
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    from consilium.models.linear import LogisticTeacher


@dataclass(frozen=True)
class Linear:
    """Scores `coefficients` float64 (seen, inputs) x + `intercept` (seen,), softmax; `classes` in all.

    `seen` int64 (seen,): which classes had a label, ascending; the others get probability 0.
    """

    coefficients: np.ndarray = field(repr=False)
    intercept: np.ndarray = field(repr=False)
    seen: np.ndarray = field(repr=False)
    classes: int

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`."""
        return among(softmax(x @ self.coefficients.T + self.intercept), self.seen, self.classes)


def among(probabilities: np.ndarray, seen: np.ndarray, classes: int) -> np.ndarray:
    """Probabilities (n, seen) of the classes `seen` as float64 (n, classes), 0 for the others."""
    every = np.zeros((len(probabilities), classes))
    every[:, seen] = probabilities
    return every


LEAF = -1
"""Stands as `left` and `right` of a node that has no children."""


@dataclass(frozen=True)
class TreeNodes:
    """`roots` int64 (trees,), ascending from 0; of each node: `feature`, `left`, `right` int32 (nodes,), `threshold`
    float64 (nodes,), `value` float64 (nodes, outputs). A child comes after its parent, in the same tree."""

    roots: np.ndarray = field(repr=False)
    feature: np.ndarray = field(repr=False)
    threshold: np.ndarray = field(repr=False)
    left: np.ndarray = field(repr=False)
    right: np.ndarray = field(repr=False)
    value: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, trees: list[Any], values: list[np.ndarray]) -> TreeNodes:
        """From scikit-learn's `tree_` objects, with each tree's values (its nodes, outputs)."""
        counts = [tree.node_count for tree in trees]
        roots = np.cumsum([0, *counts[:-1]])

        def joined(name: str) -> np.ndarray:
            return np.concatenate([getattr(tree, name) for tree in trees])

        moved = np.repeat(roots, counts)
        left, right = joined("children_left"), joined("children_right")
        leaf = left == LEAF
        return cls(
            roots.astype(np.int64),
            np.where(leaf, 0, joined("feature")).astype(np.int32),
            np.where(leaf, 0.0, joined("threshold")),
            np.where(leaf, LEAF, left + moved).astype(np.int32),
            np.where(leaf, LEAF, right + moved).astype(np.int32),
            np.concatenate(values),
        )

    def leaves(self, x: np.ndarray, tree: int) -> np.ndarray:
        """Rows float32 (n, inputs) -> the node at which each ends, int64 (n,)."""
        place = np.full(len(x), self.roots[tree])
        going = np.arange(len(x)) if self.left[self.roots[tree]] != LEAF else np.empty(0, dtype=np.int64)
        while going.size:
            at = place[going]
            low = x[going, self.feature[at]] <= self.threshold[at]
            place[going] = np.where(low, self.left[at], self.right[at])
            going = going[self.left[place[going]] != LEAF]
        return place

    def __len__(self) -> int:
        return len(self.roots)


@dataclass(frozen=True)
class Forest:
    """The mean of the shares (nodes, seen) at the leaves; see `Linear` for `seen` and `classes`."""

    nodes: TreeNodes
    seen: np.ndarray = field(repr=False)
    classes: int

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`."""
        rows, shares = x.astype(np.float32), np.zeros((len(x), len(self.seen)))
        for tree in range(len(self.nodes)):
            shares += self.nodes.value[self.nodes.leaves(rows, tree)]
        return among(shares / len(self.nodes), self.seen, self.classes)


@dataclass(frozen=True)
class Boosted:
    """`baseline` float64 (outputs,) and the leaves' values (nodes, 1), the trees of one stage after the other.

    There is one output for each class of `seen`, or one where those are two, the score of the second; then softmax.
    """

    nodes: TreeNodes
    baseline: np.ndarray = field(repr=False)
    seen: np.ndarray = field(repr=False)
    classes: int

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`."""
        rows, outputs = x.astype(np.float32), len(self.baseline)
        scores = np.tile(self.baseline, (len(x), 1))
        for tree in range(len(self.nodes)):
            scores[:, tree % outputs] += self.nodes.value[self.nodes.leaves(rows, tree), 0]
        if outputs == 1:
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        return among(softmax(scores), self.seen, self.classes)


_LEAST_SHARE = 0.005


@dataclass(frozen=True)
class LinearTrainer:
    """Logistic regression. C: inverse regularisation."""

    C: float

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`; no random part, so the seed is not used."""
        from consilium.models.linear import LogisticTeacher  # scipy.optimize: only where it is used

        return linear_arrays(LogisticTeacher(self.C, iterations=1000).fit(x, y), classes)


def weighted_labels(x: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each row once for each class, with its share (n, classes) as its weight: rows, labels int64, weights.

    Smaller shares than `_LEAST_SHARE` are left out; two classes at least stay, as trees insist on.
    """
    kept = shares >= _LEAST_SHARE
    kept[:1] = True
    rows, labels = np.nonzero(kept)
    return x[rows], labels.astype(np.int64), shares[rows, labels]


def linear_arrays(fitted: LogisticRegression | LogisticTeacher, classes: int) -> Linear:
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


def _seen(
    fitted: LogisticRegression | LogisticTeacher | RandomForestClassifier | GradientBoostingClassifier,
) -> np.ndarray:
    return np.asarray(fitted.classes_, dtype=np.int64)
