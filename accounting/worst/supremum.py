"""The largest of very many convex functions, at many arguments, without evaluating all of them everywhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Value = Callable[[np.ndarray, np.ndarray], np.ndarray]

_ROUNDING = 1e-9
_AT_ONCE = 20_000
"""Values that are computed without a choice: fewer take longer to choose from than to compute."""
_KNOTS = 65


def _hopeless(low: np.ndarray, high: np.ndarray, weights: np.ndarray, reached: np.ndarray) -> np.ndarray:
    """Places whose chord from ``low`` to ``high`` is below ``reached`` at every weight between: bool (places,).

    The chord is (1 - w) low + w high. It is below everywhere if high < min over w of (reached - (1 - w) low) / w, a
    concave function of low: between two knots it is at least its own chord.
    """
    knots = np.linspace(low.min(), low.max(), _KNOTS)
    limits = ((reached - np.outer(knots, 1 - weights)) / weights).min(axis=1)
    return high < np.interp(low, knots, limits)


def envelope(value: Value, places: np.ndarray, arguments: np.ndarray) -> np.ndarray:
    """max over places of value(x, place) at each argument x: float64 (arguments,).

    Parameters
    ----------
    value : at some arguments and places, float64 (arguments, places). As a function of the argument each place's is
        convex.
    places : float64 (facts, places): what ``value`` needs to know of each place.
    arguments : float64, increasing.

    Between two arguments a convex function is at most its chord. So in between only those places are evaluated whose
    chord reaches a value that was found there, and those whose chord does so nowhere in between are dropped.
    """
    best = np.empty(arguments.size)

    def between(low: int, high: int, at_low: np.ndarray, at_high: np.ndarray, places: np.ndarray) -> None:
        inner = arguments[low + 1 : high]
        if inner.size == 0:
            return
        if inner.size * at_low.size <= _AT_ONCE:
            best[low + 1 : high] = value(inner, places).max(axis=1)
            return
        weights = (inner - arguments[low]) / (arguments[high] - arguments[low])
        reached = value(inner, places[:, [at_low.argmax(), at_high.argmax()]]).max(axis=1)
        keep = ~_hopeless(at_low, at_high, weights, reached - _ROUNDING * np.abs(reached))
        at_low, at_high, places = at_low[keep], at_high[keep], places[:, keep]
        middle = (low + high) // 2
        weight = weights[middle - low - 1]
        at_middle = (1 - weight) * at_low + weight * at_high
        here = arguments[[middle]]
        found = float(value(here, places[:, [at_middle.argmax()]])[0, 0])
        candidates = np.flatnonzero(at_middle >= found - _ROUNDING * abs(found))
        at_middle[candidates] = value(here, places[:, candidates])[0]
        best[middle] = at_middle[candidates].max()
        between(low, middle, at_low, at_middle, places)
        between(middle, high, at_middle, at_high, places)

    first, last = (value(arguments[[end]], places)[0] for end in (0, -1))
    best[0], best[-1] = first.max(), last.max()
    between(0, arguments.size - 1, first, last, places)
    return best
