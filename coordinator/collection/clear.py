"""Collection of clear votes: each answer is checked, added and dropped as it comes; a bad one leaves its party out by
name. What is held is the sum, however many parties there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np

from consilium.coordinator.collection.admission import Member, tell_left_out
from consilium.coordinator.collection.exchange import Failure, Transport, stream
from consilium.coordinator.collection.members import require
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.run_log import EventLog
from consilium.protocol.labels.service import Progress, no_progress
from consilium.protocol.parties.choices import add_choices, fault
from consilium.protocol.parties.messages import LedgerPosition, VoteReply, VoteRequest
from consilium.protocol.rows.pool import HASH_BYTES, PoolTree
from consilium.protocol.rows.queries import query_ids

WIDEST = 8
"""Bytes of a number of any type: of a mistaken type a reply is still named; what has more bytes is not looked into."""

Keep = Callable[[Member, np.ndarray], None]
"""Gets a counted party and its choices, as they come. Only simulations have one: it is where exact votes leave this
module."""
VotesSink = AbstractContextManager[Keep]
"""Keeps nothing where the context ends with an error."""


@dataclass(frozen=True)
class Histogram:
    """The sum of all votes: `votes` int64 (queries, classes); each row sums to `teachers`, all parties' teachers, each
    counted by its party's weight.

    clipped: bool (queries,), rows that a party, or an aggregator, has falsified, and that were made to fit: they may
        sum to anything; None where there can be none.
    """

    votes: np.ndarray = field(repr=False)
    parties: tuple[str, ...]
    teachers: int
    clipped: np.ndarray | None = field(default=None, repr=False)


def seen(votes: np.ndarray, clipped: np.ndarray, teachers: int) -> np.ndarray:
    """Votes int64 (queries, classes) as the ledger keeps them: unanimous ones stand for rows that were made to fit."""
    unanimous = np.zeros(votes.shape[1], dtype=np.int64)
    unanimous[0] = teachers
    return np.where(clipped[:, None], unanimous, votes)


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
        sink_for: Callable[[np.ndarray, str, int], VotesSink] | None = None,
        release: int = 1,
    ) -> None:
        self._transport, self._config, self._members, self._log = transport, config, members, log
        self._standing, self._sink_for, self._release = standing, sink_for, release

    def __call__(
        self, queries: np.ndarray, query_set: str, progress: Progress = no_progress, phase: int = 1
    ) -> Histogram:
        """See `collect`; clear votes have one phase."""
        sink = None if self._sink_for is None else self._sink_for(queries, query_set, len(self._config.rows.classes))
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
    queries = request.queries
    log.write("stage", stage="vote", total=len(members), queries=len(queries))
    by_node = {member.node: member for member in members}

    def told(done: int, total: int) -> None:
        log.write("progress", stage="vote", done=done, total=total)
        progress("vote", done, total)

    counted: list[str] = []
    failures: dict[str, Failure] = {}
    teachers = 0
    total = np.zeros((len(queries), len(config.rows.classes)), dtype=np.int64)
    with nullcontext(_forget) if sink is None else sink as keep:
        for node, reply in _answers(transport, config, by_node, request, told):
            member = by_node[node]
            if isinstance(reply, Failure):
                failures[member.party] = reply
                continue
            add_choices(total, reply.choices, member.weight)
            keep(member, reply.choices)
            counted.append(member.party)
            teachers += member.votes
        tell_left_out(log, "vote", failures)
        require(len(counted), config.minimum_parties, "vote", failures)
    return Histogram(total, tuple(sorted(counted)), teachers)


def _answers(
    transport: Transport,
    config: FederationConfig,
    by_node: Mapping[int, Member],
    request: VoteRequest,
    told: Callable[[int, int], None],
) -> Iterator[tuple[int, VoteReply | Failure]]:
    """Each member's votes that can be counted, or why they cannot, as they come."""
    queries, classes = len(request.queries), len(config.rows.classes)
    most_bytes = queries * config.teachers_per_party * WIDEST
    asked = dict.fromkeys(by_node, request)
    for node, reply in stream(transport, asked, VoteReply, config.timeouts.vote, told, most_bytes):
        if isinstance(reply, Failure):
            yield node, reply
            continue
        member = by_node[node]
        wrong = fault(reply.choices, queries, classes, member.teachers)
        if reply.party != member.party or reply.query_set != request.query_set:
            wrong = "answers for another party or another query set"
        yield node, reply if wrong is None else Failure(wrong)


def _forget(member: Member, choices: np.ndarray) -> None:
    """Outside simulations nothing of a single party is kept."""
