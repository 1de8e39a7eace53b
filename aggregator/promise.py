"""What the coordinator promised, as the second aggregator reads it: how often it may be asked, with what noise, and the
worst case of it all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from consilium.accounting.errors import AccountingError
from consilium.accounting.events import ReleaseEvent, event_from_json
from consilium.accounting.planning.target import as_histograms, worst_case
from consilium.accounting.units import Neighbouring, Unit
from consilium.node.answering import bounded_events
from consilium.protocol.refusals import Refused, Rule


def events_of(promise: str) -> tuple[ReleaseEvent, ...]:
    """JSON of a promise -> its events. Raises Refused (MALFORMED)."""
    try:
        return tuple(event_from_json(item) for item in bounded_events(promise))
    except (AccountingError, ValueError, TypeError, RecursionError, OverflowError):
        raise Refused(Rule.MALFORMED, detail="promise: not a list of release events") from None


def release_of(promise: str, number: int) -> ReleaseEvent:
    """The promised release with this number, from 1. Refused (PROMISE) if there is no such one."""
    releases = [event for event in events_of(promise) if not event.closing]
    if number > len(releases):
        raise Refused(Rule.PROMISE, limit=len(releases), requested=number, detail="no such release")
    return releases[number - 1]


def sigma_of(release: ReleaseEvent, phase: int) -> float:
    """Of the noise that each aggregator adds to one count in this phase; 0.0 where sums are exact."""
    noise = release.party_noise(phase)
    return 0.0 if noise is None else noise.sigma


def within(
    events: Sequence[ReleaseEvent], unit: Unit, neighbouring: Neighbouring, delta: float, most: float
) -> tuple[bool, float]:
    """Whether all events together cost at most so much in this unit, and what they cost at most; inf where nothing is
    proved. The bound that takes no time is asked first."""
    if math.isinf(most):
        return True, most
    try:
        rough = as_histograms([replace(event, unit=unit, neighbouring=neighbouring) for event in events], delta)
    except AccountingError:
        return False, math.inf
    if rough <= most:
        return True, rough
    cost = cost_of(events, unit, neighbouring, delta)
    return cost <= most, cost


def cost_of(events: Sequence[ReleaseEvent], unit: Unit, neighbouring: Neighbouring, delta: float) -> float:
    """What all events together cost in this unit: their worst case; inf where nothing is proved."""
    try:
        return worst_case([replace(event, unit=unit, neighbouring=neighbouring) for event in events], delta).epsilon
    except AccountingError:
        return math.inf
