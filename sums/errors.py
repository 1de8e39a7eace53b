"""What can go wrong in a hidden sum. Texts name parties, stages and numbers, never keys, shares or votes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from consilium.protocol.errors import ConsiliumError
from consilium.protocol.refusals import Rule

MOST_NAMED = 10


def named(parties: Iterable[str]) -> str:
    """Party names for an error text: the first ten, then how many more.

    >>> named(["a", "b"])
    'a, b'
    """
    names = list(parties)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


class SecAggError(ConsiliumError):
    """Base of all errors of secure aggregation."""

    exit_code = 11
    meaning = "secure aggregation"


class RosterMismatch(SecAggError):
    """The session names another roster than the one this node holds, or the node is not in its own roster."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "Compare roster files of all nodes: `sha256` of the canonical roster must agree")


class UnsafeSession(SecAggError):
    """A session whose terms the roster does not allow: too little noise per party."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "Change the terms of the session; this node gives nothing under these")


class BadSignature(SecAggError):
    """A signature does not verify under the key that the roster pins for this party."""

    def __init__(self, party: str, message: str) -> None:
        self.party = party
        super().__init__(
            f"signature of {party} on its {message} does not verify", "Check that its key is the one in the roster"
        )


class BadKey(SecAggError):
    """A key of this session is of low order, or is used twice."""

    def __init__(self, party: str, message: str) -> None:
        self.party = party
        super().__init__(
            f"session key of {party} {message}", "Start a new session without this party and ask its operator"
        )


class InconsistentView(SecAggError):
    """The coordinator tells this party something that cannot be, or something else than before."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "The party gives nothing more here; start a new session and examine the coordinator")


class Replay(SecAggError):
    """A session id that this party knows with other terms, or a query that stands twice in one set."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "Start a new session, with each query once")


class AlreadyAnswered(SecAggError):
    """Queries of a sum that this node has given its part of. `limit` of the `requested` queries can still be asked."""

    def __init__(self, answered: int, requested: int) -> None:
        self.limit, self.requested = requested - answered, requested
        super().__init__(
            f"{answered} of {requested} queries are in a sum that this node gave its part of",
            "Ask the others; a query is answered once, whoever was in its sum",
        )


class StageOrder(SecAggError):
    """A stage that is not the next one, or a session that is unknown or over."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "Go on with the stage that is due, or start a new session")


class BadShare(SecAggError):
    """Too few shares of this party's secret are good.

    parties: whom to leave out of the next session. Each lied, or is one of two of whom one lied; empty where shares
    given in the last stage do not fit and nobody can tell whose.
    """

    def __init__(self, party: str, message: str, parties: Iterable[str] = ()) -> None:
        self.party, self.parties = party, tuple(parties)
        advice = f"without {named(self.parties)}" if self.parties else "and ask the parties to check their software"
        super().__init__(f"share of {party}: {message}", f"Start a new session {advice}")


class ThresholdNotMet(SecAggError):
    """Too few parties are left after a stage. Nothing is computed from what is there."""

    def __init__(self, stage: str, have: int, need: int, missing: Iterable[str]) -> None:
        self.stage, self.have, self.need, self.missing = stage, have, need, tuple(missing)
        super().__init__(
            f"stage {stage}: {have} parties are left, {need} are needed; missing: {named(self.missing) or 'none'}",
            "Wait until they are back: a deployed student asks again by itself",
        )


class OverflowRisk(SecAggError):
    """The largest sum and nine standard deviations of its noise do not fit into the ring."""

    def __init__(self, reach: float, limit: int) -> None:
        self.reach, self.limit = reach, limit
        super().__init__(
            f"sums may reach {reach:.6g} with their noise, the ring holds less than {limit}",
            "Use the larger ring, fewer teachers or less noise",
        )


