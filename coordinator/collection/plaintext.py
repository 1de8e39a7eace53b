"""Votes in plaintext: each answer is checked, added and dropped as it comes; a bad one leaves its party out by name.
What is held is the sum, however many parties there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np

from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.exchange import Failure, Member, Steps, Transport, require, stream, tell_left_out
from consilium.coordinator.collection.kept_votes import VotesSink, keeping
from consilium.coordinator.collection.means import Collecting, Standing
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.protocol.choices import add_choices, fault
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.messages import VoteReply, VoteRequest

WIDEST = 8
"""Bytes of a number of any type: of a mistaken type a reply is still named; what has more bytes is not looked into."""


@dataclass(frozen=True)
class PlaintextVotes:
    """See `VoteKeys`; plaintext votes need no keys."""

    least_sum: int = 0

    def check(self, config: FederationConfig) -> None:
        """See `VoteKeys`."""
        if config.collection != "plaintext":
            raise ConfigError(f"{config.collection} votes need a roster and the coordinator's key", "Name their files")

    def check_reachable(self, means: Collecting) -> None:
        """See `VoteKeys`: parties are all that is needed."""

    def collector(self, means: Collecting) -> OverFlower:
        """See `VoteKeys`."""
        sink = partial(keeping, means.run_dir / "private") if means.config.record_votes else None
        return OverFlower(means.transport, means.config, means.members, means.standing, means.log, sink)


PLAINTEXT = PlaintextVotes()


class OverFlower:
    """The `Collector` of plaintext votes. `sink_for` makes, for simulations, what keeps each party's votes."""

    def __init__(
        self,
        transport: Transport,
        config: FederationConfig,
        members: list[Member],
        standing: Standing,
        log: EventLog,
        sink_for: Callable[[Queries, int], VotesSink] | None = None,
    ) -> None:
        self._transport, self._config, self._members, self._log = transport, config, members, log
        self._standing, self._sink_for = standing, sink_for

    def collect(self, queries: Queries, sigma: float, progress: Progress = no_progress) -> Counts:
        """Ask `query.vote` of every member and add up the valid answers. Raises NotEnoughParties."""
        config, log, members = self._config, self._log, list(self._members)
        classes = len(config.rows.classes)
        request = vote_request(config, queries, self._standing)
        self._standing.voting(queries.rows, [member.party for member in members])
        steps = Steps(log, "vote", len(members), progress, queries=len(queries.rows))
        by_node = {member.node: member for member in members}
        counted: list[Member] = []
        failures: dict[str, Failure] = {}
        total = np.zeros((len(queries.rows), classes), dtype=np.int64)
        with nullcontext() if self._sink_for is None else self._sink_for(queries, classes) as keep:
            for node, reply in self._answers(by_node, request, steps):
                member = by_node[node]
                if isinstance(reply, Failure):
                    failures[member.party] = reply
                    continue
                add_choices(total, reply.choices)
                if keep is not None:
                    keep(member, reply.choices)
                counted.append(member)
            tell_left_out(log, "vote", failures)
            require(len(counted), config.minimum_parties, "vote", failures)
        return counts_of(total, counted)

    def _answers(
        self, by_node: Mapping[int, Member], request: VoteRequest, steps: Steps
    ) -> Iterator[tuple[int, VoteReply | Failure]]:
        """Each member's votes that can be counted, or why they cannot, as they come."""
        config = self._config
        most_bytes = len(request.queries) * config.teachers_per_party * WIDEST
        requests = dict.fromkeys(by_node, request)
        for node, reply in stream(self._transport, requests, VoteReply, config.timeouts.vote, steps, most_bytes):
            wrong = None
            if not isinstance(reply, Failure):
                wrong = why_not_counted(reply, request, by_node[node], len(config.rows.classes))
            yield node, reply if wrong is None else Failure(wrong)

    def settle(self) -> None:
        """Nothing is kept between collection and ledger."""


def vote_request(config: FederationConfig, queries: Queries, standing: Standing) -> VoteRequest:
    """What every party is asked."""
    places, proof = standing.proof(queries.rows)
    return VoteRequest(
        federation=config.digest(),
        query_set=queries.hash,
        **standing.position().model_dump(),
        queries=queries.rows,
        places=places,
        proof=proof,
        start=standing.start,
    )


def why_not_counted(reply: VoteReply, request: VoteRequest, member: Member, classes: int) -> str | None:
    """What is wrong with a party's answer; None where its votes count."""
    if reply.party != member.party or reply.query_set != request.query_set:
        return "answers for another party or another query set"
    return fault(reply.choices, len(request.queries), classes, member.teachers)


def counts_of(total: np.ndarray, counted: list[Member]) -> Counts:
    """Exact sums int64 (queries, classes) of these parties' votes."""
    return Counts(total, tuple(sorted(member.party for member in counted)), sum(member.teachers for member in counted))
