"""Collection of clear votes: every matrix is checked before it is counted; a bad one leaves its party out by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from consilium.coordinator.collection.admission import Member, tell_left_out
from consilium.coordinator.collection.exchange import Failure, Transport, exchange
from consilium.coordinator.collection.members import require
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.run_log import EventLog
from consilium.protocol.labels.service import Progress, no_progress
from consilium.protocol.parties.messages import VOTE_DTYPE, LedgerPosition, VoteReply, VoteRequest
from consilium.protocol.rows.pool import HASH_BYTES, PoolTree
from consilium.protocol.rows.queries import query_ids

VotesSink = Callable[[dict[str, np.ndarray]], None]
"""Gets every counted party's matrix by name. Only simulations have one: it is where exact votes leave this module."""


@dataclass(frozen=True)
class Histogram:
    """The sum of all votes: `votes` int64 (queries, classes); each row sums to `teachers`, all parties' teachers, each
    counted by its party's weight.

    clipped: bool (queries,), rows that some party has voted falsely in, and that were made to fit: they may sum to
        anything; None where there can be none.
    """

    votes: np.ndarray = field(repr=False)
    parties: tuple[str, ...]
    teachers: int
    clipped: np.ndarray | None = field(default=None, repr=False)


def fault(votes: np.ndarray, queries: int, classes: int, ballots: int) -> str | None:
    """What is wrong with one party's matrix, in words without its numbers, or None. ballots: votes on each query.

    uint16 is the only type that is taken: a narrower one could have wrapped around, a signed or float one can hold
    what no vote can be (negative, NaN).
    """
    if votes.dtype != VOTE_DTYPE:
        return f"votes are {votes.dtype}, must be {VOTE_DTYPE.name}"
    if votes.shape != (queries, classes):
        return f"votes have shape {votes.shape[:3]}, must be {(queries, classes)}"
    if (votes.astype(np.int64).sum(axis=1) != ballots).any():
        return f"votes of a query do not sum to its number of teachers, times its weight ({ballots})"
    return None


@dataclass(frozen=True)
class Standing:
    """What goes with every request for votes: where the ledger stands, and the pool that its queries are proved to be
    of, if there is one."""

    position: Callable[[], LedgerPosition]
    pool: PoolTree | None = None

    def proof(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places and proof of canonical queries, see `PoolTree.prove`; both empty where there is no pool."""
        if self.pool is None:
            return np.zeros(0, dtype=np.uint32), np.zeros((0, HASH_BYTES), dtype=np.uint8)
        return self.pool.prove(query_ids(queries))


class ClearCollector:
    """The `Collector` of clear votes. `sink_for` makes, for simulations, what keeps each party's votes.

    release: number of the promised release that all its queries are for.
    """

    def __init__(
        self,
        transport: Transport,
        config: FederationConfig,
        members: list[Member],
        standing: Standing,
        log: EventLog,
        sink_for: Callable[[np.ndarray, str], VotesSink] | None = None,
        release: int = 1,
    ) -> None:
        self._transport, self._config, self._members, self._log = transport, config, members, log
        self._standing, self._sink_for, self._release = standing, sink_for, release

    def __call__(
        self, queries: np.ndarray, query_set: str, progress: Progress = no_progress, phase: int = 1
    ) -> Histogram:
        """See `collect`; clear votes have one phase."""
        sink = None if self._sink_for is None else self._sink_for(queries, query_set)
        places, proof = self._standing.proof(queries)
        request = VoteRequest(
            federation=self._config.digest(),
            query_set=query_set,
            **self._standing.position().model_dump(),
            queries=queries,
            places=places,
            proof=proof,
            release=self._release,
        )
        return collect(self._transport, self._config, self._members, request, self._log, sink, progress)

    def settle(self) -> None:
        """Nothing is kept between collection and ledger."""


def collect(
    transport: Transport,
    config: FederationConfig,
    members: list[Member],
    request: VoteRequest,
    log: EventLog,
    sink: VotesSink | None = None,
    progress: Progress = no_progress,
) -> Histogram:
    """Ask `query.vote` of every member and add up the valid answers. Raises NotEnoughParties."""
    queries, query_set = request.queries, request.query_set
    log.write("stage", stage="vote", total=len(members), queries=len(queries))
    by_node = {member.node: member for member in members}

    def told(done: int, total: int) -> None:
        log.write("progress", stage="vote", done=done, total=total)
        progress("vote", done, total)

    replies = exchange(
        transport,
        dict.fromkeys(by_node, request),
        VoteReply,
        config.timeouts.vote,
        told,
    )
    failures = {by_node[node].party: failure for node, failure in replies.failures.items()}
    shape = (len(queries), len(config.rows.classes))
    counted: dict[str, np.ndarray] = {}
    teachers = 0
    for node, reply in replies.answers.items():
        member = by_node[node]
        wrong = fault(reply.votes, *shape, member.votes)
        if reply.party != member.party or reply.query_set != query_set:
            wrong = "answers for another party or another query set"
        if wrong is not None:
            failures[member.party] = Failure(wrong)
        else:
            counted[member.party] = reply.votes
            teachers += member.votes
    tell_left_out(log, "vote", failures)
    require(len(counted), config.minimum_parties, "vote", failures)
    if sink is not None:
        sink(counted)
    total = np.zeros(shape, dtype=np.int64)
    for votes in counted.values():
        total += votes
    return Histogram(total, tuple(sorted(counted)), teachers)
