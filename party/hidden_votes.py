"""A `PartyNode` as the protocols of hidden sums need it: what it allows, charges and gives, whichever of them runs.

The coordinator is not trusted: the terms of a session are held against those of the enrolment, which the party's own
people have allowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from consilium.party.account import Account, Agreed
from consilium.party.home import PartySettings
from consilium.party.promise import promise_of
from consilium.party.store import Store
from consilium.protocol.choices import counted
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity
from consilium.protocol.messages import VOTE_DTYPE, Terms
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.modes import MODES
from consilium.sums.roster import SumRoster
from consilium.sums.terms import QuerySet, SumTerms

T = TypeVar("T")
R = TypeVar("R", bound=SumRoster)


def check_own_roster(settings: PartySettings, agreed: Terms) -> None:
    """Check that the party's own copy of the roster is the one of these terms, lists it, and can be served under the
    policy. Plaintext votes have none.

    Raises
    ------
    Refused : another roster, too few honest parties in a sum, or a promise of noise in more shares than there are sure
        to be. RosterMismatch : the party is not in it. ConfigError : it has none.
    """
    if agreed.collection not in MODES:
        return
    roster = _own(settings.roster, MODES[agreed.collection].roster, "roster")
    if roster.digest != agreed.roster:
        raise Refused(
            Rule.ROSTER_MISMATCH, detail=f"the coordinator has {agreed.roster[:12]}, this party {roster.digest[:12]}"
        )
    if roster.sure < settings.policy.least_parties:
        raise Refused(Rule.LEAST_PARTIES, limit=settings.policy.least_parties, requested=roster.sure)
    noise = promise_of(agreed).noise(1)
    if noise is not None and noise.shares > roster.sure:
        detail = "noise in more shares than are sure to be"
        raise Refused(Rule.PROMISE, limit=roster.sure, requested=noise.shares, detail=detail)
    roster.place(settings.name)


def _own(value: object, kind: type[T], name: str) -> T:
    """What the party has of this kind. Raises ConfigError where it has none."""
    if not isinstance(value, kind):
        raise ConfigError(
            f"this party has no {name} for such votes",
            "Join the folder that the operator sent again, or ask the operator",
        )
    return value


@dataclass(frozen=True)
class PartyVoter:
    """See `sums.terms.Voter`. agreed, charged: see `PartyNode`."""

    settings: PartySettings
    account: Account
    agreed: Callable[[str], Agreed]
    charged: Callable[..., np.ndarray]

    @property
    def name(self) -> str:
        """See `Voter`."""
        return self.settings.name

    @property
    def store(self) -> Store:
        """See `Voter`."""
        return self.account.store

    @property
    def identity(self) -> Identity:
        """See `Voter`."""
        return _own(self.settings.identity, Identity, "signing key")

    def roster(self, kind: type[R]) -> R:
        """See `Voter`."""
        return _own(self.settings.roster, kind, "roster")

    def check(self, terms: SumTerms) -> None:
        """See `Voter`."""
        agreed, policy = self.agreed(terms.federation), self.settings.policy
        enrolled, promise = agreed.terms, agreed.promise
        if terms.collection != enrolled.collection:
            detail = f"a {terms.collection} session in a federation of {enrolled.collection} votes"
            raise Refused(Rule.VOTES, detail=detail)
        if terms.roster != enrolled.roster:
            raise Refused(Rule.ROSTER_MISMATCH, detail="the session has another roster than the terms")
        if (terms.teachers, terms.classes) != (enrolled.teachers, len(enrolled.classes)):
            raise Refused(Rule.PROMISE, limit=enrolled.teachers, requested=terms.teachers)
        if terms.noise != promise.noise(terms.round):
            raise Refused(Rule.PROMISE, detail="the noise of the sum is not that of the promise")
        most = min(promise.most(terms.round), policy.most_queries)
        if terms.queries > most:
            raise Refused(Rule.MOST_QUERIES, limit=most, requested=terms.queries)
        self.account.check_position(terms.federation, terms.position)

    def votes(self, terms: SumTerms, query_set: QuerySet, again: bool) -> np.ndarray:
        """See `Voter`."""
        self.check(terms)
        agreed = self.agreed(terms.federation)
        chosen = self.charged(query_set, agreed, terms.round, terms.position, again=again)
        return counted(chosen.T, terms.classes).astype(VOTE_DTYPE)

    def noise(self, terms: SumTerms) -> NoiseSource:
        """See `Voter`."""
        seed, agreed = self.settings.noise_seed, self.agreed(terms.federation)
        if seed is None or not agreed.terms.simulation:
            return SystemNoise()
        return SeededNoise(int(canonical_digest([seed, self.name, terms.query_set, terms.round]), 16))
