"""Whether features say the same of the label at every owner: one regression of all rows, and what owners leave of it.

The regression is a logistic one, one class against the others, made to sum to 1. Lots draw labels from its own
probabilities and take the refit into account to first order (a projection of the residuals), so that chance is what
these sizes, features and probabilities give. Sources: Cochran 1954 (Q), DerSimonian and Laird 1986 (tau^2), Higgins and
Thompson 2002 (I^2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit, gammaincc, logit, ndtr

LOTS = 200
LEAST_INFORMATION = 0.5
"""Fisher information that an owner has of a coefficient, at least, to be asked about it."""
_RIDGE, _STEPS, _CLIP = 1.0, 12, 1e-4


def tail(value: float, lots: np.ndarray) -> float:
    """Probability of at least `value`, of lots float (n,): counted where many are above, else of Pearson's type III law
    with their mean, variance and skewness (Josse, Pages, Husson 2008)."""
    above, spread = int((lots >= value).sum()), float(lots.std())
    if above >= 10 or spread <= 1e-12 * max(abs(value), 1e-300):
        return (1 + above) / (1 + len(lots)) if above or value <= lots.mean() else 1 / (1 + len(lots))
    z = (value - float(lots.mean())) / spread
    skew = float((((lots - lots.mean()) / spread) ** 3).mean())
    if skew < 0.02:
        return float(ndtr(-z))
    return float(gammaincc(4 / skew**2, max(2 / skew * (z + 2 / skew), 0.0)))


@dataclass(frozen=True)
class Labelled:
    """Rows owner after owner. y: int64 (n,); starts: int64 (owners,), where each owner's rows begin; design: float64
    (n, m), of mean 0; directions: float64 (n, g), in which coefficients may differ."""

    y: np.ndarray = field(repr=False)
    classes: int
    starts: np.ndarray = field(repr=False)
    design: np.ndarray = field(repr=False)
    directions: np.ndarray = field(repr=False)

    @property
    def modelled(self) -> list[int]:
        """Classes whose probabilities are looked at: of two the second."""
        return [1] if self.classes == 2 else list(range(self.classes))

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(np.r_[self.starts, len(self.y)])

    def sums(self, values: np.ndarray) -> np.ndarray:
        """By owner, float64 (owners, ...)."""
        return np.add.reduceat(values, self.starts, axis=0, dtype=np.float64)

    def fit(self) -> np.ndarray:
        """Probabilities float64 (n, classes) by the regression of all rows."""
        design = np.column_stack([np.ones(len(self.y)), self.design])
        penalty = _RIDGE * np.eye(design.shape[1])
        penalty[0, 0] = 1e-6
        fitted = np.empty((len(self.y), self.classes))
        for label in self.modelled:
            target, weights = self.y == label, np.zeros(design.shape[1])
            for _ in range(_STEPS):
                p = expit(design @ weights)
                slope = design.T @ (target - p) - penalty @ weights
                step = np.linalg.solve((design * (p * (1 - p))[:, None]).T @ design + penalty, slope)
                weights += step / max(1.0, np.abs(step).max() / 5)
                if np.abs(step).max() < 1e-6:
                    break
            fitted[:, label] = expit(design @ weights)
        return self._whole(fitted)

    def _whole(self, p: np.ndarray) -> np.ndarray:
        """Of the classes asked, those of all, which sum to 1."""
        if self.classes == 2:
            p[:, 0] = 1 - p[:, 1]
        p = np.clip(p, _CLIP, 1 - _CLIP)
        return p / p.sum(axis=1, keepdims=True)

    def with_levels(self, p: np.ndarray, tau2: float) -> np.ndarray:
        """Probabilities with an intercept for each owner, drawn from N(0, tau2)."""
        moved = np.empty_like(p)
        for label in self.modelled:
            level, target = np.zeros(len(self.starts)), self.sums((self.y == label).astype(np.float64))
            odds = logit(p[:, label])
            for _ in range(_STEPS):
                now = expit(odds + np.repeat(level, self.sizes))
                slope = target - self.sums(now) - level / max(tau2, 1e-3)
                step = slope / (self.sums(now * (1 - now)) + 1 / max(tau2, 1e-3))
                level += np.clip(step, -2, 2)
            moved[:, label] = expit(odds + np.repeat(level, self.sizes))
        return self._whole(moved)

    def draws(self, p: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Labels int8 (n, LOTS) of probabilities (n, classes)."""
        drawn = np.zeros((len(p), LOTS), dtype=np.int8)
        point = generator.random((len(p), LOTS), dtype=np.float32)
        for bound in np.cumsum(p, axis=1)[:, :-1].T.astype(np.float32):
            drawn += point > bound[:, None]
        return drawn


