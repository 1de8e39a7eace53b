"""The worst case of a whole run, and from a target to the least noise that keeps it below. Looks at no votes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from numbers import Real

from consilium.accounting.accountant import Accountant, converted
from consilium.accounting.curves.conversion import DEFAULT_ORDERS
from consilium.accounting.errors import AccountingError, CalibrationError
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.guarantees import Guarantee, Kind

_LEAST, _MOST, _FACTOR = 1e-3, 1e5, 1.25
"""Amounts that are tried, each so many times the one before."""
_DIGITS = 4
_CLOSE, _STILL_CLOSE = 5e-4, 5e-3
"""How far below the target a cost may stay, relative: noise is then as far above the least at most. A cost may take a
second, and is computed on lattices that change with the noise, in steps of a few thousandths: after some steps what is
that close is taken."""
_MOST_SECANTS, _LONGEST = 10, 1.5
"""And the longest of them."""
_FAR = 50.0
"""Logarithm of a cost, in units of the target, that stands for an infinite one."""


def _released(events: Iterable[ReleaseEvent]) -> Accountant:
    accountant = Accountant()
    for event in events:
        accountant.commit(event)
    return accountant


def worst_case(events: Iterable[ReleaseEvent], delta: float) -> Guarantee:
    """The worst case of all these releases together. Raises AccountingError: they cannot be charged at this delta."""
    return _released(events).guarantee(delta, Kind.WORST_CASE)


def as_histograms(events: Iterable[ReleaseEvent], delta: float) -> float:
    """An epsilon that is not below the worst case and takes less time: as if noisy histograms left whole."""
    return converted([event.histogram_rdp(DEFAULT_ORDERS) for event in events], delta).epsilon


def worst_case_as_histogram(events: Sequence[ReleaseEvent], delta: float) -> float:
    """What the papers charge, as if noisy histograms left whole: by Renyi curves, or exactly where that is less, or by
    the epsilons of pure privacy added."""
    released = _released(events)
    found = released.exact_worst_case_epsilon(delta), released.pure_worst_case_epsilon(delta)
    return min([as_histograms(events, delta), *(epsilon for epsilon in found if epsilon is not None)])


def least_noise(cost: Callable[[float], float], epsilon: float, enough: float | None = None) -> float:
    """An amount of noise whose `cost` is at most `epsilon` and less than a thousandth below it, as a number of four
    digits.

    `cost` falls with the amount; its AccountingError counts as infinite. `enough` is an amount that keeps the target,
    where one is known: then `cost` is asked for few others. Raises CalibrationError: no amount from 0.001 to 100,000
    keeps it.

    >>> least_noise(lambda sigma: 30 / sigma**2, 1.0)
    5.478
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real) or not 0 < epsilon < math.inf:
        raise CalibrationError(f"epsilon must be finite and above 0, got {epsilon!r}. Name the most that may be spent.")

    @cache
    def price(amount: float) -> float:
        try:
            return cost(amount)
        except AccountingError:
            return math.inf

    if enough is None or price(enough) > epsilon:
        steps = math.ceil(math.log(_MOST / _LEAST, _FACTOR))
        amounts = (min(round_up(_LEAST * _FACTOR**step), _MOST) for step in range(steps + 1))
        enough = next((amount for amount in amounts if price(amount) <= epsilon), None)
    if enough is None:
        raise CalibrationError(
            f"no amount of noise up to {_MOST:,g} keeps the worst case at epsilon {epsilon:g}. Raise epsilon or delta,"
            " lower the query budget, or raise the threshold where the mechanism has one."
        )
    return enough if enough == _LEAST else _near(price, epsilon, enough)


def _near(price: Callable[[float], float], epsilon: float, enough: float) -> float:
    """An amount that is nearly the least, from one that is enough, by secants in logarithms: a cost is nearly a power.
    Never outside what is known to be too little and enough, so that steps in a cost do not matter."""
    low, high = -math.inf, math.log(enough)
    best, cost = enough, -_FAR
    before: tuple[float, float] | None = None
    amount = enough
    for asked in range(_MOST_SECANTS):
        x, now = math.log(amount), price(amount)
        now = min(math.log(now / epsilon), _FAR) if now > 0 else -_FAR
        if now <= 0 and (best == enough or now > cost):
            best, cost = amount, now
        if -_CLOSE <= now <= 0 or (cost >= -_STILL_CLOSE and asked >= _MOST_SECANTS // 2):
            break
        low, high = (low, min(high, x)) if now <= 0 else (max(low, x), high)
        slope = -1.0 if before is None or before[0] == x else (now - before[1]) / (x - before[0])
        secant = -(now + _CLOSE / 2) / (slope if -_FAR < slope < -0.1 else -1.0)
        before, x = (x, now), x + min(max(secant, -_LONGEST), _LONGEST)
        if not low < x < high:
            x = (low + high) / 2 if math.isfinite(low) else high - _LONGEST
        amount = round_up(math.exp(x))
        if not low < math.log(amount) < high:
            break  # no number of four digits between them
    return best


def round_up(value: float) -> float:
    """To four significant digits, never down: 107.94321 to 108.0."""
    places = _places(value)
    rounded = round(value, places)
    return rounded if rounded >= value else round(rounded + 10.0**-places, places)


def round_down(value: float) -> float:
    """To four significant digits, never up: 0.060428 to 0.06042."""
    places = _places(value)
    rounded = round(value, places)
    return rounded if rounded <= value else round(rounded - 10.0**-places, places)


def _places(value: float) -> int:
    return _DIGITS - 1 - math.floor(math.log10(value))
