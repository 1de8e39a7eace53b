"""A published student brought to public rows whose labels are known.

The scores of the classes are b log p + a + w.x: p are the student's probabilities, which are all of it that is looked
at, and x the inputs. a and w have normal priors around 0, so that the student is the prior mean: b = 0 is a model of
the labelled rows alone, and w near 0 the student recalibrated. Every pair of b and the scale of w, on a grid, is fitted
by Newton's steps, and the scores are averaged by evidence in Laplace's approximation (MacKay, Bayesian interpolation,
1992; Hoeting et al., Bayesian model averaging, 1999). An average of scores is one b, one a and one w again. b ends
small where noise drowned the student, or where its votes told an order and no risk.

That average is held against the student and the model of the rows alone, by predictions of each row without it, which
follow from the fit of all rows by one step of Newton's (Rad, Maleki, JRSS B 2020). It is kept unless one of the two is
better by more than chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.linalg import helmert

from consilium.models.base import principal, softmax
from consilium.protocol.errors import DataError

WEIGHTS = (0.25, 0.5, 1.0)
"""b of a model with the student."""
REACHES = (0.05, 0.5, 2.0)
"""Standard deviations of w.x over the labelled rows, for two classes of their log-odds; the least recalibrates only."""
LEVEL = 1.5
"""Standard deviation of a, likewise."""
AS_IS = 0.1
"""Prior share of the student as it is among the models with the student."""
BOUND = 1e-3
"""Probabilities of a student below it count as it: votes that agree are no such certainty on a few rows."""
CHANCE = 2.0
"""Standard errors of a mean difference in log score by which another has to be better."""
TELLS = 0.8
"""Prior probability that the student tells something."""
LEAST_ROWS = 2

# Chosen by Brier score on development divisions.

_MOST_WEIGHTS = 100
_STEPS, _HALVINGS, _SETTLED = 30, 12, 1e-5
_ROUNDING, _JITTER = 1e-9, 1e-6
_ALONE = tuple((0.0, reach, LEVEL) for reach in REACHES[1:])
_BOTH = tuple((weight, reach, LEVEL) for weight in WEIGHTS for reach in REACHES)
_UNCHANGED = (1.0, 0.01, 0.02)
SETTINGS = np.array([*_ALONE, *_BOTH, _UNCHANGED])
"""(settings, 3): b, reach and level of each; the last is the student as it is."""
_NUMBERS = 2e7
"""In the arrays of the settings that are fitted at a time."""

Kind = Literal["both", "alone", "student"]


@dataclass(frozen=True)
class Adapted:
    """Scores `weight` log p + `intercept` float64 (classes,) + `coefficients` float64 (classes, inputs) x, softmax."""

    weight: float
    intercept: np.ndarray = field(repr=False)
    coefficients: np.ndarray = field(repr=False)

    def probabilities(self, x: np.ndarray, student: np.ndarray) -> np.ndarray:
        """Inputs float (n, inputs) and the student's probabilities (n, classes) -> probabilities float64."""
        return softmax(self.weight * _logs(student) + x @ self.coefficients.T + self.intercept)


@dataclass(frozen=True)
class Adaptation:
    """kind: which of the three is to be used, and why, in words. `model`: that one; None where it is the student.

    `weight`: of the student in the average.
    """

    kind: Kind
    why: str
    model: Adapted | None
    weight: float

    def probabilities(self, x: np.ndarray, student: np.ndarray) -> np.ndarray:
        """See `Adapted.probabilities`."""
        return student if self.model is None else self.model.probabilities(x, student)


