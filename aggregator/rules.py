"""What this aggregator refuses on its own before it gives half of a sum: `protocol.verified.rules`, kept on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from consilium.aggregator.policy import AggregatorPolicy
from consilium.aggregator.promise import release_of
from consilium.aggregator.store import GivenSums
from consilium.protocol.parties.messages import Terms
from consilium.protocol.parties.refusals import Refused, Rule
from consilium.protocol.secagg.errors import AlreadyAnswered, SetTooClose
from consilium.protocol.secagg.sets import nearest
from consilium.protocol.verified.roster import VerifiedRoster
from consilium.protocol.verified.session import VerifiedSession


@dataclass(frozen=True)
class KeptRules:
    """An `AggregatorRule` in the transaction of one message: what it remembers is on disk before the half is sent.

    A query is in one exact sum, ever; in one sum of each phase where sums have noise. Exact sums are over the same
    parties or differ by enough of them. Caps are those of the promise, and the policy's.
    ids: of the session's queries, which this aggregator has seen.
    """

    given: GivenSums
    policy: AggregatorPolicy
    roster: VerifiedRoster
    told: Terms
    ids: Sequence[str] = field(repr=False)

    def admit(self, session: VerifiedSession) -> None:
        """Raise AlreadyAnswered, or Refused (PROMISE, MOST_QUERIES) where the caps are used up."""
        answered = self.given.given(self.ids, _phases(session))
        if answered:
            raise AlreadyAnswered(answered, len(self.ids))
        release, phase = session.release, session.phase
        most = release_of(self.told.promise, release).queries_in(phase)
        asked = self.given.charged(session.federation, release, phase) + len(self.ids)
        if asked > most:
            raise Refused(Rule.PROMISE, limit=most, requested=asked)
        ever = self.given.answered() + len(self.ids)
        if phase == 1 and ever > self.policy.most_queries:
            raise Refused(Rule.MOST_QUERIES, limit=self.policy.most_queries, requested=ever)

    def allow(self, session: VerifiedSession, accepted: frozenset[int]) -> None:
        """As `admit`, since another session may have given its half meanwhile; and raise SetTooClose."""
        self.admit(session)
        if session.helper_sigma > 0:
            return
        found = nearest(accepted, self.given.summed(self.roster.digest))
        if found is not None and found < self.roster.least_difference:
            raise SetTooClose(found, self.roster.least_difference)

    def remember(self, session: VerifiedSession, accepted: frozenset[int]) -> None:
        """The half is about to be given."""
        self.given.charge(session.federation, session.release, session.phase, self.ids, _phases(session))
        if session.helper_sigma == 0:
            self.given.remember_set(self.roster.digest, accepted)


def _phases(session: VerifiedSession) -> int:
    """Bits of the phases in which a query is used up: an exact sum leaves none for it."""
    return 1 << (session.phase - 1) if session.helper_sigma > 0 else 0b11
