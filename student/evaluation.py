"""How good a model is on labelled public rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score


def evaluate(probabilities: np.ndarray, y: np.ndarray, class_names: tuple[str, ...]) -> dict[str, Any]:
    """Accuracy, AUC and recall of each class.

    `probabilities` float64 (n, classes), `y` int64 (n,). AUC is that of the last class where there are two, else the
    mean of one class against the rest over the classes that occur; None where only one class occurs. Recall is None
    for a class without rows.
    """
    predicted = probabilities.argmax(axis=1)
    recall = {
        name: float((predicted[y == index] == index).mean()) if (y == index).any() else None
        for index, name in enumerate(class_names)
    }
    present = np.unique(y)
    auc: float | None = None
    if len(class_names) == 2 and len(present) == 2:
        auc = float(roc_auc_score(y, probabilities[:, 1]))
    elif len(present) > 1:
        auc = float(np.mean([roc_auc_score(y == index, probabilities[:, index]) for index in present]))
    return {"accuracy": float((predicted == y).mean()), "auc": auc, "recall_per_class": recall}
