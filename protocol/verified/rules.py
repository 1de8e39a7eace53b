"""What an aggregator refuses on its own, whatever the other one does: before a session, and before its total is given.

A rule raises a typed error. All rules allow a sum before any remembers it, so that what is refused uses nothing up.
Who keeps rules over sessions keeps their `state` on disk, written before a total is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from consilium.protocol.secagg.errors import AlreadyAnswered, Replay, SetTooClose
from consilium.protocol.secagg.sets import nearest
from consilium.protocol.verified.session import VerifiedSession


class AggregatorRule(Protocol):
    """One rule of one aggregator. `accepted` are places in the roster."""

    def admit(self, session: VerifiedSession) -> None:
        """Raise if no upload of this session may be taken."""

    def allow(self, session: VerifiedSession, accepted: frozenset[int]) -> None:
        """Raise if this aggregator's total over these parties may not be given."""

    def remember(self, session: VerifiedSession, accepted: frozenset[int]) -> None:
        """The total is about to be given."""


class SetsKeepDistance:
    """Exact sums are over the same parties, or sets of which each has `least` that the other lacks
    (`protocol.secagg.sets`).

    Sums to which the helper adds noise are exact for nobody, and free of this rule. The leader's own noise does not
    count: the leader knows it.
    """

    def __init__(self, least: int, earlier: Iterable[Collection[int]] = ()) -> None:
        self._least = least
        self._earlier = [frozenset(places) for places in earlier]

    @property
    def state(self) -> list[list[int]]:
        """The sets of earlier exact sums, as JSON takes them."""
        return [sorted(places) for places in self._earlier]

    def admit(self, session: VerifiedSession) -> None:
        """See `AggregatorRule`."""

    def allow(self, session: VerifiedSession, accepted: frozenset[int]) -> None:
        """Raises SetTooClose."""
        found = nearest(accepted, self._earlier)
        if session.helper_sigma == 0 and found is not None and found < self._least:
            raise SetTooClose(found, self._least)

    def remember(self, session: VerifiedSession, accepted: frozenset[int]) -> None:
        """See `AggregatorRule`."""
        if session.helper_sigma == 0 and accepted not in self._earlier:
            self._earlier.append(accepted)


class QueriesOnce:
    """A session once, and a query of the federation in one sum only.

    ids: of the queries of each session, as this aggregator knows them, by the hash of the query set: it checks itself
    that they are rows of the pool (`protocol.rows.pool`).
    """

    def __init__(self, ids: dict[str, frozenset[str]], answered: Iterable[str] = (), sids: Iterable[str] = ()) -> None:
        self._ids, self._answered, self._sids = ids, set(answered), set(sids)

    @property
    def state(self) -> dict[str, list[str]]:
        """What is remembered, as JSON takes it."""
        return {"answered": sorted(self._answered), "sids": sorted(self._sids)}

    def admit(self, session: VerifiedSession) -> None:
        """Raises Replay for a session that is known or queries that are not, AlreadyAnswered."""
        if session.sid in self._sids:
            raise Replay(f"session {session.sid} has given its sum")
        if session.query_set not in self._ids:
            raise Replay(f"this aggregator does not know the query set {session.query_set[:12]}")
        asked = self._ids[session.query_set]
        if asked & self._answered:
            raise AlreadyAnswered(len(asked & self._answered), len(asked))

    def allow(self, session: VerifiedSession, accepted: frozenset[int]) -> None:
        """As `admit`: another session may have asked the same in between."""
        self.admit(session)

    def remember(self, session: VerifiedSession, accepted: frozenset[int]) -> None:
        """See `AggregatorRule`."""
        self._sids.add(session.sid)
        self._answered |= self._ids[session.query_set]
