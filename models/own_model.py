"""Teachers and students whose estimator others wrote.

Whether an estimator can be fitted to a shard, or answers for a row, may depend on private labels. Who takes part must
not: a teacher that has no answer says its shard's most frequent class. What a student learns from is public, so what
goes wrong there is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.models.base import Model, Told
from consilium.models.guard import GuardedClassifier, quoted, unless_signalled, weight_key
from consilium.models.naming import UnusableModel
from consilium.models.tabular import among

_LEAST_SHARE = 0.005
COPIES = 10
"""Of a row, divided among its classes, for an estimator that takes no weights."""


@dataclass
class OwnCodeTeacher:
    """Wraps a trained classifier; has scikit-learn's methods, and never raises.

    silent: names of exceptions, or "no probabilities" -> for how many questions it said its most frequent class.
    """

    trained: GuardedClassifier = field(repr=False)
    title: str
    silent: Counter[str] = field(default_factory=Counter, repr=False)

    @property
    def classes_(self) -> np.ndarray:
        """The classes int64 (seen,) in the rows that it was trained on."""
        return self.trained.seen

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The most probable class of each row, int64 (n,)."""
        return self.classes_[self.predict_proba(x).argmax(axis=1)]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Probabilities float64 (n, seen); where the estimator has none, 1 for its shard's most frequent class."""
        errors: set[str] = set()
        found = self._answers(x, errors)
        silent = np.isnan(found).any(axis=1)
        if silent.any():
            self.silent[", ".join(sorted(errors)) or "no probabilities"] += int(silent.sum())
            found[silent] = self.classes_ == self.trained.usual
        return found

    def _answers(self, x: np.ndarray, errors: set[str]) -> np.ndarray:
        """NaN for rows that it fails on: whether such a row is asked with another must not change the other's vote.

        errors: to which names of exceptions are added.
        """
        try:
            return self.trained.probabilities(x)
        except (Exception, SystemExit) as error:
            unless_signalled(error)
            errors.add(type(error).__name__)
        if len(x) < 2:
            return np.full((len(x), len(self.classes_)), np.nan)
        return np.concatenate([self._answers(part, errors) for part in np.array_split(x, 2)])


@dataclass(frozen=True)
class OwnModel:
    """A trained estimator, and how many `classes` there are in all. `title`: what people call it."""

    classifier: GuardedClassifier = field(repr=False)
    classes: int
    title: str

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`.

        Raises
        ------
        UnusableModel : the estimator raises something, or gives no probabilities.
        """
        try:
            found = self.classifier.probabilities(x)
        except (Exception, SystemExit) as error:
            unless_signalled(error)
            raise UnusableModel(f"the student {self.title} fails on {len(x)} rows: {quoted(error)}") from None
        if bad := int(np.isnan(found).any(axis=1).sum()):
            raise UnusableModel(f"the student {self.title} gives no probabilities for {bad} of {len(x)} rows")
        return among(found, self.classifier.seen, self.classes)


@dataclass(frozen=True)
class OwnTrainer:
    """Trains what `make` gives for a seed: an untrained estimator with scikit-learn's methods.

    unlabelled: float (m, inputs), rows whose shares it learns beside those that were asked.
    """

    title: str
    make: Callable[[int], Any]
    unlabelled: np.ndarray | None = field(default=None, repr=False)

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`. Raises UnusableModel."""
        try:
            trained = GuardedClassifier.trained(self.make(seed), x, y)
        except (Exception, SystemExit) as error:
            unless_signalled(error)
            raise self._failed(error, len(x)) from None
        return OwnModel(trained, classes, self.title)

    def fit_told(self, x: np.ndarray, told: Told, seed: int) -> Model:
        """See `EvidenceTrainer.fit_told`: it is given denoised shares."""
        from consilium.models.shares import denoise

        rows = x if self.unlabelled is None else np.concatenate([x, self.unlabelled])
        return self.fit_soft(rows, denoise(x, told, rows, seed), seed)

    def fit_soft(self, x: np.ndarray, shares: np.ndarray, seed: int) -> Model:
        """Train on `x` float64 (n, inputs) and `shares` float64 (n, classes), probabilities without noise: each row
        once for each class, with its share as its weight.

        An estimator that takes no weights, or fails with them, gets about `COPIES` of each row. Raises UnusableModel.
        """
        estimator, classes = self.make(seed), shares.shape[1]
        kept = shares >= _LEAST_SHARE
        kept[:1] = True  # two classes at least: a classifier of one is none
        places, labels = np.nonzero(kept)
        rows, weights = x[places], shares[places, labels]
        if weight_key(estimator) is not None:
            try:
                trained = GuardedClassifier.trained(estimator, rows, labels, weights)
            except (Exception, SystemExit) as error:
                unless_signalled(error)  # else a Pipeline whose steps pass weights on to what takes none, say
            else:
                return OwnModel(trained, classes, self.title)
        copies = np.rint(COPIES * weights).astype(np.int64)
        copies[:classes] = np.maximum(copies[:classes], 1)  # of the first row: a classifier of one class is none
        return self.fit(np.repeat(rows, copies, axis=0), np.repeat(labels, copies), classes, seed)

    def _failed(self, error: BaseException, rows: int) -> UnusableModel:
        if isinstance(error, UnusableModel):
            return UnusableModel(f"the student {self.title}: {error.what}", error.action)
        what = f"the student {self.title} cannot be trained on {rows} rows: {quoted(error)}"
        return UnusableModel(
            what, "Correct it, or its parameters; what was answered is in the ledger and costs nothing"
        )
