"""Probabilities shifted to a declared prevalence: one number a class, added to log-probabilities.

A student learns shares of votes, and a share of votes is no risk: teachers that all call the likelier class make 0.6 of
it look like 1, and balanced ones make 0.1 look like 0.5. What lacks is how frequent the classes are among the rows that
the student is for. Where somebody knows that from outside, the shift makes the mean over the public pool equal to it;
ranks within two classes stay (the prior shift of Saerens et al. 2002, with the means known instead of estimated).
"""

from __future__ import annotations

import numpy as np
from pydantic import Field, FiniteFloat, model_validator
from scipy.special import expit, logsumexp, softmax

from consilium.models.evaluation import threshold_for
from consilium.models.published.file import BadModel
from consilium.protocol.models import Frozen

FURTHEST_MEAN = 1e-9
"""Of a class's mean over the pool from its prevalence."""

_FLOOR = 1e-300
_FURTHEST_SUM = 1e-6
_RIDGE = 1e-12
_MOST_SHIFT = 2000.0  # -ln(_FLOOR) is 691, twice that tells certain rows of two classes apart


class PrevalenceShift(Frozen):
    """prevalence: shares of the classes. shift: softmax(log p + shift), the first being 0. threshold: of two classes,
    the probability of the last above which a row is flagged."""

    prevalence: tuple[FiniteFloat, ...] = Field(min_length=2)
    shift: tuple[FiniteFloat, ...]
    threshold: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _fits_itself(self) -> PrevalenceShift:
        if len(self.shift) != len(self.prevalence) or max(map(abs, self.shift)) > _MOST_SHIFT:
            raise ValueError(f"{len(self.shift)} shifts for {len(self.prevalence)} classes, or one is too large")
        if min(self.prevalence) <= 0 or abs(sum(self.prevalence) - 1) > _FURTHEST_SUM:
            raise ValueError("prevalence: positive shares that sum to 1")
        if (self.threshold is None) != (len(self.prevalence) > 2):
            raise ValueError("a threshold is that of two classes")
        return self

    @classmethod
    def onto(cls, prevalence: tuple[float, ...], probabilities: np.ndarray) -> PrevalenceShift:
        """The shift after which the mean of the pool's `probabilities` float64 (n, classes) is `prevalence`. Raises
        BadModel: there is none that is near enough."""
        shares = np.array(prevalence) / sum(prevalence)
        logs = _logs(probabilities)
        shift = _fitted(logs, shares)
        shifted = softmax(logs + shift, axis=1)
        if np.abs(shifted.mean(axis=0) - shares).max() > FURTHEST_MEAN:
            raise BadModel(
                f"the student's probabilities cannot be shifted to the prevalence {list(prevalence)}",
                "Leave [student] prevalence out, or choose another trainer",
            )
        threshold = threshold_for(shifted[:, 1], shares[1]) if len(shares) == 2 else None
        return cls(prevalence=tuple(shares.tolist()), shift=tuple(shift.tolist()), threshold=threshold)

    def applied(self, probabilities: np.ndarray) -> np.ndarray:
        """Probabilities float64 (n, classes), shifted."""
        return softmax(_logs(probabilities) + np.array(self.shift), axis=1)


def _logs(probabilities: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(probabilities, _FLOOR))


def _fitted(logs: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The minimum of the convex mean of logsumexp(logs + shift) - shares shift, whose gradient is what the means lack.

    In a region of trust, since students that are sure of every row leave plateaus, on which the Hessian says nothing;
    then Newton's steps to the last digit. Of two classes by halves: the second's mean rises with its shift.
    """
    if len(shares) == 2:
        apart, low, high = logs[:, 1] - logs[:, 0], -_MOST_SHIFT, _MOST_SHIFT
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if expit(apart + middle).mean() >= shares[1] else (middle, high)
        return np.array([0.0, high])

    def shifted(free: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], free])

    def height(free: np.ndarray) -> float:
        return float(np.asarray(logsumexp(logs + shifted(free), axis=1)).mean() - shares @ shifted(free))

    def gap(free: np.ndarray) -> np.ndarray:
        return (np.asarray(softmax(logs + shifted(free), axis=1)).mean(axis=0) - shares)[1:]

    def curvature(free: np.ndarray) -> np.ndarray:
        p = softmax(logs + shifted(free), axis=1)[:, 1:]
        return np.diag(p.mean(axis=0) + _RIDGE) - p.T @ p / len(p)

    start, options = np.zeros(len(shares) - 1), {"gtol": FURTHEST_MEAN / 10, "max_trust_radius": 2 * _MOST_SHIFT}
    from scipy.optimize import minimize  # only where a prevalence is stated

    free = minimize(height, start, jac=gap, hess=curvature, method="trust-exact", options=options).x
    while True:
        further = free + np.linalg.lstsq(curvature(free), -gap(free), rcond=None)[0]
        if not np.abs(gap(further)).max() < np.abs(gap(free)).max():
            return shifted(free)
        free = further
