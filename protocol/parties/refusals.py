"""Refusals: how a party says no. They name rule, limit and request, and leak no data."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from consilium.protocol.models import Strict
from consilium.protocol.parties.messages import PartyName


class Rule(StrEnum):
    """The rules that a party enforces itself, whatever the coordinator asks."""

    CLASSES = "classes"
    LEAST_ROWS = "least-rows-per-teacher"
    MOST_QUERIES = "most-queries"
    MOST_EPSILON = "most-epsilon"
    PROMISE = "promise"
    MOST_TEACHERS = "most-teachers"
    SIMULATION = "simulation"
    VOTES = "votes"
    EXACT_SUMS = "exact-sums"  # sums without noise, and the policy does not allow them by name
    UNIT = "unit"  # a promise to patients, and the party does not know whose its rows are
    LEAST_PARTIES = "least-parties"
    NODE_KIND = "node-kind"  # a request to another kind of node: a party, or the second aggregator
    VERSION = "protocol-version"
    SCHEMA = "schema"
    NOT_ACCEPTED = "not-accepted"  # its own people have not allowed what its kit asks
    TERMS = "pinned-terms"  # the party takes part in the federation of its own terms only
    POOL = "pool"  # queries were not fixed beforehand, or are no rows of the pool
    LEDGER = "ledger"  # another ledger than before, or one that has gone back
    NOT_TRAINED = "not-trained"
    MALFORMED = "malformed-request"
    DATA = "data"
    POLICY = "policy"
    STORAGE = "storage"  # the party's disk is full or cannot be written
    INTERNAL = "internal-error"
    # secure aggregation: what the party found wrong with the coordinator's or another party's part in it
    ROSTER_MISMATCH = "roster-mismatch"
    UNSAFE_SESSION = "unsafe-session"
    OVERFLOW_RISK = "overflow-risk"
    BAD_SIGNATURE = "bad-signature"
    BAD_KEY = "bad-key"
    INCONSISTENT_VIEW = "inconsistent-view"
    REPLAY = "replay"
    ALREADY_ANSWERED = "already-answered"  # requested: queries of the set; limit: how many of them can still be asked
    BROKEN_BLOCK = "broken-block"  # an exact sum without all of a party's block, or with another block than before
    STAGE_ORDER = "stage-order"
    THRESHOLD = "threshold-not-met"


FOR_DATA = frozenset({Rule.DATA, Rule.SCHEMA, Rule.LEAST_ROWS})
"""Rules by which a party is left out because of what its data hold: that it is missing tells something about them."""


class Refusal(Strict):
    """What travels instead of an answer.

    `limit` and `requested` are what the policy and the request say, both known to the sender of the request or
    published by the policy; they are None where even that would tell something about the rows. `party` names the party
    whose part in a secure sum was at fault. Free text never travels.
    """

    rule: Rule = Field(strict=False)
    limit: int | float | None = None
    requested: int | float | None = None
    party: PartyName | None = None

    def __str__(self) -> str:
        parts = [self.rule.value]
        if self.requested is not None:
            parts.append(f"requested {self.requested}")
        if self.limit is not None:
            parts.append(f"limit {self.limit}")
        if self.party is not None:
            parts.append(f"by the fault of {self.party}")
        return ", ".join(parts)


class Refused(Exception):
    """Raised inside a party; the edge turns it into a `Refusal`. `detail` stays in the party's own log."""

    def __init__(
        self, rule: Rule, *, limit: float | None = None, requested: float | None = None, detail: str = ""
    ) -> None:
        self.refusal = Refusal(rule=rule, limit=limit, requested=requested)
        self.detail = detail
        super().__init__(f"{self.refusal}{': ' + detail if detail else ''}")
