"""Students that are scikit-learn estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from student.config import StudentSpec
from student.trainers.base import Model


@dataclass(frozen=True)
class TabularModel:
    """A fitted estimator; classes that it never saw get probability 0."""

    estimator: Any
    classes: int

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`."""
        probabilities = np.zeros((len(x), self.classes))
        probabilities[:, self.estimator.classes_] = self.estimator.predict_proba(x)
        return probabilities


@dataclass(frozen=True)
class TabularTrainer:
    """Logistic regression, random forest or gradient boosting."""

    spec: StudentSpec

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`."""
        spec = self.spec
        match spec.trainer:
            case "random_forest":
                estimator = RandomForestClassifier(n_estimators=spec.trees, max_depth=spec.depth, random_state=seed)
            case "gradient_boosting":
                estimator = GradientBoostingClassifier(n_estimators=spec.trees, max_depth=spec.depth, random_state=seed)
            case _:
                estimator = LogisticRegression(C=spec.C, max_iter=1000)
        return TabularModel(estimator.fit(x, y), classes)
