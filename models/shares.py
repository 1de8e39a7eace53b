"""Students that learn from what a mechanism released: its noise is known, so nothing about it must be guessed. There
are smooth functions of rows (a kernel's, a graph's), and shares of all public rows for trainers that need labels. All
of it is post-processing of what was released: it costs no privacy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from consilium.models.base import Model, Shares, Told, constant
from consilium.models.evidence import (
    Landmarks,
    Regression,
    SoftmaxFit,
    fit_scores,
    fit_softmax,
    gammas,
    graph_functions,
    regress,
)
from consilium.models.kernel import KernelModel, kernel_ridge, nearest_rows, neighbour_graph, spread, usual_gamma
from consilium.models.keys import GraphStudent
from consilium.models.linear import Linear, LogisticTeacher
from consilium.protocol.label_source import NO_LABEL


@dataclass(frozen=True)
class LinearTrainer:
    """Logistic regression. C: inverse regularisation of labels whose law nobody knows, as manual ones."""

    C: float

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`; no random part, so the seed is not used."""
        fitted = LogisticTeacher(self.C, iterations=1000).fit(x, y)
        weights, intercept = np.asarray(fitted.coef_, np.float64), np.asarray(fitted.intercept_, np.float64)
        if len(fitted.classes_) == 2:  # the first one's scores are 0
            weights, intercept = np.concatenate([np.zeros_like(weights), weights]), np.append(0.0, intercept)
        return Linear(weights, intercept, np.asarray(fitted.classes_, dtype=np.int64), classes)

    def fit_told(self, x: np.ndarray, told: Told, seed: int) -> Model:
        """See `EvidenceTrainer.fit_told`: without a setting, the evidence decides."""
        return fit_softmax(x, told)[0]


_NEVER = 1e-300
_LEAST_ROWS = 4
"""Of a graph."""
_SAMPLE = 500
_LITTLE_NOISE = 0.01


def fit_kernel(x: np.ndarray, told: Shares, widths: tuple[float, ...], seed: int) -> KernelModel:
    """Fit `told` of n >= 1 rows on `x` float (n, inputs); of `widths` and the usual ones the most evident is taken. A
    width is the kernel's gamma. The penalty follows from the noise and the evidence."""
    rows = x.astype(np.float32)
    around = [Landmarks.among(rows, gamma, seed) for gamma in (*gammas(rows), *widths)]
    fits = [(marks, regress(marks.features(rows), told)) for marks in around]
    marks, found = max(fits, key=lambda fit: fit[1].evidence)
    return KernelModel(marks.rows, marks.weights(found.weights).astype(np.float32), marks.gamma, found.offset)


@dataclass(frozen=True)
class GraphTrainer:
    """Labels spread over a graph of like rows first; kernel ridge on all rows then, so that new rows can be judged.
    `unlabelled` float (n, inputs). Post-processing of released labels: costs no privacy."""

    spec: GraphStudent
    unlabelled: np.ndarray = field(repr=False)

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`; no random part, so the seed is not used."""
        rows = np.concatenate([x, self.unlabelled]).astype(np.float32)
        given = np.zeros((len(rows), classes), dtype=np.float32)
        given[np.arange(len(y)), y] = 1
        scores = spread(neighbour_graph(*nearest_rows(rows, self.spec.neighbours)), given, self.spec.spread)
        reached = scores.sum(axis=1) > 0  # by some label
        known = np.eye(classes, dtype=np.float32)[scores.argmax(axis=1)[reached]]
        gamma = usual_gamma(rows) if self.spec.gamma is None else self.spec.gamma
        return kernel_ridge(rows[reached], known, gamma, self.spec.alpha)

    def fit_told(self, x: np.ndarray, told: Told, seed: int) -> Model:
        """See `EvidenceTrainer.fit_told`. Of histograms the graph gives shares of all rows. Labels are spread whatever
        their law. On digits of development writers, seeds 100 to 104, that was right on .907 of the other rows with 30
        labels and sigma 110, and on .973 with 150; the softmax of a graph's smooth functions, by the law's likelihood,
        on .716 and .906."""
        if isinstance(told, Shares):
            return self._fit_shares(x, told, seed)
        has = told.labels != NO_LABEL
        if not has.any():
            return constant(told.labels[has], told.classes)
        rest = replace(self, unlabelled=np.concatenate([x[~has], self.unlabelled]))
        return rest.fit(x[has], told.labels[has], told.classes, seed)

    def _fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> Model:
        spec, rows = self.spec, np.concatenate([x, self.unlabelled]).astype(np.float32)
        widths = () if spec.gamma is None else (spec.gamma,)
        if len(rows) < _LEAST_ROWS:
            return fit_kernel(x, told, widths, seed)
        functions = graph_functions(rows, spec.neighbours, spec.spread)
        shares = regress(functions[: len(x)], told).shares(functions)
        some = np.random.default_rng([seed, len(rows)]).permutation(len(rows))[:_SAMPLE]
        nearly = Shares(shares[some], np.full(len(some), _LITTLE_NOISE))
        gamma = fit_kernel(rows[some], nearly, widths, seed).gamma
        return kernel_ridge(rows, shares.astype(np.float32), gamma, spec.alpha)


def denoise(x: np.ndarray, told: Told, rows: np.ndarray, seed: int) -> np.ndarray:
    """Shares float64 (m, classes) of `rows` (m, inputs), probabilities, from what was `told` of `x` (n, inputs). They
    are those of the linear student or of one with a kernel, whichever has more evidence."""
    linear, evidence = fit_softmax(x, told)
    near = x.astype(np.float32)
    around = [Landmarks.among(near, gamma, seed) for gamma in gammas(near)]

    def fit(features: np.ndarray) -> Regression | SoftmaxFit:
        """Of noisy counts a sum has a closed form."""
        return regress(features, told) if isinstance(told, Shares) else fit_scores(features, told)

    fits = [(marks, fit(marks.features(near))) for marks in around]
    marks, found = max(fits, key=lambda fit: fit[1].evidence)
    if evidence >= found.evidence:
        return linear.predict_proba(rows)
    shares = np.maximum(found.shares(marks.features(rows.astype(np.float32))), _NEVER)
    return shares / shares.sum(axis=1, keepdims=True)
