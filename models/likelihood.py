"""What was released, as a likelihood of the shares of the votes: of noisy counts, and of labels by their mechanism.

Of noisy counts it is Gaussian. A label, an abstention, a confirmation follows from the votes by a law that is public
(`LabelLaw`), so each has a probability at every vector of shares, and tells what it tells: a label with much noise
little, and one that a check let through also that many votes were for one class.

Teachers do not draw their votes from a model's probabilities one by one: the share of a class scatters around what a
model says by `SCATTER`, on every row anew. That is added to the noise, so that exact winners have a smooth likelihood.

With n_j + s Z_j on one count, F_j(t) the probability that it lies below t, f_j its density, G = F_1 ... F_k and
h_j = f_j / F_j,

    P(label l) = int G h_l dt,   dP(label l)/dn_j = - int G h_l h_j dt for j other than l,   dP/dn_l = minus their sum,

since all counts moved alike change nothing. The largest count has the density G (h_1 + ... + h_k). Integrands are
smooth and vanish at both ends, where the trapezoidal rule converges faster than any power of its step (Trefethen,
Weideman, SIAM Review 2014). The law of Laplace noise is taken as Gaussian of the same
deviation: on development hospitals of stroke, seeds 0 to 5, the mean AUC is within .0003 of that with the deviation
that gives even shares the right slope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from consilium.models.base import Outcomes, Shares, Told
from consilium.protocol.label_source import Outcome

SCATTER = 0.1
"""Of the share of a class around what a model says, as a standard deviation. On development hospitals of stroke, seeds
0 to 3, the AUC with .05, .1 and .2 differs by at most .0017 in seven releases of labels."""
_FROM, _TO = -6.0, 6.0
_STEP = 0.9
"""Of the rule, in deviations of one count, from the largest count without noise. A step is that of one class; the
largest of k counts varies about as 1 / sqrt(1 + log k), and so does the step. Of the probability of a label that leaves
an error of 1e-8 for two classes, and of 1e-4 for 150."""
_LEAST_CHECK = 0.25
"""Deviation of a check's own noise over that of a count there: a smaller one is hardly seen behind the other."""
_LEAST = 1e-12
"""Probability of what happened: a model that finds it less likely is no worse."""


