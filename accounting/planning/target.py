"""From a target epsilon to the least noise that keeps the worst case of a whole run below it. Looks at no votes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from scipy.optimize import brentq

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.orders import DEFAULT_ORDERS
from consilium.accounting.errors import AccountingError, CalibrationError
from consilium.accounting.events.release import ReleaseEvent
from consilium.accounting.guarantee import Guarantee, Kind

_LEAST, _MOST = 1e-3, 1e5
_STEPS = (2.0, 1.05)
"""Factors by which amounts are tried: the second finds a range that the first steps over."""
_DIGITS = 4
_PRECISION = 1e-5
_FAR = 50.0
"""Logarithm of a cost, in units of the target, that stands for an infinite one."""


def worst_case(events: Iterable[ReleaseEvent], delta: float) -> Guarantee:
    """The worst case of all these releases together.

    Raises
    ------
    AccountingError : they cannot be charged at this delta.
    """
    accountant = Accountant(DEFAULT_ORDERS)
    for event in events:
        accountant.commit(event)
    return accountant.guarantee(delta, Kind.WORST_CASE)


def least_noise(cost: Callable[[float], float], epsilon: float, enough: float | None = None) -> float:
    """The least amount of noise whose `cost` is at most `epsilon`, as a number of four digits that is not below it.

    `cost` falls with the amount. It may rise again beyond some point, as that of a mechanism does whose check fails
    more often under more noise: what is found is the lower end of the range that keeps the target. AccountingError of
    `cost` counts as an infinite cost. `enough` is an amount that keeps the target, where one is known: then `cost` is
    asked for few others.

    Raises
    ------
    CalibrationError : no amount from 0.001 to 100,000 keeps the target.

    >>> least_noise(lambda sigma: 30 / sigma**2, 1.0)
    5.478
    """
    if not epsilon > 0 or math.isinf(epsilon):
        raise CalibrationError(f"epsilon must be finite and above 0, got {epsilon!r}.")

    @cache
    def price(amount: float) -> float:
        try:
            return cost(amount)
        except AccountingError:
            return math.inf

    def excess(log_amount: float) -> float:
        """Rounded, so that an end of the range is not asked for twice."""
        return min(math.log(price(float(f"{math.exp(log_amount):.9g}")) / epsilon), _FAR)

    for high, factor in _ranges(price, epsilon, enough):
        if high == _LEAST:
            return high
        root = brentq(
            excess,
            math.log(high / factor),
            math.log(high),
            xtol=_PRECISION,
        )
        readable = round_up(math.exp(float(root)) * (1 + 2 * _PRECISION))  # pyright: ignore[reportArgumentType]
        if price(readable) <= epsilon:
            return readable
    raise CalibrationError(
        f"no amount of noise keeps the worst case at epsilon {epsilon:g}. Raise epsilon or delta, lower the caps, or"
        " raise the threshold where the mechanism has one."
    )


def _ranges(price: Callable[[float], float], epsilon: float, enough: float | None) -> Iterator[tuple[float, float]]:
    """(amount, factor): the target is kept with the amount, and not with that divided by the factor."""
    if enough is not None and price(enough) <= epsilon:
        for factor in reversed(_STEPS):
            if price(float(f"{enough / factor:.9g}")) > epsilon:
                yield enough, factor
                break
    for factor in _STEPS:
        high = _first_within(price, epsilon, factor)
        if high is not None:
            yield high, factor


def _first_within(price: Callable[[float], float], epsilon: float, factor: float) -> float | None:
    amount, last = _LEAST, math.inf
    while amount <= _MOST:
        now = price(amount)
        if now <= epsilon:
            return amount
        if now > last:
            return None  # it only rises from here
        amount, last = amount * factor, now
    return None


def round_up(value: float) -> float:
    """To four significant digits, never down.

    >>> round_up(107.94321), round_up(0.054321)
    (108.0, 0.05433)
    """
    places = _DIGITS - 1 - math.floor(math.log10(value))
    rounded = round(value, places)
    return rounded if rounded >= value else round(rounded + 10.0**-places, places)


def round_down(value: float) -> float:
    """To four significant digits, never up.

    >>> round_down(0.060428), round_down(0.05)
    (0.06042, 0.05)
    """
    places = _DIGITS - 1 - math.floor(math.log10(value))
    rounded = round(value, places)
    return rounded if rounded <= value else round(rounded - 10.0**-places, places)
