"""What a label costs at most where the plurality leads by some number of votes: a bound that is a function of the lead.

Of all histograms in which the plurality leads by at least G votes none costs more than ``envelope`` says, in both
directions. One moved vote changes G by at most 2, so local sensitivities are read off one table. Statement and proof:
docs/proofs.md, "A bound by the lead": ``_excess`` is its e, of phi, and ``power`` its w, alpha or 1 - alpha.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from consilium.accounting.checks import check_orders
from consilium.accounting.curves.gaussian import log_tail_by_gap
from consilium.accounting.curves.laplace import log_tail_by_gap_laplace
from consilium.accounting.curves.near_zero import expm1_minus
from consilium.accounting.errors import NoiseError
from consilium.accounting.outcome.winners import law
from consilium.accounting.units import Noise
from consilium.accounting.worst.laplace import rdp_argmax_laplace
from consilium.accounting.worst.renyi import rdp_argmax

Kind = Literal["gaussian", "laplace"]

GAP_MOVED = 2
"""Most by which one moved vote changes the lead of one class over another."""
_MOST_TILT = {"gaussian": 6.0, "laplace": 10.0}
"""Largest (alpha - 1) / sigma, or (alpha - 1) gamma, at which anything is computed; the worst case beyond."""
_LEAST_SIGMA, _MOST_GAMMA = 0.5, 4.0
"""With less noise the worst case is charged."""
_FAINT = 1e-20
"""More than what a sum leaves out beyond ``_reach``."""
_CELLS = 40
"""Intervals for each sigma, or each 1 / gamma, of continuous noise."""
_ROUNDING = 1e-11
"""Relative error of a sum of positive terms, at most."""
_MARGIN = 1e-8
"""Relative error of the result, at most: differences of neighbouring gaps lose as many digits as sigma has, twice."""
_UNDERFLOW = -600.0  # log psi below which a class counts for nothing but _FAINT
_MOST_WORK, _MOST_ENTRIES = 1 << 29, 1 << 21
"""Most products of one sum for all gaps, a sixth of a second; most entries of one table."""
_WORK = 6e9
"""Most products for all orders together, about two seconds."""
_SUMS_AN_ORDER, _ENTRY = 4, 150
"""Sums for each order; products that take as long as one entry of a table."""
_AT_ONCE = 32  # orders in one call of _moments, whose tables reach as far as the largest needs


def _reach(kind: Kind, scale: float, most_order: float) -> int:
    """Votes: of noise, and of a gap, beyond which a class adds less than ``_FAINT`` at orders up to this."""
    far = 14 * scale + 4 * most_order if kind == "gaussian" else 50 / scale + 2 * most_order
    return math.ceil(far) + 2


def _cells(kind: Kind, scale: float, noise: Noise) -> int:
    """Entries of a table for each vote."""
    return 1 if noise is Noise.DISCRETE else math.ceil(_CELLS * (1 / scale if kind == "gaussian" else scale))


def orders_within_reach(kind: Kind, scale: float, noise: Noise, teachers: int, most_order: float) -> int:
    """How many orders, none above this one, ``envelope`` computes within a few seconds; at least 1."""
    reach = _reach(kind, scale, most_order)
    work = _SUMS_AN_ORDER * 2 * reach * _cells(kind, scale, noise) * (min(teachers, reach) + _ENTRY)
    return max(1, int(_WORK / work))


def _excess(power: float, change: np.ndarray) -> np.ndarray:
    """phi(p, p e^change) / p."""
    return expm1_minus(power * change) - power * expm1_minus(change)


class _Sums:
    """Sums over the height of a class's noisy count, for each gap D = 0, 1, ... by which it trails the plurality.

    Its noise is z where the plurality's has to stay below z - D. One vote from the plurality to the class changes the
    density at z by e^own, and the chance of staying below by e^below. Both are taken at that end of an interval at
    which they are larger; integer noise has no intervals.
    """

    def __init__(self, kind: Kind, scale: float, noise: Noise, gaps: int, most_order: float) -> None:
        reach = _reach(kind, scale, most_order)
        self.gaps = min(gaps, reach)
        self._per = _cells(kind, scale, noise)
        if 2 * reach * self._per > min(_MOST_ENTRIES, _MOST_WORK / self.gaps):
            raise NoiseError(
                f"noise {scale:g} is too large for a table of costs by lead at order {most_order:g}. Take less noise or"
                " a smaller order, or publish the worst case."
            )
        per, width = self._per, 0 if noise is Noise.DISCRETE else 1
        z = np.arange(-reach * per, reach * per + 1)
        y = np.arange(-(reach + self.gaps) * per, reach * per + 1)

        def at(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return law(kind, scale, places / per, noise)[:2]

        right, left = at(z)[0], at(z - width)[0]
        self._mass = np.maximum(right, left) - (width * math.log(per))
        self._own = at(z - per)[0] - right
        self._own_least = at(z - width - per)[0] - left
        self._chance = at(y)[1]
        self._below = at(y - width + per)[1] - at(y - width)[1]
        self._plain, self._once = self._sum(0.0), self._sum(1.0)

    def _against(self, weights: np.ndarray, chances: np.ndarray) -> np.ndarray:
        """sum over z of weights(z) chances(z - D): float64 (gaps + 1,). D is whole, so places with one remainder meet
        each other alone."""
        per, total = self._per, np.zeros(self.gaps + 1)
        for first in range(per):
            total += np.correlate(chances[first::per], weights[first::per], "valid")
        return total[::-1]

    def _sum(self, power: float) -> np.ndarray:
        return self._against(np.exp(self._mass + power * self._own), np.exp(self._chance + power * self._below))

    def gains(self, power: float) -> np.ndarray:
        """What the class adds to the moment if it gets the plurality's vote, at most: float64 (gaps + 1,)."""
        raised = self._sum(power)
        found = raised - self._plain - power * (self._once - self._plain)
        return found + _ROUNDING * (raised + (1 + abs(power)) * (self._plain + self._once)) + _FAINT

    def loses(self, power: float) -> np.ndarray:
        """What there is besides if another rival's vote is moved: noise at which one vote more is less likely."""
        falls = np.where(self._own_least < 0, _excess(power, np.minimum(self._own_least, 0.0)), 0.0)
        return self._against(np.exp(self._mass) * falls, np.exp(self._chance)) * (1 + _ROUNDING)