@dataclass(frozen=True)
class Heterogeneity:
    """Q over owners, beside its lots. by_owner: float64 (owners,), what each has of Q."""

    q: float
    lots: np.ndarray = field(repr=False)
    by_owner: np.ndarray = field(repr=False)
    p: float

    @classmethod
    def of(cls, q: np.ndarray) -> Heterogeneity:
        """Of each owner and lot, float64 (owners, 1 + LOTS), the real one first."""
        total = q.sum(axis=0)
        return cls(float(total[0]), total[1:], q[:, 0], tail(float(total[0]), total[1:]))

    @property
    def i2(self) -> float:
        """Share of Q that chance does not give."""
        return max(0.0, 1 - float(self.lots.mean()) / self.q) if self.q > 0 else 0.0


def _without(residual: np.ndarray, design: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Residuals (n, lots) as a refit of the design (n, m) leaves them, to first order."""
    design = design.astype(np.float32)
    inner = (design * weight[:, None]).T @ design + np.float32(_RIDGE) * np.eye(design.shape[1], dtype=np.float32)
    return residual - (design * weight[:, None]) @ np.linalg.solve(inner, design.T @ residual)


def _residuals(rows: Labelled, p: np.ndarray, drawn: np.ndarray, label: int) -> np.ndarray:
    """The real one first, then the lots: float32 (n, 1 + LOTS)."""
    targets = np.column_stack([rows.y == label, drawn == label]).astype(np.float32)
    return targets - p[:, [label]].astype(np.float32)


def levels(rows: Labelled, p: np.ndarray, generator: np.random.Generator) -> tuple[Heterogeneity, float]:
    """Whether a class is as frequent at each owner as features say; and tau^2, the variance between owners of the
    log-odds (DerSimonian and Laird)."""
    ones, drawn = np.ones(len(rows.y)), rows.draws(p, generator)
    design = np.column_stack([ones, rows.design])
    q, unit = np.zeros((len(rows.starts), 1 + LOTS)), 0.0
    for label in rows.modelled:
        weight = (p[:, label] * (1 - p[:, label])).astype(np.float32)
        q += _of_direction(rows, _without(_residuals(rows, p, drawn, label), design, weight), ones, weight)
        information = rows.sums(weight)
        judged = information[information >= LEAST_INFORMATION]
        if total := float(judged.sum()):
            unit += total - float((judged**2).sum()) / total  # what one unit of tau^2 adds to Q
    found = Heterogeneity.of(q)
    return found, max(0.0, (found.q - float(found.lots.mean())) / unit) if unit > 0 else 0.0


def slopes(
    rows: Labelled, p: np.ndarray, common: np.ndarray, generator: np.random.Generator
) -> tuple[Heterogeneity, Heterogeneity]:
    """Whether owners have the same calibration slope along the log-odds of `common`, and the same coefficients.

    p: with what owners may differ in, such as levels; common: without, float64 (n, classes) both.
    """
    drawn = rows.draws(p, generator)
    slope, rest = np.zeros((2, len(rows.starts), 1 + LOTS))
    for label in rows.modelled:
        weight = p[:, label] * (1 - p[:, label])
        information = np.maximum(rows.sums(weight), 1e-9)

        def centred(values: np.ndarray, weight: np.ndarray = weight, by: np.ndarray = information) -> np.ndarray:
            means = rows.sums(values * weight[:, None]) / by[:, None]
            return values - np.repeat(means, rows.sizes, axis=0)

        odds = centred(logit(common[:, [label]]))
        refit = np.column_stack([odds, centred(rows.design)])
        residual = _without(_residuals(rows, p, drawn, label), refit, weight.astype(np.float32))
        slope += _of_direction(rows, residual, odds[:, 0], weight)
        for column in range(rows.directions.shape[1]):
            rest += _of_direction(rows, residual, centred(rows.directions[:, [column]])[:, 0], weight)
    return Heterogeneity.of(slope), Heterogeneity.of(rest)


def _of_direction(rows: Labelled, residual: np.ndarray, along: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Q of each owner and lot; 0 of owners with too little information."""
    information = rows.sums(weight * along**2)
    scores = rows.sums(residual * along.astype(np.float32)[:, None])
    q = scores**2 / np.maximum(information, 1e-9)[:, None]
    return np.where((information >= LEAST_INFORMATION)[:, None], q, 0.0)
