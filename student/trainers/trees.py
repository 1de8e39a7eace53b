"""Forests and boosted trees as arrays, without the objects of the library that grew them.

The nodes of all trees follow one another. A row goes from a tree's root to the left where its feature is at most
the threshold, both as scikit-learn compares them: a float32 with a float64.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import softmax

from consilium.student.trainers.linear import among

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
        return among(softmax(scores, axis=1), self.seen, self.classes)
