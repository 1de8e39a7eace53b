"""Refusals: how a party, or the second aggregator, says no, and what to do about it. They name rule, limit and request,
and leak no data. The node itself and the coordinator both say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from pydantic import Field

from consilium.protocol.messages import PartyName
from consilium.protocol.models import Strict

_JOIN = "Join the operator's newest folder at this party and at the coordinator: consilium node join FOLDER"
_ALLOW = "Its people raise this line of its policy.toml, and nobody else"
_TELEPHONE = "Do not go on: compare by telephone the fingerprints that consilium node join prints"


class Rule(StrEnum):
    """The rules that a party enforces itself, whatever the coordinator asks, each with its cure."""

    cure: str

    def __new__(cls, name: str, cure: str) -> Self:
        rule = str.__new__(cls, name)
        rule._value_, rule.cure = name, cure
        return rule

    CLASSES = "classes", "allowed_classes of its policy.toml names other classes than the federation"
    LEAST_ROWS = (
        "least-rows-per-teacher",
        "It needs more rows, or the federation fewer teachers: least_rows_per_teacher of its policy.toml",
    )
    MOST_QUERIES = "most-queries", f"{_ALLOW}: most_queries; or the party stays out"
    MOST_EPSILON = "most-epsilon", f"{_ALLOW}: most_epsilon, over all federations; or the party stays out"
    PROMISE = (
        "promise",
        "The coordinator asks something else than it came with: same folder joined, same version at both?",
    )
    QUERY_BUDGET = (
        "query-budget",
        "This party has charged all queries that the federation may ask. A sum that fails once votes have left is"
        " charged all the same, and again when it is asked again. For more, plan a new federation with a larger"
        " query_budget",
    )
    MOST_TEACHERS = "most-teachers", f"{_ALLOW}: most_teachers; or the federation asks for fewer"
    SIMULATION = "simulation", "This is a simulated federation; a real party takes no part in it"
    VOTES = "votes", "collection of its policy.toml allows another way to collect votes than the federation's"
    UNIT = "unit", "The federation protects patients: the party names their column under [patient]"
    LEAST_PARTIES = (
        "least-parties",
        "Its people lower this line of its policy.toml, and nobody else: least_parties; or the party stays out",
    )
    NODE_KIND = "node-kind", "This node is of another kind: a party, or the second aggregator"
    VERSION = "protocol-version", "Install the same version of Consilium at both"
    SCHEMA = "schema", "The party's columns are not the federation's: consilium node join says what does not fit"
    NOT_ACCEPTED = "not-accepted", "Its own people say what they allow: consilium node start, by hand"
    TERMS = "pinned-terms", _JOIN
    POOL = "pool", "Ask rows of the federation's public.npz only"
    # another ledger than before, or one that has gone back
    LEDGER = "ledger", "Restore the newest backup of the coordinator's ledger; a lost one is a new federation"
    SECOND_COORDINATOR = (
        "second-coordinator",
        "Another coordinator has asked with a copy of this ledger since, or with a newer one: stop this one, and"
        " go on there",
    )
    NOT_TRAINED = "not-trained", "Restart the coordinator: it has the party train again"
    MALFORMED = "malformed-request", "Install the same version of Consilium at both"
    DATA = "data", "The party's data do not fit: consilium node join says what does not fit"
    POLICY = "policy", "The party's settings or state cannot be used: consilium doctor"
    STORAGE = (
        "storage",
        "The party's disk is full, or its state cannot be read or written: consilium doctor there says which",
    )
    LOCKED = (
        "locked",
        "Another program at the party holds its state, a backup perhaps: it goes on when that program ends",
    )
    INTERNAL = "internal-error", "Its own log has the detail"
    # secure aggregation: what the party found wrong with the coordinator's or another party's part in it
    ROSTER_MISMATCH = "roster-mismatch", _JOIN
    UNSAFE_SESSION = "unsafe-session", _JOIN
    OVERFLOW_RISK = "overflow-risk", "Provision the federation with fewer teachers or less noise"
    BAD_SIGNATURE = "bad-signature", _TELEPHONE
    BAD_KEY = "bad-key", _TELEPHONE
    INCONSISTENT_VIEW = "inconsistent-view", _TELEPHONE
    REPLAY = "replay", "Ask each row once, in a new session"
    # requested: queries of the set; limit: how many of them can still be asked
    ALREADY_ANSWERED = (
        "already-answered",
        "Leave out the rows that are in an earlier sum, in whatever federation: the second aggregator gives each once",
    )
    STAGE_ORDER = "stage-order", "Ask again: a session was over"
    THRESHOLD = "threshold-not-met", "Wait for more parties, and ask again"


FOR_DATA = frozenset({Rule.DATA, Rule.SCHEMA, Rule.LEAST_ROWS})
"""Rules by which a party is left out because of what its data hold: that it is missing tells something about them."""


class Refusal(Strict):
    """What travels instead of an answer. `limit` and `requested` are what the policy and the request say, both known to
    the sender of the request or published by the policy; they are None where even that would tell something about the
    rows. `party` names the party whose part in a secure sum was at fault. Free text never travels."""

    rule: Rule = Field(strict=False)
    limit: int | float | None = None
    requested: int | float | None = None
    party: PartyName | None = None

    def __str__(self) -> str:
        told = {"requested": self.requested, "limit": self.limit, "by the fault of": self.party}
        return ", ".join([self.rule.value, *(f"{word} {value}" for word, value in told.items() if value is not None)])


class Refused(Exception):
    """Raised inside a party; the edge turns it into a `Refusal`. `detail` stays in the party's own log."""

    def __init__(
        self, rule: Rule, *, limit: float | None = None, requested: float | None = None, detail: str = ""
    ) -> None:
        self.refusal = Refusal(rule=rule, limit=limit, requested=requested)
        self.detail = detail
        super().__init__(f"{self.refusal}{': ' + detail if detail else ''}")


CURES: Mapping[Rule, str] = {rule: rule.cure for rule in Rule}
CURES_OF_SECOND: Mapping[Rule, str] = {
    **{rule: re.sub(r"\bparty\b", "second aggregator", cure) for rule, cure in CURES.items()},
    Rule.VOTES: "The second aggregator serves for verified votes only",
    Rule.NODE_KIND: "This node is the second aggregator, and was asked what other nodes answer",
    Rule.INCONSISTENT_VIEW: "Ask again; if it stays so, one of the two aggregators does not run this program",
}
"""Where a party's words would speak of a party, these speak of the second aggregator."""
