"""Whether features say the same of the label at every owner: one regression of all rows, and what owners leave of it.

The regression is a logistic one, one class against the others, made to sum to 1. Lots draw labels from its own
probabilities and take the refit into account to first order (a projection of the residuals). Sources: Cochran 1954 (Q),
DerSimonian and Laird 1986 (tau^2), Higgins and Thompson 2002 (I^2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from consilium.simulations.study.measures.between import LOTS, OwnerRows, tail

LEAST_INFORMATION = 0.5  # Fisher information that an owner has of a coefficient, at least, to be asked about it
_RIDGE, _STEPS, _CLIP = 1.0, 12, 1e-4


@dataclass(frozen=True)
class Labelled:
    """design: float64 (n, m), of mean 0, of the regression of all rows; directions: float64 (n, g), in which
    coefficients may differ between owners."""

    rows: OwnerRows = field(repr=False)
    design: np.ndarray = field(repr=False)
    directions: np.ndarray = field(repr=False)

    @property
    def modelled(self) -> list[int]:
        """Classes whose probabilities are looked at: of two the second."""
        return [1] if self.rows.classes == 2 else list(range(self.rows.classes))

    def fit(self) -> np.ndarray:
        """Probabilities float64 (n, classes) by the regression of all rows."""
        from sklearn.linear_model import LogisticRegression  # half a second to import: only where it is used

        fitted = np.empty((len(self.design), self.rows.classes))
        for label in self.modelled:
            model = LogisticRegression(C=1 / _RIDGE, solver="newton-cholesky", tol=1e-8)
            fitted[:, label] = expit(model.fit(self.design, self.rows.y == label).decision_function(self.design))
        return self._whole(fitted)

    def _whole(self, p: np.ndarray) -> np.ndarray:
        """Of the classes asked, those of all, which sum to 1."""
        if self.rows.classes == 2:
            p[:, 0] = 1 - p[:, 1]
        p = np.clip(p, _CLIP, 1 - _CLIP)
        return p / p.sum(axis=1, keepdims=True)

    def with_levels(self, p: np.ndarray, tau2: float) -> np.ndarray:
        """Probabilities with an intercept for each owner, drawn from N(0, tau2)."""
        rows, moved = self.rows, np.empty_like(p)
        precision = 1 / max(tau2, 1e-3)
        for label in self.modelled:
            level, target = np.zeros(len(rows.sizes)), rows.sums((rows.y == label).astype(np.float64))
            odds = logit(p[:, label])
            for _ in range(_STEPS):
                now = expit(odds + level[rows.owner])
                step = (target - rows.sums(now) - level * precision) / (rows.sums(now * (1 - now)) + precision)
                level += np.clip(step, -2, 2)
            moved[:, label] = expit(odds + level[rows.owner])
        return self._whole(moved)

    def residuals(self, p: np.ndarray, generator: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
        """Each class modelled, with label less probability, float32 (n, 1 + LOTS): the real labels first, then lots of
        `p` float64 (n, classes)."""
        drawn = np.zeros((len(p), 1 + LOTS), dtype=np.int8)
        point = generator.random((len(p), LOTS), dtype=np.float32)
        for bound in np.cumsum(p, axis=1)[:, :-1].T.astype(np.float32):
            drawn[:, 1:] += point > bound[:, None]
        drawn[:, 0] = self.rows.y
        for label in self.modelled:
            yield label, (drawn == label).astype(np.float32) - p[:, [label]].astype(np.float32)

    def q_along(self, residual: np.ndarray, along: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Q of each owner and lot along a direction float64 (n,); 0 of owners with too little information."""
        information = self.rows.sums(weight * along**2)
        scores = self.rows.sums(residual * along.astype(np.float32)[:, None])
        q = scores**2 / np.maximum(information, 1e-9)[:, None]
        return np.where((information >= LEAST_INFORMATION)[:, None], q, 0.0)


class Heterogeneity(NamedTuple):
    """Q over owners, beside its lots. by_owner: float64 (owners,), what each has of Q."""

    q: float
    lots: np.ndarray
    by_owner: np.ndarray
    p: float

    @classmethod
    def of(cls, q: np.ndarray) -> Heterogeneity:
        """Of each owner and lot, float64 (owners, 1 + LOTS), the real one first."""
        total = q.sum(axis=0)
        return cls(float(total[0]), total[1:], q[:, 0], tail(float(total[0]), total[1:]))


def _without(residual: np.ndarray, design: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Residuals (n, lots) as a refit of the design (n, m) leaves them, to first order."""
    design, weight = design.astype(np.float32), weight.astype(np.float32)
    inner = (design * weight[:, None]).T @ design + np.float32(_RIDGE) * np.eye(design.shape[1], dtype=np.float32)
    return residual - (design * weight[:, None]) @ np.linalg.solve(inner, design.T @ residual)


def levels(labelled: Labelled, p: np.ndarray, generator: np.random.Generator) -> tuple[Heterogeneity, float]:
    """Whether a class is as frequent at each owner as features say; and tau^2, the variance between owners of the
    log-odds (DerSimonian and Laird)."""
    rows, ones, unit, q = labelled.rows, np.ones(len(p)), 0.0, 0.0
    design = np.column_stack([ones, labelled.design])
    for label, residual in labelled.residuals(p, generator):
        weight = (p[:, label] * (1 - p[:, label])).astype(np.float32)
        q = q + labelled.q_along(_without(residual, design, weight), ones, weight)
        information = rows.sums(weight)
        judged = information[information >= LEAST_INFORMATION]
        if total := float(judged.sum()):
            unit += total - float((judged**2).sum()) / total  # what one unit of tau^2 adds to Q
    found = Heterogeneity.of(np.asarray(q))
    return found, max(0.0, (found.q - float(found.lots.mean())) / unit) if unit > 0 else 0.0


def slopes(
    labelled: Labelled, p: np.ndarray, common: np.ndarray, generator: np.random.Generator
) -> tuple[Heterogeneity, Heterogeneity]:
    """Whether owners have the same calibration slope along the log-odds of `common`, and the same coefficients. p: with
    what owners may differ in, such as levels; common: without, float64 (n, classes) both."""
    rows = labelled.rows
    slope, rest = np.zeros((2, len(rows.sizes), 1 + LOTS))
    for label, residual in labelled.residuals(p, generator):
        weight = p[:, label] * (1 - p[:, label])
        information = np.maximum(rows.sums(weight), 1e-9)

        def centred(values: np.ndarray, weight: np.ndarray = weight, by: np.ndarray = information) -> np.ndarray:
            return values - (rows.sums(values * weight[:, None]) / by[:, None])[rows.owner]

        odds = centred(logit(common[:, [label]]))
        left = _without(residual, np.column_stack([odds, centred(labelled.design)]), weight)
        slope += labelled.q_along(left, odds[:, 0], weight)
        for column in labelled.directions.T:
            rest += labelled.q_along(left, centred(column[:, None])[:, 0], weight)
    return Heterogeneity.of(slope), Heterogeneity.of(rest)
