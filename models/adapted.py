"""A published student brought to public rows whose labels are known.

The scores of the classes are b log p + a + w.x: p are the student's probabilities, which are all of it that is looked
at, and x the inputs. a and w have normal priors around 0, so that the student is the prior mean: b = 0 is a model of
the labelled rows alone, and w near 0 the student recalibrated. Every pair of b and the scale of w, on a grid, is fitted
by Newton's steps, and the scores are averaged by evidence in Laplace's approximation (MacKay, Bayesian interpolation,
1992; Hoeting et al., Bayesian model averaging, 1999). An average of scores is one b, one a and one w again. b ends
small where noise drowned the student, or where its votes told an order and no risk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import helmert

from consilium.models.base import principal, softmax
from consilium.models.linear import Linear
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
TELLS = 0.8
"""Prior probability that the student tells something."""
LEAST_ROWS = 2

# Chosen by Brier score on development divisions.

_MOST_WEIGHTS = 300
_STEPS, _HALVINGS, _SETTLED = 30, 12, 1e-5
_ROUNDING = 1e-9
ALONE = np.array([(0.0, reach, LEVEL) for reach in REACHES[1:]])
"""(settings, 3): b, reach and level of each model of the rows alone."""
_BOTH = [(weight, reach, LEVEL) for weight in WEIGHTS for reach in REACHES]
SETTINGS = np.array([*ALONE, *_BOTH, (1.0, 0.01, 0.02)])
"""With those that have the student; the last is the student as it is."""
_PRIOR = np.repeat(
    [(1 - TELLS) / len(ALONE), TELLS * (1 - AS_IS) / len(_BOTH), TELLS * AS_IS], [len(ALONE), len(_BOTH), 1]
)
_NUMBERS = 2e7
"""In the arrays of the settings that are fitted at a time."""


@dataclass(frozen=True)
class Adapted:
    """Scores `weight` log p + `intercept` float64 (classes,) + `coefficients` float64 (classes, inputs) x, softmax."""

    weight: float
    intercept: np.ndarray = field(repr=False)
    coefficients: np.ndarray = field(repr=False)

    def probabilities(self, x: np.ndarray, student: np.ndarray) -> np.ndarray:
        """Inputs float (n, inputs) and the student's probabilities (n, classes) -> probabilities float64."""
        return softmax(self.weight * _logs(student) + x @ self.coefficients.T + self.intercept)


def adapt(x: np.ndarray, y: np.ndarray, student: np.ndarray) -> Adapted | None:
    """Fit n >= 0 labelled rows; no random part. None where they are too few to tell anything. x: float (n, inputs), as
    the schema represents rows. y: int64 (n,), classes. student: float (n, classes), its probabilities of these rows.
    Raises DataError: a number is missing or not finite, or rows and labels do not fit."""
    classes = student.shape[1]
    x = np.asarray(x, dtype=np.float64)
    if not (len(x) == len(y) == len(student) and np.isfinite(x).all() and np.isfinite(student).all()):
        raise DataError(f"{len(x)} rows, {len(y)} labels and {len(student)} probabilities", "Give finite ones, as many")
    if len(y) and not (int(y.min()) >= 0 and int(y.max()) < classes):
        raise DataError(f"labels from {y.min()} to {y.max()} of {classes} classes", "Give them as 0 to classes - 1")
    return averaged(x, y, student, SETTINGS, _PRIOR) if len(y) >= LEAST_ROWS else None


def fit_labels(x: np.ndarray, y: np.ndarray, classes: int) -> Linear:
    """A model of n >= 1 labelled rows and of no votes, by the same rule; `x` float (n, inputs), `y` int64 (n,)."""
    nobody = np.full((len(y), classes), 1 / classes)
    even = np.full(len(ALONE), 1 / len(ALONE))
    model = averaged(np.asarray(x, dtype=np.float64), y, nobody, ALONE, even)
    return Linear(model.coefficients, model.intercept, np.arange(classes), classes)


def _logs(student: np.ndarray) -> np.ndarray:
    return np.log(np.clip(student, BOUND, None))


def averaged(x: np.ndarray, y: np.ndarray, student: np.ndarray, settings: np.ndarray, prior: np.ndarray) -> Adapted:
    """The fits of all `settings` (settings, 3), by their posterior; `prior` float64 (settings,). Scores are contrasts
    times `basis` (classes, contrasts), in which two classes' log-odds have the prior's variance whatever their number.
    """
    basis = helmert(student.shape[1]).T / math.sqrt(2)
    centre = x.mean(axis=0)
    least = _ROUNDING * float(((x - centre) ** 2).sum())
    _, turn = principal(x - centre, least, max(_MOST_WEIGHTS // basis.shape[1], 1))
    features = (x - centre) @ turn
    rows = np.concatenate([np.ones((len(x), 1)), features], axis=1)
    weight, reach, level = settings.T
    precision = np.empty((len(settings), rows.shape[1]))
    precision[:, 0] = level**-2
    precision[:, 1:] = (float((features**2).sum(axis=1).mean()) / reach**2)[:, None]
    said = 2 * _logs(student) @ basis
    width = rows.shape[1] * basis.shape[1]
    block = max(1, int(_NUMBERS / (width**2 + len(x) * (basis.shape[1] ** 2 + width))))
    parts = [
        _fitted(rows, y, weight[part, None, None] * said, precision[part], basis)
        for part in (slice(start, start + block) for start in range(0, len(settings), block))
    ]
    found, evidence = (np.concatenate(part) for part in zip(*parts, strict=True))
    shares = softmax(evidence + np.log(prior))
    theta = np.einsum("k,kpc->pc", shares, found) @ basis.T  # (1 + directions, classes)
    coefficients = np.ascontiguousarray((turn @ theta[1:]).T)  # as a file has it, to the last digit
    mean_weight = min(float(shares @ weight), 1.0)  # by rounding it may be above all that it is a mean of
    return Adapted(mean_weight, theta[0] - coefficients @ centre, coefficients)


def _fitted(
    rows: np.ndarray, y: np.ndarray, offset: np.ndarray, precision: np.ndarray, basis: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The most probable weights (settings, p, contrasts) of contrasts `offset` + `rows` @ weights, and the log evidence
    (settings,). rows: (n, p), ones first. offset: (settings, n, contrasts). precision: of the prior, (settings, p)."""
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
        missed, hessian = _slopes(rows, found, truth, precision, basis)
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
    hessian = _slopes(rows, found, truth, precision, basis)[1]
    evidence = 0.5 * contrasts * np.log(precision).sum(axis=1) - value - 0.5 * np.linalg.slogdet(hessian)[1]
    return weights, evidence


def _slopes(
    rows: np.ndarray, found: np.ndarray, truth: np.ndarray, precision: np.ndarray, basis: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of minus the log posterior: by contrasts (settings, n, contrasts), and twice by the weights (settings,
    p contrasts, p contrasts)."""
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
    return (probabilities - truth) @ basis, hessian
