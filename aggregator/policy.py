"""What the second aggregator gives its half of a sum for, whatever the coordinator asks: its policy, what it was
promised, and the rules that it keeps over all sums, on disk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pydantic import Field

from consilium.accounting.errors import AccountingError
from consilium.accounting.events import PartyNoise, ReleaseEvent
from consilium.accounting.target import as_histograms, worst_case
from consilium.accounting.units import Neighbouring, Unit
from consilium.aggregator.store import GivenSums
from consilium.node.answering import pool_of
from consilium.node.limits import NodeFile, NodePolicy, events_of
from consilium.protocol.messages import Terms
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.errors import AlreadyAnswered
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.terms import VerifiedTerms


def release_of(promise: str) -> ReleaseEvent:
    """The one release that is promised. Refused (PROMISE) if there is none, or several."""
    releases = [event for event in events_of(promise) if not event.mechanism.closing]
    if len(releases) != 1:
        raise Refused(Rule.PROMISE, limit=1, requested=len(releases), detail="a promise is one release")
    return releases[0]


def noise_of(release: ReleaseEvent, round: int) -> PartyNoise:
    """What each aggregator adds to one count in this round. Refused (PROMISE) where it is not the whole noise."""
    noise = release.party_noise(round)
    if noise is None or noise.shares != 1:
        raise Refused(Rule.PROMISE, detail="of verified votes each aggregator adds the whole noise of a sum")
    return noise


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


class AggregatorPolicy(NodePolicy):
    """The `[policy]` table of `policy.toml` in a kit, of `aggregator.toml` elsewhere."""


class AggregatorFile(NodeFile[AggregatorPolicy]):
    """The file `aggregator.toml` in the home of a second aggregator. sealing: its X25519 key, of its link to the
    coordinator."""

    sealing: str = Field(default="sealing.pem", min_length=1)


def check_terms(policy: AggregatorPolicy, terms: Terms, roster: VerifiedRoster, earlier: list[str]) -> None:
    """Raise Refused if the policy does not let this aggregator serve in a federation with these terms.

    earlier: the promises of the other federations that it has served.
    """
    policy.check_simulation(terms)
    if terms.collection != "verified":
        raise Refused(Rule.VOTES, detail=f"{terms.collection} votes need no second aggregator")
    if terms.roster != roster.digest:
        raise Refused(
            Rule.ROSTER_MISMATCH, detail=f"the coordinator has {terms.roster[:12]}, this node {roster.digest[:12]}"
        )
    pool_of(terms)
    sure = roster.sure
    if sure < policy.least_parties:
        raise Refused(Rule.LEAST_PARTIES, limit=policy.least_parties, requested=sure)
    events = events_of(terms.promise)
    noise_of(release_of(terms.promise), 1)
    listed = [*(event for text in earlier for event in events_of(text)), *events]
    fits, cost = within(listed, policy.unit, policy.neighbouring, policy.delta, policy.most_epsilon)
    if not fits:
        raise Refused(Rule.MOST_EPSILON, limit=policy.most_epsilon, requested=round(cost, 4))


@dataclass(frozen=True)
class KeptRules:
    """`HelperRules` in the transaction of one message: what it remembers is on disk before the half is sent.

    A query is in one sum of each round. The query budget is the promise's, and the policy's.
    ids: of the session's queries, which this aggregator has seen.
    """

    sums: GivenSums
    policy: AggregatorPolicy
    agreed: Terms
    ids: Sequence[str] = field(repr=False)

    def admit(self, terms: VerifiedTerms) -> None:
        """Raise AlreadyAnswered, or Refused (PROMISE, MOST_QUERIES) where the query budget is used up."""
        answered = self.sums.in_sums(self.ids, _rounds(terms))
        if answered:
            raise AlreadyAnswered(answered, len(self.ids))
        most = release_of(self.agreed.promise).queries_in(terms.round)
        queries = self.sums.charged(terms.federation, terms.round) + len(self.ids)
        if queries > most:
            raise Refused(Rule.PROMISE, limit=most, requested=queries)
        ever = self.sums.answered() + len(self.ids) - self.sums.known(self.ids)
        if ever > self.policy.most_queries:
            raise Refused(Rule.MOST_QUERIES, limit=self.policy.most_queries, requested=ever)

    def remember(self, terms: VerifiedTerms) -> None:
        """As `admit`, since another session may have given its half meanwhile; and charge it."""
        self.admit(terms)
        self.sums.charge(terms.federation, terms.round, self.ids, _rounds(terms))


def _rounds(terms: VerifiedTerms) -> int:
    """The bit of the round in which a query is used up."""
    return 1 << (terms.round - 1)
