"""What an aggregator refuses on its own, whatever the other one does: before a session, and before its total is given.

A rule raises a typed error. All rules allow a sum before any remembers it, so that what is refused uses nothing up.
Who keeps rules over sessions keeps their `state` on disk, written before a total is sent.
"""

from __future__ import annotations

from typing import Protocol

from consilium.protocol.secagg.blocks import check_whole
from consilium.protocol.verified.roster import VerifiedRoster
from consilium.protocol.verified.session import VerifiedSession


class AggregatorRule(Protocol):
    """One rule of one aggregator. `accepted` are places in the roster."""

    def admit(self, session: VerifiedSession) -> None:
        """Raise if no upload of this session may be taken."""

    def allow(self, session: VerifiedSession, accepted: frozenset[int]) -> None:
        """Raise if this aggregator's total over these parties may not be given."""

    def remember(self, session: VerifiedSession, accepted: frozenset[int]) -> None:
        """The total is about to be given."""


class WholeBlocks:
    """A sum that is exact for one of the aggregators is over whole blocks of parties (`protocol.secagg.blocks`)."""

    def __init__(self, roster: VerifiedRoster) -> None:
        self._roster = roster

    def admit(self, session: VerifiedSession) -> None:
        """See `AggregatorRule`."""

    def allow(self, session: VerifiedSession, accepted: frozenset[int]) -> None:
        """Raises BrokenBlock."""
        if min(session.leader_sigma, session.helper_sigma) == 0:
            check_whole(self._roster.blocks, accepted)

    def remember(self, session: VerifiedSession, accepted: frozenset[int]) -> None:
        """See `AggregatorRule`."""
