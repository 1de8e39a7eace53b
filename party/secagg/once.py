"""What a party helps to unmask: a noisy sum on a query once, and exact sums with its own block of parties alone.

Queries are checked early, so that a refusal comes before work, and again in the transaction that records them: the one
in which the shares are given that unmask the sum. Before that nothing is used up. Unmasking needs the shares of t
parties; two groups of t have an honest party in common (2t > n + c), and that one refuses the second time.

The block is recorded with the masked votes, before anybody can have them in a sum: t others unmask a sum of which this
party signs nothing any more. An exact sum uses no query up: it tells no more the second time, whoever is in it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from consilium.party.promise import Promise
from consilium.party.secagg.memory import Memory, matrix
from consilium.party.secagg.store import SESSIONS, SessionStore, Transaction
from consilium.protocol.rows.queries import query_ids
from consilium.protocol.secagg.blocks import check_kept
from consilium.protocol.secagg.errors import AlreadyAnswered, BrokenBlock, Replay
from consilium.protocol.secagg.roster import Blocked
from consilium.protocol.secagg.session import SessionDescriptor


def phases_of(terms: SessionDescriptor) -> int:
    """The bit of the phase in which a query is used up; none for an exact sum."""
    return 1 << (terms.phase - 1) if terms.sigma > 0 else 0


def check_query_set(tx: Transaction, terms: SessionDescriptor) -> None:
    """Raise AlreadyAnswered if this very set was answered; all that can be told before the queries are here."""
    if tx.query_set_released(terms.query_set, phases_of(terms)):
        raise AlreadyAnswered(terms.queries, terms.queries)


def ids_of(queries: np.ndarray) -> np.ndarray:
    """Ids of canonical queries, uint8 (queries, 32). Raises Replay if one stands twice: it would be answered twice."""
    ids = query_ids(queries)
    if len(set(ids)) < len(ids):
        raise Replay("a query stands twice in the set")
    return np.frombuffer(bytes.fromhex("".join(ids)), dtype=np.uint8).reshape(len(ids), -1)


def check_unanswered(tx: Transaction, terms: SessionDescriptor, ids: np.ndarray) -> None:
    """Raise AlreadyAnswered if any of the queries was answered, in whatever set, session or federation."""
    answered = tx.released(ids, phases_of(terms))
    if answered:
        raise AlreadyAnswered(answered, len(ids))


def check_block(tx: Transaction, roster: Blocked, place: int) -> None:
    """Raise BrokenBlock unless the party at this place, which is this one, may give to exact sums of the roster."""
    if tx.gave_before_blocks():
        raise BrokenBlock("this party gave to exact sums of version 0.9, which were no sums of blocks")
    check_kept(roster.block_keys(place), tx.block())


def check_exact(state: Path, promise: Promise, roster: Blocked, place: int) -> None:
    """Raise BrokenBlock if a release of this promise is of exact sums, to which this party may not give."""
    if all(release.noise(1) is not None for release in promise.each):
        return
    store = SessionStore(state / SESSIONS)
    if not store.path.exists():
        return check_kept(roster.block_keys(place), frozenset())
    with store.transaction() as tx:
        check_block(tx, roster, place)


def keep_block(tx: Transaction, roster: Blocked, place: int) -> None:
    """The same, and record the block: votes for an exact sum leave with this transaction."""
    check_block(tx, roster, place)
    tx.keep_block(roster.block_keys(place))


def use_up(tx: Transaction, terms: SessionDescriptor, memory: Memory) -> None:
    """Check once more, and record: shares that unmask the session's sum leave with this transaction.

    Raises
    ------
    AlreadyAnswered : another session was unmasked meanwhile.
    """
    ids = matrix(memory, "queries")
    check_unanswered(tx, terms, ids)
    if terms.sigma > 0:
        tx.release(ids, phases_of(terms))
