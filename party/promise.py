"""The coordinator's promise: the releases that a federation makes of this party's votes, and what they may cost.

A party charges what it can verify. Where the parties add the noise, that is the very event whose noise it draws itself;
elsewhere it holds the coordinator to the promised number of queries. So a promise is one release, and beside it at most
the one release of a sanitised epsilon; or the releases of a schedule in their order. Of these each request names one: a
request for clear votes, or the signed descriptor of a secure sum, whose noise is that release's to the digit. Any list
that could be read in two ways is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import rdp_to_epsilon
from consilium.accounting.curves.orders import DEFAULT_ORDERS
from consilium.accounting.errors import AccountingError
from consilium.accounting.events import PartyNoise, ReleaseEvent, event_from_json
from consilium.accounting.planning.target import as_histograms
from consilium.accounting.units import Noise, Towards
from consilium.party.policy import Policy
from consilium.protocol.parties.messages import MOST_RELEASES, MOST_TEACHERS, MOST_WEIGHT, Terms, VotesMode
from consilium.protocol.parties.refusals import Refused, Rule
from consilium.protocol.secagg.roster import MOST_PARTIES

MOST_QUERIES = 10_000_000
MOST_VOTES = MOST_TEACHERS * MOST_WEIGHT * MOST_PARTIES
MOST: dict[str, float] = {
    "asked": MOST_QUERIES,
    "answered": MOST_QUERIES,
    "teachers_per_party": MOST_TEACHERS,
    "weight": MOST_WEIGHT,
    "threshold": MOST_VOTES,
    "constant": MOST_VOTES,
    "noise_shares": MOST_PARTIES,
    "unstable_cap": MOST_QUERIES,
    "gamma": 1e3,
    "sigma": 1e5,
    "sigma1": 1e5,
    "sigma2": 1e5,
    "scale": 1e5,
    "beta": 10,
    "sigma_ss": 1e6,
    "log_scale_sigma": 1e6,
    "version": 1000,
}
"""The largest number that each field of an event may hold: what it costs to compute an epsilon grows with them."""
LEAST: dict[str, float] = {"gamma": 1e-12, "sigma": 0.01, "sigma1": 0.01, "sigma2": 0.01, "scale": 1e-3}


@dataclass(frozen=True)
class Promise:
    """release: what leaves, with all caps used up. closing: the charge of a sanitised epsilon, if one is planned.
    later: what leaves in the later phases of a schedule, in order; such a promise has no closing.
    """

    release: ReleaseEvent
    closing: ReleaseEvent | None = None
    later: tuple[ReleaseEvent, ...] = ()

    @classmethod
    def of(cls, events: Sequence[ReleaseEvent]) -> Promise:
        """A promise as it is listed, unchecked."""
        release, *rest = events
        closing = rest[0] if len(rest) == 1 and rest[0].closing else None
        return cls(release, closing, () if closing else tuple(rest))

    @property
    def events(self) -> tuple[ReleaseEvent, ...]:
        """All that is charged."""
        return (self.release, *self.later) if self.closing is None else (self.release, self.closing)

    @property
    def answered(self) -> int:
        """Most labels that may be given, over all releases."""
        return sum(event.answered for event in (self.release, *self.later))

    @property
    def asked(self) -> int:
        """Most queries that may be asked, over all releases."""
        return sum(event.queries_in(1) for event in (self.release, *self.later))

    def only(self, release: int) -> Promise:
        """What is promised of the release with this number, from 1, by itself.

        Raises
        ------
        Refused (PROMISE) : there is no such one.
        """
        if release > 1 + len(self.later):
            raise Refused(Rule.PROMISE, limit=1 + len(self.later), requested=release, detail="no such release")
        return self if not self.later else Promise((self.release, *self.later)[release - 1])

    @property
    def each(self) -> tuple[Promise, ...]:
        """What is promised of each release by itself, in order."""
        return tuple(self.only(number) for number in range(1, 2 + len(self.later)))

    @property
    def weight(self) -> int:
        """The largest weight of any party, for which the promise is made."""
        return self.release.weight

    def at(self, weight: int) -> Promise:
        """What it means for a party of this weight."""
        closing = None if self.closing is None else replace(self.closing, weight=weight)
        later = tuple(replace(event, weight=weight) for event in self.later)
        return Promise(replace(self.release, weight=weight), closing, later)

    def most(self, phase: int) -> int:
        """Queries that may be asked for the first release in phase 1, or screened ones once more in phase 2."""
        return self.release.queries_in(phase)

    def noise(self, phase: int) -> PartyNoise | None:
        """Noise of the parties that the release charges in this phase; None where it charges none."""
        return self.release.party_noise(phase)


def parse_events(text: str) -> tuple[ReleaseEvent, ...]:
    """JSON -> events, whose numbers are all within bounds. Raises Refused (MALFORMED)."""
    try:
        listed = json.loads(text)
        if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_RELEASES:
            raise Refused(Rule.MALFORMED, detail=f"a promise lists 1 to {MOST_RELEASES} events")
        for item in listed:
            _check_bounds(item)
        return tuple(event_from_json(item) for item in listed)
    except (AccountingError, ValueError, TypeError, RecursionError, OverflowError):
        raise Refused(Rule.MALFORMED, detail="promise: not a list of release events") from None


def parse_promise(text: str, votes: VotesMode, teachers: int, simulation: bool) -> Promise:
    """The promise of a federation with this mode and number of teachers.

    Raises
    ------
    Refused : no list of events, or a number out of bounds (MALFORMED); several releases that are not alike in what they
        protect; one of another kind than the mode has, of other noise, or for another number of teachers (PROMISE).
    """
    events = parse_events(text)
    promise = Promise.of(events)
    release, releases = promise.release, (promise.release, *promise.later)
    if any(event.closing for event in releases):
        raise Refused(Rule.PROMISE, detail="a promise is one release, and at most one sanitised epsilon beside it")
    if votes == "distributed" and promise.closing is not None:
        raise Refused(Rule.PROMISE, detail="noise of the parties leaves nothing to be sanitised")
    for event in releases:
        by_parties = event.noise_by_parties
        if by_parties != (votes == "distributed") and not (by_parties and simulation and votes == "clear"):
            raise Refused(Rule.PROMISE, detail=f"a {event.TYPE} release is no release of {votes} votes")
        if event.noise is not Noise.DISCRETE or (by_parties and event.towards is not Towards.COORDINATOR):
            raise Refused(Rule.PROMISE, detail="the promised noise is not the one that is drawn")
        if event.asked < 1:
            raise Refused(Rule.PROMISE, limit=event.asked, detail="a promise of no queries")
        if (event.unit, event.neighbouring, event.towards) != (release.unit, release.neighbouring, release.towards):
            raise Refused(Rule.PROMISE, detail="the promised releases differ in unit, relation or audience")
    for event in events:
        if event.teachers_per_party != teachers:
            raise Refused(Rule.PROMISE, limit=event.teachers_per_party, requested=teachers)
        if event.weight != release.weight:
            raise Refused(Rule.PROMISE, limit=release.weight, requested=event.weight)
    return promise


def promise_of(terms: Terms) -> Promise:
    """The promise of these terms. Raises Refused as `parse_promise`."""
    return parse_promise(terms.promise, terms.votes, terms.teachers, terms.simulation)


def epsilon(events: Sequence[ReleaseEvent], policy: Policy, *, rough: bool = False) -> float:
    """Worst-case epsilon of all events together at the policy's delta, in the policy's own unit and
    relation; inf where there is none.

    In whatever unit the coordinator states its promise, the party asks what it means for what it has to protect. The
    least of the bounds that the coordinator takes the least of.

    rough: as if histograms left whole, which is more and takes no time.
    """
    own = [replace(event, unit=policy.unit, neighbouring=policy.neighbouring) for event in events]
    try:
        left = policy.delta - sum(event.added_delta() for event in own)
        if left <= 0:
            return math.inf
        if rough:
            return as_histograms(own, policy.delta)
        total = np.zeros(len(DEFAULT_ORDERS))
        for event in own:
            total += event.worst_case_rdp(DEFAULT_ORDERS)
        bound = rdp_to_epsilon(total, DEFAULT_ORDERS, left).epsilon
    except AccountingError:
        return math.inf  # noise for which nothing is proved
    try:
        accountant = Accountant(DEFAULT_ORDERS)
        for event in own:
            accountant.commit(event)
        return min(bound, accountant.least_worst_case_epsilon(policy.delta)[0].epsilon)
    except AccountingError:
        return bound  # federations with different audiences have no common composition but that of curves


def _check_bounds(item: object) -> None:
    """Raise Refused (MALFORMED) unless every number of an event's JSON is within `MOST` and `LEAST`."""
    if not isinstance(item, dict):
        raise Refused(Rule.MALFORMED, detail="promise: an event is a table")
    for key, value in item.items():
        if isinstance(value, str):
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or key not in MOST or not LEAST.get(key, 0) <= value <= MOST[key]:
            raise Refused(Rule.MALFORMED, detail=f"promise: {str(key)[:40]} is out of bounds")
