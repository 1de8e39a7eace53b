"""What to do about a refusal of the second aggregator: the same words at the coordinator and in its own doctor."""

from __future__ import annotations

from collections.abc import Mapping

from consilium.protocol.parties.cures import CURES
from consilium.protocol.parties.refusals import Rule

_NEW_KIT = (
    "Unpack the newest update at the second aggregator and at the coordinator, and close the earlier federation first"
)

CURES_OF_SECOND: Mapping[Rule, str] = {
    **CURES,
    Rule.MOST_QUERIES: "The second aggregator raises policy.most_queries to what is requested, or does not serve",
    Rule.MOST_EPSILON: "The second aggregator raises policy.most_epsilon to what is requested, over all federations,"
    " or does not serve",
    Rule.SIMULATION: "This is a simulated federation; a real second aggregator does not serve in it",
    Rule.VOTES: "The second aggregator serves for verified votes only",
    Rule.EXACT_SUMS: "The second aggregator sets policy.exact_sums = true if it agrees to halves without noise; or the"
    " federation leaves federation.exact_sums out",
    Rule.LEAST_PARTIES: "The second aggregator lowers policy.least_parties if it agrees to sums over so few",
    Rule.NODE_KIND: "This node is the second aggregator, and was asked what other nodes answer; unpack the kit that is"
    " meant",
    Rule.NOT_ACCEPTED: "Its own people say what they allow: consilium aggregator accept",
    Rule.TERMS: _NEW_KIT,
    Rule.ROSTER_MISMATCH: _NEW_KIT,
    Rule.UNSAFE_SESSION: _NEW_KIT,
    Rule.POLICY: "The second aggregator's settings or state cannot be used: consilium doctor",
    Rule.STORAGE: "Make room on the second aggregator's disk",
    Rule.INTERNAL: "Its operator mends it",
    Rule.BAD_SIGNATURE: "Do not go on: compare `consilium aggregator fingerprint` by telephone with what the parties"
    " see",
    Rule.INCONSISTENT_VIEW: "Ask again; if it stays so, one of the two aggregators does not run this program",
    Rule.ALREADY_ANSWERED: "Leave out the rows that are in an earlier sum, in whatever federation: each is in one only",
}
"""Where a party's words would speak of a party, these speak of the second aggregator."""