def _from_here_on(values: np.ndarray) -> np.ndarray:
    """Largest value at this place or after it."""
    return np.maximum.accumulate(values[::-1])[::-1]


def _moments(kind: Kind, scale: float, noise: Noise, classes: int, leads: int, orders: np.ndarray) -> np.ndarray:
    """The sum of phi over all classes, at most, by lead: float64 (orders, leads + 1); infinite below a lead of 2: the
    plurality may change, and a rival's vote may be hidden by a tie. A tie that goes to the plurality puts the other
    class one vote further behind, so gaps go up to leads + 1."""
    gaps = leads + 1
    sums = _Sums(kind, scale, noise, gaps, float(orders.max()))
    tails = log_tail_by_gap if kind == "gaussian" else log_tail_by_gap_laplace
    log_psi = tails(scale, gaps, noise)
    psi = np.exp(log_psi)
    far = log_psi[1:] < _UNDERFLOW
    step = np.where(far, 0.0, log_psi[:-1] - log_psi[1:])
    one, two = psi[:-1] - psi[1:], psi[:-2] - psi[2:]
    others = classes - 2
    surest = 1 - (classes - 1) * psi[2:]
    out = np.full((orders.size, gaps + 1), math.inf)
    for place, alpha in enumerate(orders.tolist()):
        gained, between, unnamed, named = [], [], [], []
        for power in (1 - alpha, alpha):
            gains, loses = sums.gains(power), sums.loses(power)
            beyond = np.full(gaps - sums.gaps, _FAINT)
            gained.append(_from_here_on(np.concatenate((gains, beyond)))[2:])
            between.append(_from_here_on(np.concatenate((gains + loses, beyond)))[2:])
            factor = np.maximum(_excess(power, step), _excess(power, -step))
            unnamed.append(_from_here_on(np.where(far, 0.0, psi[1:] * factor))[1:] + _FAINT)
        for at, power in enumerate((1 - alpha, alpha)):
            named.append(_plurality_gives(gained[at] + others * unnamed[at], surest, two + others * one[1:], power))
            if others:  # a vote goes from one rival to another: the plurality may gain or lose
                rivals = between[0] + between[1] + (others - 1) * unnamed[at]
                named.append(rivals + np.maximum(*(_likely(surest, one[1:], power, sign) for sign in (-1, 1))))
        out[place, 2:] = _from_here_on(np.max(named, axis=0))
    return out[:, :-1]


def _plurality_gives(of_others: np.ndarray, surest: np.ndarray, moved: np.ndarray, power: float) -> np.ndarray:
    """The moment where a vote goes from the plurality to a rival, by lead; `of_others`: what all others add."""
    return of_others + _likely(surest, moved, power, -1)


def _likely(surest: np.ndarray, moved: np.ndarray, power: float, sign: int) -> np.ndarray:
    """What the plurality adds, of probability ``surest`` at least, that gains (1) or loses (-1) ``moved`` at most."""
    known = surest > 2 * moved
    p = np.where(known, surest, 1.0)
    return np.where(known, p * _excess(power, np.log1p(sign * np.where(known, moved, 0.0) / p)), math.inf)


def envelope(kind: Kind, scale: float, noise: Noise, classes: int, teachers: int, orders: object) -> np.ndarray:
    """Largest cost of one label, of which one vote moves, by the plurality's lead of 0, 1, ... votes: float64 (orders,
    leads). Public. Both directions, over all histograms of so many classes with that lead or more; it does not rise
    with the lead, and is never above the worst case. The last stands for all larger leads.

    scale : sigma of the noise on one count (gaussian), or gamma, its inverse scale (laplace).

    Raises NoiseError: so much noise that the table is not made. OrdersError.
    """
    alpha = check_orders(orders)
    worst = (rdp_argmax if kind == "gaussian" else rdp_argmax_laplace)(scale, alpha, noise)
    tilt = (alpha - 1) * (1 / scale if kind == "gaussian" else scale)
    enough = scale >= _LEAST_SIGMA if kind == "gaussian" else scale <= _MOST_GAMMA
    near = np.flatnonzero(enough & (tilt <= _MOST_TILT[kind]))
    leads = min(teachers, _reach(kind, scale, float(alpha[near].max(initial=1.0))))
    out = np.repeat(worst[:, None], leads + 1, axis=1)
    for start in range(0, near.size, _AT_ONCE):
        some = near[start : start + _AT_ONCE]
        moments = _moments(kind, scale, noise, classes, leads, alpha[some])
        out[some] = np.minimum(out[some], np.log1p(moments) * (1 + _MARGIN) / (alpha[some] - 1)[:, None])
    return out
