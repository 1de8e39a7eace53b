"""What this aggregator refuses on its own before it gives half of a sum: `sums.aggregators.half`, kept on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from consilium.aggregator.policy import AggregatorPolicy
from consilium.aggregator.promise import release_of
from consilium.aggregator.store import GivenSums
from consilium.protocol.messages import Terms
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.aggregators.half import WholeBlocks
from consilium.sums.aggregators.terms import VerifiedTerms
from consilium.sums.errors import AlreadyAnswered, BrokenBlock
from consilium.sums.roster import VerifiedRoster, check_kept


@dataclass(frozen=True)
class KeptRules:
    """An `AggregatorRule` in the transaction of one message: what it remembers is on disk before the half is sent.

    A query is in one sum of each phase where sums have noise. Exact sums are over whole blocks of parties, of each
    party the same one always. Caps are those of the promise, and the policy's.
    ids: of the session's queries, which this aggregator has seen.
    """

    given: GivenSums
    policy: AggregatorPolicy
    roster: VerifiedRoster
    told: Terms
    ids: Sequence[str] = field(repr=False)

    def admit(self, terms: VerifiedTerms) -> None:
        """Raise AlreadyAnswered, or Refused (PROMISE, MOST_QUERIES) where the caps are used up."""
        answered = self.given.given(self.ids, _phases(terms))
        if answered:
            raise AlreadyAnswered(answered, len(self.ids))
        release, phase = terms.release, terms.phase
        most = release_of(self.told.promise, release).queries_in(phase)
        asked = self.given.charged(terms.federation, release, phase) + len(self.ids)
        if asked > most:
            raise Refused(Rule.PROMISE, limit=most, requested=asked)
        ever = self.given.answered() + len(self.ids) - self.given.known(self.ids)
        if phase == 1 and ever > self.policy.most_queries:
            raise Refused(Rule.MOST_QUERIES, limit=self.policy.most_queries, requested=ever)

    def allow(self, terms: VerifiedTerms, accepted: frozenset[int]) -> None:
        """As `admit`, since another session may have given its half meanwhile; and raise BrokenBlock."""
        self.admit(terms)
        WholeBlocks(self.roster).allow(terms, accepted)
        if terms.helper_sigma > 0:
            return
        if self.given.gave_before_blocks():
            raise BrokenBlock("this node gave halves of exact sums of version 0.9, which were no sums of blocks")
        for block in self._blocks(accepted):
            for first in self.given.blocks(block):
                check_kept(block, first)

    def remember(self, terms: VerifiedTerms, accepted: frozenset[int]) -> None:
        """The half is about to be given."""
        self.given.charge(terms.federation, terms.release, terms.phase, self.ids, _phases(terms))
        if terms.helper_sigma == 0:
            for block in self._blocks(accepted):
                self.given.keep_block(block)

    def _blocks(self, accepted: frozenset[int]) -> list[frozenset[str]]:
        """Keys of each block that is in the sum."""
        return [self.roster.block_keys(min(block)) for block in self.roster.blocks if block <= accepted]


def _phases(terms: VerifiedTerms) -> int:
    """The bit of the phase in which a query is used up; none for an exact sum, which tells no more a second time."""
    return 1 << (terms.phase - 1) if terms.helper_sigma > 0 else 0
