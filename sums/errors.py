"""What can go wrong in a hidden sum. Texts name parties, stages and numbers, never keys, shares or votes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

from consilium.protocol.errors import ConsiliumError
from consilium.protocol.refusals import Rule


def named(parties: Iterable[str]) -> str:
    """Party names for an error text: the first ten, then how many more."""
    names = list(parties)
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


class SecAggError(ConsiliumError):
    """Base of all errors of hidden sums. CURE: what to do. TOLD_AS: what the coordinator learns of it from a node."""

    exit_code = 11
    meaning = "secure aggregation"
    CURE: ClassVar[str] = ""
    TOLD_AS: ClassVar[Rule] = Rule.INTERNAL

    def __init__(self, what: str, cure: str = "") -> None:
        super().__init__(what, cure or self.CURE)


class RosterMismatch(SecAggError):
    """The session names another roster than the one this node holds, or the node is not in its own roster."""

    CURE = "Compare roster files of all nodes: `sha256` of the canonical roster must agree"
    TOLD_AS = Rule.ROSTER_MISMATCH


class UnsafeSession(SecAggError):
    """A session whose terms the roster does not allow: too little noise per party, or a query that stands twice."""

    CURE = "Change the terms of the session; this node gives nothing under these"
    TOLD_AS = Rule.UNSAFE_SESSION


class OverflowRisk(SecAggError):
    """The largest sum and nine standard deviations of its noise do not fit into the numbers of the protocol."""

    CURE = "Use fewer parties or teachers, or less noise"
    TOLD_AS = Rule.OVERFLOW_RISK

    def __init__(self, reach: float, limit: int) -> None:
        super().__init__(f"sums may reach {reach:.6g} with their noise, the most is {limit}")


class BadSignature(SecAggError):
    """A signature does not verify under the key that the roster pins for this party, or for "the coordinator"."""

    CURE = "Check that its key is the one in the roster"
    TOLD_AS = Rule.BAD_SIGNATURE

    def __init__(self, party: str, message: str) -> None:
        self.party = party
        super().__init__(f"signature of {party} on its {message} does not verify")


class BadKey(SecAggError):
    """A key of this session is of low order, or is used twice."""

    CURE = "Ask this party's operator; if it stays so, revoke it"
    TOLD_AS = Rule.BAD_KEY

    def __init__(self, party: str, message: str) -> None:
        self.party = party
        super().__init__(f"session key of {party} {message}")


class BadShare(SecAggError):
    """What was dealt for this party's secret, or given of it, is false. parties: each lied, or is one of two of whom
    one lied; empty where nobody can tell."""

    def __init__(self, party: str, message: str, parties: Iterable[str] = ()) -> None:
        self.party, self.parties = party, tuple(parties)
        advice = f"revoke {named(self.parties)}" if self.parties else "ask the parties to check their software"
        super().__init__(f"share of {party}: {message}", f"Ask again; if it stays so, {advice}")


class InconsistentView(SecAggError):
    """The coordinator tells this party something that cannot be, or something else than before."""

    CURE = "The party gives nothing more here; start a new session and examine the coordinator"
    TOLD_AS = Rule.INCONSISTENT_VIEW


class Replay(SecAggError):
    """A session id that this party knows with other terms, or a query that stands twice in one set."""

    CURE = "Start a new session, with each query once"
    TOLD_AS = Rule.REPLAY


class StageOrder(SecAggError):
    """A stage that is not the next one, or a session that is unknown or over."""

    CURE = "Go on with the stage that is due, or start a new session"
    TOLD_AS = Rule.STAGE_ORDER


class ThresholdNotMet(SecAggError):
    """Too few parties are left after a stage. Nothing is computed from what is there."""

    CURE = "Wait until they are back: a deployed student asks again by itself"
    TOLD_AS = Rule.THRESHOLD

    def __init__(self, stage: str, have: int, need: int, missing: Iterable[str]) -> None:
        counts = f"{have} parties are left, {need} are needed"
        super().__init__(f"stage {stage}: {counts}; missing: {named(missing) or 'none'}")


class VoteFault(StrEnum):
    """Why a party is left out, by name, before anything is summed: what a reader is told after its name."""

    UNKNOWN = "is not in the roster"
    MALFORMED = "sent what has not the form of an upload of this session"
    OTHER_SESSION = "sent an upload of another session"
    OTHER_PARTY = "sent an upload in another party's name"
    SIGNATURE = "sent an upload that its key in the roster has not signed"
    TWICE = "sent two uploads in one session; the first counts"
    COMMITMENT = "is bound to other shares than it sent"
    NOT_FOR_US = "sealed a part that the helper cannot open"
    FALSE_VOTES = "sent votes that are none, or has no proof that they are"


class BadLink(SecAggError):
    """A message between the aggregators is not by the other one, not of this session, or altered."""

    CURE = "Send it again; if it stays so, compare rosters and keys of the two aggregators"
    TOLD_AS = Rule.BAD_SIGNATURE


class AggregatorsDisagree(SecAggError):
    """The two aggregators do not take the same parties for accepted. Nothing is given. at_fault: "the second
    aggregator", where what it says is disproved by what it shows; empty where nobody can tell."""

    CURE = "Start a new session; if it stays so, one of the two does not run this program"
    TOLD_AS = Rule.INCONSISTENT_VIEW

    def __init__(self, parties: Iterable[str], at_fault: str = "") -> None:
        self.parties, self.at_fault = tuple(parties), at_fault
        fault = f": {at_fault} is at fault" if at_fault else ""
        cure = f"Telephone whoever runs {at_fault}: it does not run this program" if at_fault else ""
        super().__init__(f"the aggregators disagree about {named(self.parties)}{fault}", cure)
