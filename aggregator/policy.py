"""What the second aggregator gives its half of a sum for, whatever the coordinator asks: its policy, what it was
promised, and what it has given before."""

from __future__ import annotations

from consilium.accounting.events import PartyNoise, ReleaseEvent
from consilium.aggregator.store import GivenSums
from consilium.node.answering import pool_of
from consilium.node.limits import NodePolicy, check_within, events_of
from consilium.protocol.messages import Terms
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.uploads import VerifiedTerms


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


def check_terms(policy: NodePolicy, terms: Terms, roster: VerifiedRoster, given: GivenSums) -> None:
    """Raise Refused if the policy does not let this aggregator serve in a federation with these terms, beside all that
    it has given."""
    policy.check_simulation(terms)
    if terms.collection != VerifiedTerms.collection:
        raise Refused(Rule.VOTES, detail=f"{terms.collection} votes need no second aggregator")
    if terms.roster != roster.digest:
        raise Refused(
            Rule.ROSTER_MISMATCH, detail=f"the coordinator has {terms.roster[:12]}, this node {roster.digest[:12]}"
        )
    pool_of(terms)
    if roster.sure < policy.least_parties:
        raise Refused(Rule.LEAST_PARTIES, limit=policy.least_parties, requested=roster.sure)
    noise_of(release_of(terms.promise), 1)
    check_within((*given.other_promises(terms.federation), terms.promise), policy, given.execute)


def check_new(given: GivenSums, policy: NodePolicy, agreed: Terms, terms: VerifiedTerms, ids: list[str]) -> None:
    """Raise Refused unless a sum on these queries may be given: each is in one sum of each round (ALREADY_ANSWERED),
    and within the query budgets, the promise's (PROMISE) and the policy's (MOST_QUERIES)."""
    answered = given.given_of(ids, terms.round)
    if answered:
        raise Refused(Rule.ALREADY_ANSWERED, limit=len(ids) - answered, requested=len(ids))
    most = release_of(agreed.promise).queries_in(terms.round)
    queries = given.given_in(terms.federation, terms.round) + len(ids)
    if queries > most:
        raise Refused(Rule.PROMISE, limit=most, requested=queries)
    ever = given.ever(ids)
    if ever > policy.most_queries:
        raise Refused(Rule.MOST_QUERIES, limit=policy.most_queries, requested=ever)
