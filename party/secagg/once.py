"""What a party helps to unmask once: a query, and sums whose parties differ by too few.

Both are checked early, so that a refusal comes before work, and again in the transaction that records them: the one in
which the shares are given that unmask the sum. Before that nothing is used up. Unmasking needs the shares of t parties;
two groups of t have an honest party in common (2t > n + c), and that one refuses the second time.
"""

from __future__ import annotations

import numpy as np

from consilium.party.secagg.memory import Memory, matrix
from consilium.party.secagg.store import Transaction
from consilium.protocol.rows.queries import query_ids
from consilium.protocol.secagg.errors import AlreadyAnswered, Replay, SetTooClose
from consilium.protocol.secagg.roster import Roster
from consilium.protocol.secagg.session import SessionDescriptor
from consilium.protocol.secagg.sets import by_weight, nearest


def phases_of(terms: SessionDescriptor) -> int:
    """Bits of the phases in which a query is used up: an exact sum leaves none for it."""
    return 1 << (terms.phase - 1) if terms.sigma > 0 else 0b11


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


def check_set(tx: Transaction, roster: Roster, terms: SessionDescriptor, survivors: np.ndarray) -> None:
    """Raise SetTooClose if an exact sum over these parties would differ too little from one that was unmasked,
    or has too few parties of one weight.

    Remembered by roster and not by federation, whose digest is for the coordinator to choose. Sums with the parties'
    noise are free: what they tell together is charged, whoever is in them.
    """
    if terms.sigma > 0:
        return
    found = nearest(survivors.tolist(), tx.summed(roster.digest), by_weight(roster.weights))
    if found is not None and found < roster.least_difference:
        raise SetTooClose(found, roster.least_difference)


def use_up(tx: Transaction, roster: Roster, terms: SessionDescriptor, memory: Memory) -> None:
    """Check once more, and record: shares that unmask the session's sum leave with this transaction.

    Raises
    ------
    AlreadyAnswered, SetTooClose : another session was unmasked meanwhile.
    """
    ids, survivors = matrix(memory, "queries"), matrix(memory, "survivors")
    check_unanswered(tx, terms, ids)
    check_set(tx, roster, terms, survivors)
    tx.release(ids, phases_of(terms))
    if terms.sigma == 0:
        tx.remember_set(roster.digest, survivors)
