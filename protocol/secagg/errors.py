"""What can go wrong in secure aggregation. Texts name parties, stages and numbers, never keys, shares or votes."""

from __future__ import annotations

from collections.abc import Iterable

from consilium.protocol.errors import ConsiliumError

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

    def __init__(self, what: str) -> None:
        super().__init__(what, "Compare roster files of all nodes: `sha256` of the canonical roster must agree")


class UnsafeSession(SecAggError):
    """A session whose terms the roster does not allow: too little noise per party, or a phase without noise."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "Change the terms of the session; this node gives nothing under these")


class BadSignature(SecAggError):
    """A signature does not verify under the key that the roster pins for this party."""

    def __init__(self, party: str, what: str) -> None:
        self.party = party
        super().__init__(
            f"signature of {party} on its {what} does not verify", "Check that its key is the one in the roster"
        )


class BadKey(SecAggError):
    """A key of this session is of low order, or is used twice."""

    def __init__(self, party: str, what: str) -> None:
        self.party = party
        super().__init__(
            f"session key of {party} {what}", "Start a new session without this party and ask its operator"
        )


class InconsistentView(SecAggError):
    """The coordinator tells this party something that cannot be, or something else than before."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "The party gives nothing more here; start a new session and examine the coordinator")


class Replay(SecAggError):
    """A session id that this party knows with other terms, or a query that stands twice in one set."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "Start a new session, with each query once")


class AlreadyAnswered(SecAggError):
    """Queries of a sum that this node has given its part of. `limit` of the `requested` queries can still be asked."""

    def __init__(self, answered: int, requested: int) -> None:
        self.limit, self.requested = requested - answered, requested
        super().__init__(
            f"{answered} of {requested} queries are in a sum that this node gave its part of",
            "Ask the others; a query is answered once, whoever was in its sum",
        )


class BrokenBlock(SecAggError):
    """An exact sum with a part of a block of parties in it, or a party whose block is not what it was
    (`protocol.secagg.blocks`). Nothing is used up."""

    def __init__(self, what: str) -> None:
        super().__init__(
            what,
            "Sum whole blocks. One that lost somebody, or of which somebody has a new key, is never whole again:"
            " collect votes with noise in the sums, which has no such rule",
        )


class StageOrder(SecAggError):
    """A stage that is not the next one, or a session that is unknown or over."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "Go on with the stage that is due, or start a new session")


class BadShare(SecAggError):
    """Too few shares of this party's secret are good.

    parties: whom to leave out of the next session. Each lied, or is one of two of whom one lied; empty where shares
    given in the last stage do not fit and nobody can tell whose.
    """

    def __init__(self, party: str, what: str, parties: Iterable[str] = ()) -> None:
        self.party, self.parties = party, tuple(parties)
        advice = f"without {named(self.parties)}" if self.parties else "and ask the parties to check their software"
        super().__init__(f"share of {party}: {what}", f"Start a new session {advice}")


class BadSum(SecAggError):
    """The exact sum does not have the votes that honest parties give: somebody voted falsely, no one can tell who.

    Honest votes have no part in whether this is raised.
    """

    def __init__(self) -> None:
        super().__init__(
            "rows of a secure sum do not have the number of votes that its parties give",
            "Ask again: nothing was used up. If it stays so, collect votes as verified, where false ones are named",
        )


class ThresholdNotMet(SecAggError):
    """Too few parties are left after a stage. Nothing is computed from what is there."""

    def __init__(self, stage: str, have: int, need: int, missing: Iterable[str]) -> None:
        self.stage, self.have, self.need, self.missing = stage, have, need, tuple(missing)
        super().__init__(
            f"stage {stage}: {have} parties are left, {need} are needed; missing: {named(self.missing) or 'none'}",
            "Send the stage again when they are back, or start a new session",
        )


class OverflowRisk(SecAggError):
    """The largest sum and nine standard deviations of its noise do not fit into the ring."""

    def __init__(self, reach: float, limit: int) -> None:
        self.reach, self.limit = reach, limit
        super().__init__(
            f"sums may reach {reach:.6g} with their noise, the ring holds less than {limit}",
            "Use the larger ring, fewer teachers or less noise",
        )