class VoteFault(StrEnum):
    """Why a party is left out, by name, before anything is summed."""

    UNKNOWN = "unknown"
    MALFORMED = "malformed"
    OTHER_SESSION = "other-session"
    OTHER_PARTY = "other-party"
    SIGNATURE = "signature"
    TWICE = "twice"
    COMMITMENT = "commitment"
    NOT_FOR_US = "not-for-us"
    FALSE_VOTES = "false-votes"


FAULTS: dict[VoteFault, str] = {
    VoteFault.UNKNOWN: "is not in the roster",
    VoteFault.MALFORMED: "sent what has not the form of an upload of this session",
    VoteFault.OTHER_SESSION: "sent an upload of another session",
    VoteFault.OTHER_PARTY: "sent an upload in another party's name",
    VoteFault.SIGNATURE: "sent an upload that its key in the roster has not signed",
    VoteFault.TWICE: "sent two uploads in one session; the first counts",
    VoteFault.COMMITMENT: "is bound to other shares than it sent",
    VoteFault.NOT_FOR_US: "sealed a part that the helper cannot open",
    VoteFault.FALSE_VOTES: "sent votes that are none, or has no proof that they are",
}
"""What a reader is told after the party's name."""


class VerifiedError(SecAggError):
    """Base of all errors of verified votes."""


class NotVotes(VerifiedError):
    """This party's own teachers gave no votes: nothing is sent."""

    def __init__(self, message: str) -> None:
        super().__init__(f"votes of this party {message}", "Correct its teachers; nothing was sent")


class SumTooLarge(VerifiedError):
    """Sums of so many votes, with the aggregators' noise, do not fit into half of the field."""

    def __init__(self, reach: float, limit: int) -> None:
        self.reach, self.limit = reach, limit
        super().__init__(
            f"sums may reach {reach:.0f} with their noise, the most is {limit}",
            "Use fewer teachers or parties, or less noise",
        )


class BadLink(VerifiedError):
    """A message between the aggregators is not by the other one, not of this session, or altered."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "Send it again; if it stays so, compare rosters and keys of the two aggregators")


class AggregatorsDisagree(VerifiedError):
    """The two aggregators do not take the same parties for accepted. Nothing is given.

    at_fault: "the second aggregator", where what it says is disproved by what it shows; empty where nobody can tell.
    """

    def __init__(self, parties: Iterable[str], at_fault: str = "") -> None:
        self.parties, self.at_fault = tuple(parties), at_fault
        super().__init__(
            f"the aggregators disagree about {named(self.parties)}" + (f": {at_fault} is at fault" if at_fault else ""),
            f"Telephone whoever runs {at_fault}: it does not run this program"
            if at_fault
            else "Start a new session; if it stays so, one of the two does not run this program",
        )


class AggregatorAway(SecAggError):
    """The second aggregator is not there, or does not answer. Nothing is used up: the same session goes on later."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the second aggregator does not answer: {reason}",
            "Start it, or telephone whoever runs it, and ask again; nothing was used up",
        )


class AggregatorWentBack(AggregatorAway):
    """The second aggregator has forgotten what it gave: an older state of it was restored. It would give its half of
    the same queries again, so nothing is asked of it."""

    def __init__(self, signed: int, known: int) -> None:
        SecAggError.__init__(
            self,
            f"the second aggregator's state went back: it gave its half of {signed} sums of this federation, and knows"
            f" {known}",
            "Have the newest backup of its state/ restored; if that is lost, close this federation and make another"
            " with a new second aggregator (consilium provision add --kind aggregator)",
        )


class AggregatorRefuses(SecAggError):
    """The second aggregator does not serve in this federation, or does not give its half of this sum.

    rule: of its refusal; None where what it said is no refusal.
    """

    def __init__(self, reason: str, cure: str, rule: Rule | None = None) -> None:
        self.rule = rule
        ask = "Its own log has the detail; nothing was given"
        super().__init__(f"the second aggregator refuses: {reason}", f"{cure}. {ask}" if cure else ask)
