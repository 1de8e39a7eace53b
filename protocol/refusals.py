"""Refusals: how a party, or the second aggregator, says no, and what to do about it. They name rule, limit and request,
and leak no data. The cure is the same words at the coordinator that is told of it and at the node itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from consilium.protocol.messages import PartyName
from consilium.protocol.models import Strict


class Rule(StrEnum):
    """The rules that a party enforces itself, whatever the coordinator asks."""

    CLASSES = "classes"
    LEAST_ROWS = "least-rows-per-teacher"
    MOST_QUERIES = "most-queries"
    MOST_EPSILON = "most-epsilon"
    PROMISE = "promise"
    QUERY_BUDGET = "query-budget"  # as many were charged here as the federation may ask
    MOST_TEACHERS = "most-teachers"
    SIMULATION = "simulation"
    VOTES = "votes"
    UNIT = "unit"  # a promise to patients, and the party does not know whose its rows are
    LEAST_PARTIES = "least-parties"
    NODE_KIND = "node-kind"  # a request to another kind of node: a party, or the second aggregator
    VERSION = "protocol-version"
    SCHEMA = "schema"
    NOT_ACCEPTED = "not-accepted"  # its own people have not allowed what is asked
    TERMS = "pinned-terms"  # the party takes part in the federation of its own terms only
    POOL = "pool"  # queries were not fixed beforehand, or are no rows of the pool
    LEDGER = "ledger"  # another ledger than before, or one that has gone back
    SECOND_COORDINATOR = "second-coordinator"  # another one with this ledger has asked for votes since
    NOT_TRAINED = "not-trained"
    MALFORMED = "malformed-request"
    DATA = "data"
    POLICY = "policy"
    STORAGE = "storage"  # the node's disk is full, or its state cannot be read or written
    LOCKED = "locked"  # another program holds the node's state
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
    STAGE_ORDER = "stage-order"
    THRESHOLD = "threshold-not-met"


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


_JOIN = "Join the operator's newest folder at this party and at the coordinator: consilium node join FOLDER"
_ALLOW = "Its people raise this line of its policy.toml, and nobody else"
_TELEPHONE = "Do not go on: compare by telephone the fingerprints that consilium node join prints"

CURES: Mapping[Rule, str] = {
    Rule.CLASSES: "allowed_classes of its policy.toml names other classes than the federation",
    Rule.LEAST_ROWS: "It needs more rows, or the federation fewer teachers: least_rows_per_teacher of its policy.toml",
    Rule.MOST_QUERIES: f"{_ALLOW}: most_queries; or the party stays out",
    Rule.MOST_EPSILON: f"{_ALLOW}: most_epsilon, over all federations; or the party stays out",
    Rule.PROMISE: "The coordinator asks something else than it came with: same folder joined, same version at both?",
    Rule.QUERY_BUDGET: "This party has charged all queries that the federation may ask. A sum that fails once votes"
    " have left is charged all the same, and again when it is asked again. For more, plan a new federation with a"
    " larger query_budget",
    Rule.MOST_TEACHERS: f"{_ALLOW}: most_teachers; or the federation asks for fewer",
    Rule.SIMULATION: "This is a simulated federation; a real party takes no part in it",
    Rule.VOTES: "collection of its policy.toml asks for more secrecy than the federation has",
    Rule.UNIT: "The federation protects patients: the party names their column under [patient]",
    Rule.LEAST_PARTIES: "Its people lower this line of its policy.toml, and nobody else: least_parties; or the party"
    " stays out",
    Rule.NODE_KIND: "This node is of another kind: a party, or the second aggregator",
    Rule.VERSION: "Install the same version of Consilium at both",
    Rule.SCHEMA: "The party's columns are not the federation's: consilium node join says what does not fit",
    Rule.NOT_ACCEPTED: "Its own people say what they allow: consilium node start, by hand",
    Rule.TERMS: _JOIN,
    Rule.POOL: "Ask rows of the federation's public.npz only",
    Rule.LEDGER: "Restore the newest backup of the coordinator's ledger; a lost one is a new federation",
    Rule.SECOND_COORDINATOR: "Another coordinator has asked with a copy of this ledger since, or with a newer one: stop"
    " this one, and go on there",
    Rule.NOT_TRAINED: "Restart the coordinator: it has the party train again",
    Rule.MALFORMED: "Install the same version of Consilium at both",
    Rule.DATA: "The party's data do not fit: consilium node join says what does not fit",
    Rule.POLICY: "The party's settings or state cannot be used: consilium doctor",
    Rule.STORAGE: "The party's disk is full, or its state cannot be read or written: consilium doctor there says which",
    Rule.LOCKED: "Another program at the party holds its state, a backup perhaps: it goes on when that program ends",
    Rule.INTERNAL: "Its own log has the detail",
    Rule.ROSTER_MISMATCH: _JOIN,
    Rule.UNSAFE_SESSION: _JOIN,
    Rule.OVERFLOW_RISK: "Provision the federation with fewer teachers or less noise",
    Rule.BAD_SIGNATURE: _TELEPHONE,
    Rule.BAD_KEY: _TELEPHONE,
    Rule.INCONSISTENT_VIEW: _TELEPHONE,
    Rule.REPLAY: "Ask each row once, in a new session",
    Rule.ALREADY_ANSWERED: "Leave out the rows that are in an earlier sum, in whatever federation: the second"
    " aggregator gives each once",
    Rule.STAGE_ORDER: "Ask again: a session was over",
    Rule.THRESHOLD: "Wait for more parties, and ask again",
}

CURES_OF_SECOND: Mapping[Rule, str] = {
    **{rule: re.sub(r"\bparty\b", "second aggregator", cure) for rule, cure in CURES.items()},
    Rule.VOTES: "The second aggregator serves for verified votes only",
    Rule.NODE_KIND: "This node is the second aggregator, and was asked what other nodes answer",
    Rule.INCONSISTENT_VIEW: "Ask again; if it stays so, one of the two aggregators does not run this program",
}
"""Where a party's words would speak of a party, these speak of the second aggregator."""
