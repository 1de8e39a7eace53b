"""The baseline that nobody may have in earnest: one model on the rows of all parties together."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve
from sklearn.linear_model import LogisticRegression

from protocol.messages import TeacherSpec
from protocol.schema import Schema

_BLOCK = 2000


def pooled_probabilities(
    schema: Schema, teacher: TeacherSpec, x: np.ndarray, y: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Trained on bare rows `x` (n, features) with `y` int64 (n,) -> probabilities (m, classes) of the inputs `test`.

    Logistic regression, or ridge regression where the teachers are such: then the represented rows are never all in
    memory, only sums over them, 4 inputs^2 bytes.
    """
    if teacher.model != "ridge":
        model = LogisticRegression(max_iter=2000).fit(schema.inputs(x), y)
        probabilities = np.zeros((len(test), len(schema.classes)))
        probabilities[:, model.classes_] = model.predict_proba(test)
        return probabilities
    width, classes = test.shape[1], len(schema.classes)
    gram, cross = np.zeros((width, width), dtype=np.float32), np.zeros((width, classes), dtype=np.float32)
    total, counts = np.zeros(width), np.bincount(y, minlength=classes)
    for start in range(0, len(x), _BLOCK):
        inputs = schema.inputs(x[start : start + _BLOCK]).astype(np.float32)
        gram += inputs.T @ inputs
        cross += inputs.T @ np.eye(classes, dtype=np.float32)[y[start : start + _BLOCK]]
        total += inputs.sum(axis=0)
    mean, shares = (total / len(x)).astype(np.float32), (counts / len(x)).astype(np.float32)
    gram -= np.outer(mean, mean) * np.float32(len(x))
    gram[np.diag_indices_from(gram)] += np.float32(teacher.alpha)
    weights = solve(gram, cross - np.outer(mean, counts.astype(np.float32)), assume_a="pos", overwrite_a=True)
    scores = np.maximum((test - mean) @ weights + shares, 0)
    return scores / scores.sum(axis=1, keepdims=True)
