"""Votes in plaintext: each answer is checked, added and dropped as it comes; a bad one leaves its party out by name.
What is held is the sum, however many parties there are."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.exchange import Failure, Member, Steps, Transport, require, stream, tell_left_out
from consilium.coordinator.collection.means import Collecting, Standing
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.protocol.choices import add_choices, counted, fault
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import private_folder, replacing
from consilium.protocol.messages import VoteReply, VoteRequest
from consilium.sums.modes import MODES

WIDEST = 8
"""Bytes of a number of any type: of a mistaken type a reply is still named; what has more bytes is not looked into."""


@dataclass(frozen=True)
class PlaintextVotes:
    """See `VoteKeys`; plaintext votes need no keys."""

    least_sum: int = 0

    def check(self, config: FederationConfig) -> None:
        if config.collection in MODES:
            raise ConfigError(f"{config.collection} votes need a roster and the coordinator's key", "Name their files")

    def check_reachable(self, means: Collecting) -> None:
        """Parties are all that is needed."""

    def collector(self, means: Collecting) -> OverFlower:
        folder = means.run_dir / "private" if means.config.record_votes else None
        return OverFlower(means.transport, means.config, means.members, means.standing, means.log, folder)


PLAINTEXT = PlaintextVotes()


class OverFlower:
    """The `Collector` of plaintext votes. keep_in: of simulations that keep each party's votes, their folder."""

    def __init__(
        self,
        transport: Transport,
        config: FederationConfig,
        members: list[Member],
        standing: Standing,
        log: EventLog,
        keep_in: Path | None = None,
    ) -> None:
        self._transport, self._config, self._members, self._log = transport, config, members, log
        self._standing, self._keep_in = standing, keep_in

    def collect(self, queries: Queries, sigma: float) -> Counts:
        """Ask `query.vote` of every member and add up the valid answers; whoever sends others, or none, is left out by
        name. Raises NotEnoughParties."""
        config, log, by_node = self._config, self._log, {member.node: member for member in self._members}
        request, classes = vote_request(config, queries, self._standing), len(config.rows.classes)
        self._standing.voting(queries.rows, [member.party for member in by_node.values()])
        steps, most = Steps(log, "vote", len(by_node)), len(queries.rows) * config.teachers_per_party * WIDEST
        requests, total = dict.fromkeys(by_node, request), np.zeros((len(queries.rows), classes), dtype=np.int64)
        counted, failures, kept = list[Member](), dict[str, Failure](), dict[str, np.ndarray]()
        for node, reply in stream(self._transport, requests, VoteReply, config.timeouts.vote, steps, most):
            member = by_node[node]
            wrong = reply if isinstance(reply, Failure) else _fault(reply, request, member, classes)
            if wrong is not None:
                failures[member.party] = wrong
            elif isinstance(reply, VoteReply):
                add_choices(total, reply.choices)
                counted.append(member)
                if self._keep_in:
                    kept[member.party] = reply.choices
        tell_left_out(log, "vote", failures)
        require(len(counted), config.minimum_parties, "vote", failures)
        if self._keep_in:
            keep_votes(self._keep_in, queries, classes, kept)
        parties = tuple(sorted(member.party for member in counted))
        return Counts(total, parties, sum(member.teachers for member in counted))

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


def _fault(reply: VoteReply, request: VoteRequest, member: Member, classes: int) -> Failure | None:
    if reply.party != member.party or reply.query_set != request.query_set:
        return Failure("answers for another party or another query set")
    wrong = fault(reply.choices, len(request.queries), classes, member.teachers)
    return None if wrong is None else Failure(wrong)


PATTERN = "votes-*.npz"
UNUSABLE = (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, MemoryError, NotImplementedError, TypeError)
"""What is raised for a file that is damaged."""


def keep_votes(folder: Path, queries: Queries, classes: int, choices: Mapping[str, np.ndarray]) -> None:
    """Write what the counted parties of a simulation chose, by name: an .npz for each query set, with `query_ids`,
    `classes`, `parties` in the order in which they answered, and `choices`, uint (parties, queries, teachers)."""
    path = private_folder(folder) / f"votes-{queries.hash[:12]}.npz"
    with replacing(path, 0o600) as file:
        np.savez_compressed(
            file,
            query_ids=np.array(queries.ids),
            classes=np.array(classes),
            parties=np.array(list(choices)),
            choices=np.stack(list(choices.values())),
        )


@dataclass(frozen=True)
class KeptVotes:
    """One file. classes: their number. choices: see `protocol.choices`, by party."""

    query_ids: list[str]
    classes: int
    choices: dict[str, np.ndarray] = field(repr=False)

    @property
    def parties(self) -> list[str]:
        return sorted(self.choices)

    def votes(self, party: str) -> np.ndarray:
        return counted(self.choices[party], self.classes)

    def total(self) -> np.ndarray:
        total = np.zeros((len(self.query_ids), self.classes), dtype=np.int64)
        for choices in self.choices.values():
            add_choices(total, choices)
        return total


@contextmanager
def kept_votes(path: Path) -> Iterator[KeptVotes]:
    """What `keep_votes` wrote. Raises one of `UNUSABLE` where it is damaged, also while it is read from."""
    with np.load(path, allow_pickle=False) as content:
        ids, classes = content["query_ids"].tolist(), int(content["classes"])
        choices = dict(zip(content["parties"].tolist(), content["choices"], strict=True))
    for party, chosen in choices.items():
        if wrong := fault(chosen, len(ids), classes, chosen.shape[-1]):
            raise ValueError(f"kept votes of {party}: {wrong}")
    yield KeptVotes(ids, classes, choices)
