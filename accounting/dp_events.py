"""Releases as events of dp-accounting (https://github.com/google/differential-privacy), and back.

A noisy histogram of which k votes move is the Gaussian mechanism of noise multiplier sigma / (k sqrt 2), a number to
which noise is added that of sigma / k, Laplace noise two mechanisms of multiplier 1 / (gamma k) for each query, one for
each count that a moved vote changes. A label is a part of its histogram, so that these events bound what leaves from
above, by the curve that the PATE papers charge; dp-accounting knows no smaller one of an argmax.

Of integer noise that holds for its Renyi accountant. dp-accounting has no event for it, and its PLD accountant composes
the profile of continuous noise, which is not above that of integers: epsilon is too small, by up to 8.7 % at sigma 0.5
as far as was looked, at a delta up to 1e-3 by 0.1 % at 5, 0.03 % at 10 (Canonne, Kamath, Steinke 2020: the two have one
Renyi bound, not one profile).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from consilium.accounting.curves.gdp import GaussianPart
from consilium.accounting.errors import EventError, MissingPackageError
from consilium.accounting.events import HistogramEvent, ReleaseEvent
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_LARGEST_SLACK = 1e-9
"""Of integer noise that is a sum of shares: what dp-accounting's events cannot say, and nobody could notice."""


def _dp_accounting() -> Any:
    """Its module of events."""
    try:
        from dp_accounting import dp_event
    except ImportError:
        raise MissingPackageError(
            "dp-accounting, whose events are asked for, is not installed. Run pip install 'dp-accounting>=0.6'."
        ) from None
    return dp_event


def to_dp_event(*events: ReleaseEvent) -> DpEvent:
    """The releases as one event of dp-accounting, whose accountants then compose it with others.

    Raises
    ------
    EventError : a release has no equal there: it may fail, or is no sum of Gaussian or Laplace noise.
    MissingPackageError : dp-accounting is not installed.

    >>> from consilium.accounting.aggregators import GNMax
    >>> to_dp_event(GNMax(sigma=40).event(640)).event.noise_multiplier == 40 / 2**0.5
    True
    """
    dp = _dp_accounting()
    found = [one for event in events for one in _translated(event, dp)]
    if not found:
        return dp.NoOpDpEvent()
    return found[0] if len(found) == 1 else dp.ComposedDpEvent(found)


def _translated(event: ReleaseEvent, dp: Any) -> list[Any]:
    if np.all(np.isinf(event.worst_case_rdp([2.0]))):
        return [dp.NonPrivateDpEvent()]
    parts, failure = event.gaussian_parts(), event.added_delta()
    if parts is not None and failure == 0 and all(part.slack <= _LARGEST_SLACK for part in parts):
        return [_gaussian(part, event.votes_moved, dp) for part in parts if part.releases]
    if event.laplace_gamma is not None:
        return _laplace(event, event.laplace_gamma, dp)
    why = "it may fail with some probability" if failure else "its noise is neither Gaussian nor Laplace"
    raise EventError(f"a {event.TYPE} release has no equal in dp-accounting: {why}. Account for it here.")


def _gaussian(part: GaussianPart, votes_moved: int, dp: Any) -> Any:
    multiplier = part.sigma / (votes_moved * (1.0 if part.scalar else math.sqrt(2)))
    return dp.SelfComposedDpEvent(dp.GaussianDpEvent(multiplier), part.releases)


def _laplace(event: ReleaseEvent, gamma: float, dp: Any) -> list[Any]:
    if not event.answered:
        return []
    if event.noise is Noise.DISCRETE:
        one = dp.DiscreteLaplaceDpEvent(gamma, event.votes_moved)
    else:
        one = dp.LaplaceDpEvent(1 / (gamma * event.votes_moved))
    return [dp.SelfComposedDpEvent(one, 2 * event.answered)]


def from_dp_event(
    event: DpEvent,
    *,
    unit: Unit | str,
    neighbouring: Neighbouring | str,
    teachers_per_party: int,
    towards: Towards | str,
    noise: Noise | str,
) -> tuple[ReleaseEvent, ...]:
    """Releases that cost what an event of dp-accounting does: Gaussian ones, as noisy histograms.

    dp-accounting says neither whose data may change nor who sees the release, so both have to be said. ``noise`` is
    that of Gaussian events, which cost the same on integers.

    Raises
    ------
    EventError : no release here has the same cost, as for Laplace noise, of which labels alone leave here, and cost
        less; for sampling, or no privacy at all.
    MissingPackageError : dp-accounting is not installed.

    >>> from consilium.accounting.aggregators import Histogram
    >>> there = to_dp_event(Histogram(sigma=40).event(100))
    >>> (back,) = from_dp_event(there, unit="party", neighbouring="replace", teachers_per_party=1, towards="student",
    ...                         noise="discrete")
    >>> back.asked, round(back.sigma, 9)
    (100, 40.0)
    """
    dp = _dp_accounting()
    claim: dict[str, Any] = {
        "unit": unit,
        "neighbouring": neighbouring,
        "teachers_per_party": teachers_per_party,
        "towards": towards,
        "noise": noise,
    }
    # an event of no queries checks the words, and knows how many votes move
    moved = HistogramEvent(asked=0, answered=0, sigma=1.0, **claim).votes_moved
    found: list[ReleaseEvent] = []
    for one, count in _flat(event, 1, dp):
        make = _BACK.get(type(one).__name__)
        if make is None:
            raise EventError(f"{type(one).__name__} has no equal here. Account for it with dp-accounting.")
        found.append(make(one, count, moved, claim))
    return tuple(found)


def _flat(event: Any, count: int, dp: Any) -> list[tuple[Any, int]]:
    """Simple events with how often each happens."""
    if isinstance(event, dp.ComposedDpEvent):
        return [pair for each in event.events for pair in _flat(each, count, dp)]
    if isinstance(event, dp.SelfComposedDpEvent):
        return _flat(event.event, count * event.count, dp)
    return [] if isinstance(event, dp.NoOpDpEvent) or not count else [(event, count)]


def _histogram(event: Any, count: int, moved: int, claim: dict[str, Any]) -> ReleaseEvent:
    sigma = float(event.noise_multiplier) * moved * math.sqrt(2)
    return HistogramEvent(asked=count, answered=count, sigma=sigma, **claim)


_BACK: dict[str, Callable[[Any, int, int, dict[str, Any]], ReleaseEvent]] = {"GaussianDpEvent": _histogram}
"""By the name of the class, since dp-accounting may not be there when this module is read."""
