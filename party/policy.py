"""What a party allows: the limits of its policy.toml; and what a coordinator may promise about the party's votes.

A party charges what it can verify. Where the parties add the noise, that is the event whose noise it draws itself;
elsewhere it holds the coordinator to the promised number of queries. So a promise is one release, and beside it at most
that of a sanitised epsilon. The signed terms of a secure sum have exactly that release's noise. Any list of events that
could be read in two ways is refused."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pydantic import Field

from consilium.accounting.events import PartyNoise, ReleaseEvent
from consilium.accounting.units import Noise, Towards, Unit
from consilium.data.mapping import DataRules
from consilium.node.answering import pool_of
from consilium.node.home import is_other_collection
from consilium.node.limits import NodePolicy, events_of
from consilium.protocol.messages import CollectionMode, Terms
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.modes import MODES


class Policy(NodePolicy):
    """The limits of a party; see `NodePolicy` for those that other nodes have too.

    allowed_columns: columns of its rows that may be read, compared with the federation's when the party's folder is
        opened, and with those that are to be trained on; none are named in a simulation.
    allowed_classes: class names the party is willing to vote on, in any order; a request must ask exactly these.
    least_rows_per_teacher: no teacher is trained on fewer rows; 0 allows an empty shard, whose teacher is constant.
    most_teachers: the most teachers, and so votes, that the party gives for one query.
    collection: how its votes may be collected. "plaintext" allows every way; "secure" and "verified" allow nothing
        else. Under "plaintext" the coordinator sees the votes, under "secure" sums with the parties' own noise, which
        relies on the other parties; under "verified" single votes are hidden as long as coordinator and second
        aggregator do not work together."""

    allowed_classes: tuple[str, ...] = Field(default=(), min_length=2)
    allowed_columns: tuple[str, ...] = ()
    least_rows_per_teacher: int = Field(default=20, ge=0)
    most_teachers: int = Field(default=1, ge=1)
    collection: CollectionMode = "secure"


def check_terms(policy: Policy, terms: Terms) -> None:
    """Raise Refused if the policy does not let the party serve in a federation with these terms."""
    policy.check_simulation(terms)
    if sorted(terms.classes) != sorted(policy.allowed_classes):
        raise Refused(Rule.CLASSES, limit=len(policy.allowed_classes), requested=len(terms.classes))
    if terms.teachers > policy.most_teachers:
        raise Refused(Rule.MOST_TEACHERS, limit=policy.most_teachers, requested=terms.teachers)
    if is_other_collection(terms.collection, policy.collection):
        detail = f"{terms.collection} votes asked, the policy allows {policy.collection}"
        raise Refused(Rule.VOTES, detail=detail)
    pool_of(terms)


def check_shards(policy: Policy, smallest_shard: int) -> None:
    """Raise Refused if a shard would be too small. The number of rows itself is not told."""
    if smallest_shard < policy.least_rows_per_teacher:
        raise Refused(Rule.LEAST_ROWS, limit=policy.least_rows_per_teacher)


@dataclass(frozen=True)
class Promise:
    """release: what leaves if the whole query budget is used up. closing: the release of a sanitised epsilon, if one is
    planned."""

    release: ReleaseEvent
    closing: ReleaseEvent | None = None

    def most(self, round: int) -> int:
        """Most queries of the release in round 1; in round 2, of those that passed the check."""
        return self.release.queries_in(round)

    def noise(self, round: int) -> PartyNoise | None:
        """Noise of the parties that the release charges in this round; None where it charges none."""
        return self.release.party_noise(round)


@lru_cache(maxsize=4)  # each message of a federation comes with the same
def parse_promise(text: str, collection: CollectionMode, teachers: int) -> Promise:
    """The promise of a federation with this collection and number of teachers. Raises Refused: no list of events, or a
    number out of bounds (MALFORMED); several releases, or one that does not suit the collection, of other noise, or for
    another number of teachers (PROMISE)."""
    release, *rest = events = events_of(text)
    if release.mechanism.closing or len(rest) > 1 or not all(event.mechanism.closing for event in rest):
        raise Refused(Rule.PROMISE, detail="a promise is one release, and at most one sanitised epsilon beside it")
    by_parties = release.mechanism.noise_by_parties
    if by_parties and rest:
        raise Refused(Rule.PROMISE, detail="noise that is in the sums leaves nothing to be sanitised")
    if by_parties != (collection in MODES):
        raise Refused(Rule.PROMISE, detail=f"a {release.mechanism.name} release is no release of {collection} votes")
    whole = by_parties and MODES[collection].aggregators
    if whole and (noise := release.party_noise(1)) is not None and noise.shares != 1:
        raise Refused(Rule.PROMISE, limit=1, requested=noise.shares, detail="each aggregator adds the whole noise")
    if release.noise is not Noise.DISCRETE or (by_parties and release.towards is not Towards.COORDINATOR):
        raise Refused(Rule.PROMISE, detail="the promised noise is not the one that is drawn")
    if release.asked < 1:
        raise Refused(Rule.PROMISE, limit=release.asked, detail="a promise of no queries")
    for event in events:
        if event.teachers_per_party != teachers:
            raise Refused(Rule.PROMISE, limit=event.teachers_per_party, requested=teachers)
    return Promise(release, *rest)


def promise_of(terms: Terms) -> Promise:
    """The promise of these terms. Raises Refused as `parse_promise`."""
    return parse_promise(terms.promise, terms.collection, terms.teachers)


def check_promised_unit(terms: Terms, rules: DataRules) -> None:
    """Raise Refused (UNIT) for a promise to patients by a party that does not know which rows are of one patient.

    Its rows would be divided one by one, so that a patient with several rows could be in all shards and move all votes.
    """
    promise = promise_of(terms)
    units = {event.unit for event in (promise.release, promise.closing) if event is not None}
    if Unit.PATIENT in units and not rules.patient.known:
        message = "the federation promises for patients, and party.toml does not say which rows are of one"
        action = "name the column under [patient], or set rows_are_patients = true there if no patient has two rows"
        raise Refused(Rule.UNIT, detail=f"{message}: {action}")