@dataclass(frozen=True)
class SharesLikelihood:
    """Gaussian noise; `excess`: the factor by which residuals vary more. What shares sum to says nothing."""

    told: Shares
    excess: float = 1.0

    @property
    def classes(self) -> int:
        return self.told.classes

    def loss(self, shares: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log likelihood at shares float64 (n, classes) of the votes that sum to 1, up to a constant, and its
        gradient (n, classes) by the shares."""
        missed = shares - self.told.shares
        missed -= missed.mean(axis=1, keepdims=True)
        slope = missed / (self.told.deviation[:, None] ** 2 * self.excess)
        return float((slope * missed).sum()) / 2, slope

    def information(self, shares: np.ndarray, rows: slice) -> np.ndarray:
        """A root R (rows, several, classes) of Fisher's information on the shares of some rows, R' R of each; `shares`
        are those of these rows."""
        apart = np.eye(self.classes) - 1 / self.classes
        return apart / (self.told.deviation[rows, None, None] * math.sqrt(self.excess))


def _largest(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of counts (n, classes), in deviations of the noise on each, around where the largest may lie: places (n, points);
    G there times the rule's step (n, points); h (n, classes, points)."""
    step = _STEP / math.sqrt(1 + math.log(counts.shape[1]))
    places = counts.max(axis=1)[:, None] + np.arange(_FROM, _TO + step / 2, step)
    away = places[:, None, :] - counts[:, :, None]
    under = ndtr(away)
    hazards = np.exp(-0.5 * away * away) / (math.sqrt(2 * math.pi) * under)
    return places, step * under.prod(axis=1), hazards


def _winning(counts: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probability (n,) that `labels` int64 (n,) are the largest of noisy `counts` (n, classes), in deviations of the
    noise on each, and its slope (n, classes)."""
    (_, below, hazards), each = _largest(counts), np.arange(len(labels))
    own = below * hazards[each, labels]
    slope = -(hazards @ own[:, :, None])[:, :, 0]
    slope[each, labels] = 0.0
    slope[each, labels] = -slope.sum(axis=1)
    return own.sum(axis=1), slope


def _winners(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `_winning`, of every class: (n, classes), and (n, classes, classes), the label first."""
    (_, below, hazards), each = _largest(counts), np.arange(counts.shape[1])
    own = below[:, None, :] * hazards
    slopes = -own @ np.swapaxes(hazards, 1, 2)
    slopes[:, each, each] = 0.0
    slopes[:, each, each] = -slopes.sum(axis=2)
    return own.sum(axis=2), slopes


class OutcomesLikelihood:
    """Labels, abstentions and confirmations by the law that comes with them; the last two say that a check failed, and
    no more. Check and label have noise of their own; that they have the scatter in common is left out. checked: False
    for what labels say by themselves."""

    def __init__(self, told: Outcomes, checked: bool = True) -> None:
        law = told.law
        self.classes, self._labels = told.classes, told.labels
        self._answered = told.outcomes == Outcome.ANSWERED
        # all in shares of the votes; deviations are those of the scatter with the noise of a count, and the check's own
        self._deviation = math.hypot(law.deviation / law.votes, SCATTER)
        self._threshold = law.threshold / law.votes if checked and law.threshold is not None else None
        self._cell = math.hypot(law.cell_deviation / law.votes, SCATTER)
        self._own = max(law.check_deviation / law.votes, _LEAST_CHECK * self._cell)
        predicted = told.predictions if law.predicted else None
        self._predicted = np.zeros((len(told), told.classes)) if predicted is None else predicted

    def _answers(self, shares: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Probability (n,) of an answer, 1 without a check, and its slope (n, classes) by the shares."""
        if self._threshold is None:
            return np.ones(len(shares)), np.zeros(shares.shape)
        places, below, hazards = _largest((shares - self._predicted[rows]) / self._cell)
        over = (places - self._threshold / self._cell) * (self._cell / self._own)
        passed = (below * ndtr(over) * hazards.sum(axis=1)).sum(axis=1)
        rise = np.exp(-0.5 * over**2) / (math.sqrt(2 * math.pi) * self._own)
        return passed, (hazards @ (below * rise)[:, :, None])[:, :, 0]

    def loss(self, shares: np.ndarray) -> tuple[float, np.ndarray]:
        answered, (passed, rise) = self._answered, self._answers(shares, slice(None))
        happened = np.maximum(np.where(answered, passed, 1 - passed), _LEAST)
        slope = np.where(answered, -1.0, 1.0)[:, None] * rise / happened[:, None]
        won, change = _winning(shares[answered] / self._deviation, self._labels[answered])
        won = np.maximum(won, _LEAST)
        slope[answered] -= change / (self._deviation * won[:, None])
        return -float(np.log(happened).sum() + np.log(won).sum()), slope

    def information(self, shares: np.ndarray, rows: slice) -> np.ndarray:
        """See `SharesLikelihood.information`: over all outcomes of a query, and not the one that happened."""
        passed, rise = self._answers(shares, rows)
        won, change = _winners(shares / self._deviation)
        change *= (np.sqrt(passed[:, None] / np.maximum(won, _LEAST)) / self._deviation)[:, :, None]
        rise = rise / np.sqrt(np.maximum(passed * (1 - passed), _LEAST))[:, None]
        return np.concatenate([change, rise[:, None, :]], axis=1)


Likelihood = SharesLikelihood | OutcomesLikelihood


def likelihood_of(told: Told) -> Likelihood:
    """The likelihood of what was released."""
    return SharesLikelihood(told) if isinstance(told, Shares) else OutcomesLikelihood(told)