def adapt(x: np.ndarray, y: np.ndarray, student: np.ndarray) -> Adaptation:
    """Fit n >= 0 labelled rows; no random part.

    Parameters
    ----------
    x : float (n, inputs), as the schema represents rows. y : int64 (n,), classes. student : float (n, classes), its
        probabilities of these rows.

    Raises
    ------
    DataError : a number is missing or not finite, or rows and labels do not fit.
    """
    classes = student.shape[1]
    x = np.asarray(x, dtype=np.float64)
    if not (len(x) == len(y) == len(student) and np.isfinite(x).all() and np.isfinite(student).all()):
        raise DataError(f"{len(x)} rows, {len(y)} labels and {len(student)} probabilities", "Give finite ones, as many")
    if len(y) and not (int(y.min()) >= 0 and int(y.max()) < classes):
        raise DataError(f"labels from {y.min()} to {y.max()} of {classes} classes", "Give them as 0 to classes - 1")
    if len(y) < LEAST_ROWS:
        return Adaptation("student", f"{len(y)} labelled rows tell nothing", None, 1.0)
    fits = Fits.of(x, y, student)
    both, only = fits.average(fits.shares(TELLS)), fits.average(fits.shares(0.0))
    scores = np.stack([_log_scores(found, y) for found in (both.left_out, only.left_out, _logs(student))])
    better = [rival for rival in (1, 2) if _by_more_than_chance(scores[rival] - scores[0])]
    if better:
        alone = max(better, key=lambda rival: float(scores[rival].mean())) == 1
        kind: Kind = "alone" if alone else "student"
        what = "the model of these rows alone" if alone else "the student as it is"
        why = f"{what} predicts them better by more than chance"
        return Adaptation(kind, why, only.model if alone else None, both.model.weight)
    why = "neither the student nor the model of these rows alone predicts them better by more than chance"
    return Adaptation("both", why, both.model, both.model.weight)


def _logs(student: np.ndarray) -> np.ndarray:
    return np.log(np.clip(student, BOUND, None))


