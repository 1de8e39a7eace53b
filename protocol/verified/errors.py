"""What can go wrong with verified votes. Texts name parties, stages and numbers, never shares, keys or votes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from consilium.protocol.secagg.errors import SecAggError, named


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
    OTHER_KEY = "other-key"


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
    VoteFault.OTHER_KEY: "sealed its part for another key than the helper's of this session",
}
"""What a reader is told after the party's name."""
SHOWN = frozenset({VoteFault.NOT_FOR_US, VoteFault.COMMITMENT})
"""What the helper says of a sealed part, it shows: by the private key of that party's place in that session."""


class VerifiedError(SecAggError):
    """Base of all errors of verified votes."""


class NotVotes(VerifiedError):
    """This party's own teachers gave no votes: nothing is sent."""

    def __init__(self, what: str) -> None:
        super().__init__(f"votes of this party {what}", "Correct its teachers; nothing was sent")


class SumTooLarge(VerifiedError):
    """Sums of so many votes, with the aggregators' noise, do not fit into half of the field."""

    def __init__(self, reach: float, limit: int) -> None:
        self.reach, self.limit = reach, limit
        super().__init__(
            f"sums may reach {reach:.6g} with their noise, the most is {limit}",
            "Use fewer teachers or parties, or less noise",
        )


class BadLink(VerifiedError):
    """A message between the aggregators is not by the other one, not of this session, or altered."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "Send it again; if it stays so, compare rosters and keys of the two aggregators")


class TooManyWaiting(VerifiedError):
    """As many uploads as may wait for the helper are waiting. Nothing was taken."""

    def __init__(self, waiting: int, limit: int) -> None:
        self.waiting, self.limit = waiting, limit
        super().__init__(f"{waiting} uploads wait for the helper, at most {limit} may", "Send the batch, then go on")


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


class OtherVersion(VerifiedError):
    """The other node speaks another version of verified votes."""

    def __init__(self, what: str, version: object, known: int) -> None:
        super().__init__(f"{what} is of version {version}, this node knows {known}", "Install one version at all nodes")