def _log_scores(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of scores (n, classes): float64 (n,)."""
    return np.log(softmax(scores)[np.arange(len(y)), y] + 1e-300)


def _by_more_than_chance(differences: np.ndarray) -> bool:
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    return bool(differences.mean() > CHANCE * error)


@dataclass(frozen=True)
class Average:
    """left_out: scores float64 (n, classes) of each row by what was fitted without it."""

    model: Adapted
    left_out: np.ndarray


@dataclass(frozen=True)
class Fits:
    """Every setting's fit. weight, evidence: float64 (settings,). theta: (settings, 1 + directions, contrasts).
    left_out: (settings, n, contrasts). Scores are contrasts times `basis` (classes, contrasts), in which two classes'
    log-odds have the prior's variance whatever their number."""

    weight: np.ndarray
    evidence: np.ndarray
    theta: np.ndarray
    left_out: np.ndarray
    centre: np.ndarray
    turn: np.ndarray
    basis: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, student: np.ndarray) -> Fits:
        basis = helmert(student.shape[1]).T / math.sqrt(2)
        centre = x.mean(axis=0)
        least = _ROUNDING * float(((x - centre) ** 2).sum())
        _, turn = principal(x - centre, least, max(_MOST_WEIGHTS // basis.shape[1], 1))
        features = (x - centre) @ turn
        rows = np.concatenate([np.ones((len(x), 1)), features], axis=1)
        weight, reach, level = SETTINGS.T
        precision = np.empty((len(SETTINGS), rows.shape[1]))
        precision[:, 0] = level**-2
        precision[:, 1:] = (float((features**2).sum(axis=1).mean()) / reach**2)[:, None]
        said = 2 * _logs(student) @ basis
        width = rows.shape[1] * basis.shape[1]
        block = max(1, int(_NUMBERS / (width**2 + len(x) * (basis.shape[1] ** 2 + width))))
        parts = [
            _fitted(rows, y, weight[part, None, None] * said, precision[part], basis)
            for part in (slice(start, start + block) for start in range(0, len(SETTINGS), block))
        ]
        theta, left_out, evidence = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(weight, evidence, theta, left_out, centre, turn, basis)

    def shares(self, tells: float) -> np.ndarray:
        """Posterior float64 (settings,); `tells`: prior probability of those with the student, 0 for none of them."""
        among = np.full(len(SETTINGS), tells * (1 - AS_IS) / len(_BOTH))
        among[: len(_ALONE)] = (1 - tells) / len(_ALONE)
        among[-1] = tells * AS_IS
        with np.errstate(divide="ignore"):
            prior = np.log(among)
        return softmax(self.evidence + prior)

    def average(self, shares: np.ndarray) -> Average:
        theta = np.einsum("k,kpc->pc", shares, self.theta) @ self.basis.T  # (1 + directions, classes)
        coefficients = np.ascontiguousarray((self.turn @ theta[1:]).T)  # as a file has it, to the last digit
        model = Adapted(float(shares @ self.weight), theta[0] - coefficients @ self.centre, coefficients)
        return Average(model, np.einsum("k,knc->nc", shares, self.left_out) @ self.basis.T)


def _fitted(
    rows: np.ndarray, y: np.ndarray, offset: np.ndarray, precision: np.ndarray, basis: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The most probable weights (settings, p, contrasts) of contrasts `offset` + `rows` @ weights, those contrasts of
    each row without it (settings, n, contrasts), and the log evidence (settings,).

    rows: (n, p), the first column ones. offset: (settings, n, contrasts). precision: of the prior, (settings, p).
    """
    truth, each, contrasts = np.eye(len(basis))[y], np.arange(len(y)), basis.shape[1]
    weights = np.zeros((*precision.shape, contrasts))

    def loss(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = offset + rows @ weights
        scores = found @ basis.T
        scores -= scores.max(axis=-1, keepdims=True)
        missed = np.log(np.exp(scores).sum(axis=-1)) - scores[:, each, y]
        return missed.sum(axis=1) + 0.5 * (precision[..., None] * weights**2).sum(axis=(1, 2)), found

    value, found = loss(weights)
    for _ in range(_STEPS):
        missed, _, hessian = _slopes(rows, found, truth, precision, basis)
        ascent = np.matmul(rows.T, missed) + precision[..., None] * weights
        step = np.linalg.solve(hessian, ascent.reshape(len(weights), -1, 1)).reshape(weights.shape)
        for _ in range(_HALVINGS):
            new, reached = loss(weights - step)
            worse = new > value
            if not worse.any():
                break
            step[worse] /= 2
        step[new > value] = 0.0
        weights = weights - step
        before, (value, found) = value, loss(weights) if (new > value).any() else (new, reached)
        if float((before - value).max()) < _SETTLED:
            break
    missed, curvature, hessian = _slopes(rows, found, truth, precision, basis)
    inverse = np.linalg.inv(hessian).reshape(len(weights), rows.shape[1], contrasts, rows.shape[1], contrasts)
    pulled = np.tensordot(rows, inverse, axes=(1, 1))  # (n, settings, contrasts, p, contrasts)
    reach = np.einsum("nkaqb,nq->knab", pulled, rows)
    left = np.eye(contrasts) * (1 + _JITTER) - reach @ curvature
    left_out = found + np.linalg.solve(left, reach @ missed[..., None])[..., 0]
    evidence = 0.5 * contrasts * np.log(precision).sum(axis=1) - value - 0.5 * np.linalg.slogdet(hessian)[1]
    return weights, left_out, evidence


def _slopes(
    rows: np.ndarray, found: np.ndarray, truth: np.ndarray, precision: np.ndarray, basis: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of minus the log posterior: by contrasts (settings, n, contrasts), twice by them (..., contrasts, contrasts), and
    twice by the weights (settings, p contrasts, p contrasts)."""
    probabilities = softmax(found @ basis.T)
    mean, contrasts = probabilities @ basis, basis.shape[1]
    squares = (basis[:, :, None] * basis[:, None, :]).reshape(len(basis), -1)
    curvature = (probabilities @ squares).reshape(*mean.shape, contrasts)
    curvature -= mean[..., :, None] * mean[..., None, :]
    settings, width = precision.shape
    hessian = np.empty((settings, width, contrasts, width, contrasts))
    for one in range(contrasts):
        for other in range(one + 1):
            block = np.matmul(rows.T * curvature[:, None, :, one, other], rows)
            hessian[:, :, one, :, other] = hessian[:, :, other, :, one] = block
    hessian = hessian.reshape(settings, width * contrasts, width * contrasts)
    diagonal = np.arange(width * contrasts)
    hessian[:, diagonal, diagonal] += np.repeat(precision, contrasts, axis=1)
    return (probabilities - truth) @ basis, curvature, hessian
