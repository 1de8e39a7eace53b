"""Collection of plaintext votes: each answer is checked, added and dropped as it comes; a bad one leaves its party out
by name. What is held is the sum, however many parties there are.

Exact votes of a simulation are kept: a file for each query set, written as parties answer, some hundreds at a time, and
read so. It is an .npz: `query_ids`, `classes`, `parties` in the order in which they answered, and
`choices/00000` and so on, in the form of `protocol.choices`, uint (parties, queries, teachers), of 256 parties each."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from consilium.coordinator.collection.admission import Greeting
from consilium.coordinator.collection.exchange import Failure, Member, Steps, Transport, require, stream, tell_left_out
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.protocol.choices import add_choices, counted, fault
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.files import private_folder, replacing
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.messages import LedgerPosition, VoteReply, VoteRequest
from consilium.protocol.pool import HASH_BYTES, PoolTree
from consilium.protocol.queries import query_ids

WIDEST = 8
"""Bytes of a number of any type: of a mistaken type a reply is still named; what has more bytes is not looked into."""

Keep = Callable[[Member, np.ndarray], None]
"""Gets a counted party and its choices, as they come. Only simulations have one: it is where exact votes leave this
module."""
VotesSink = AbstractContextManager[Keep]
"""Keeps nothing where the context ends with an error."""


@dataclass(frozen=True)
class Counts:
    """The sum of all votes: `votes` int64 (queries, classes); each row sums to `teachers`, all parties' teachers.

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
    of, if there is one. start: see `VoteRequest`. voting: is told of canonical queries and names before these parties
    are asked for votes on them."""

    position: Callable[[], LedgerPosition]
    pool: PoolTree | None = None
    start: str = ""
    voting: Callable[[np.ndarray, Sequence[str]], object] = lambda queries, parties: None

    def proof(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places and proof of canonical queries, see `PoolTree.prove`; both empty where there is no pool."""
        if self.pool is None:
            return np.zeros(0, dtype=np.uint32), np.zeros((0, HASH_BYTES), dtype=np.uint8)
        return self.pool.prove(query_ids(queries))


class Collector(Protocol):
    """Takes canonical queries (n, features), their hash and a progress callback; returns the sum of the parties' votes.

    Where the noise is in the sums, it is that of the mechanism's round, from 1. `settle` says that what was collected
    is in the ledger.
    """

    def __call__(self, queries: np.ndarray, query_set: str, progress: Progress, round_: int = 1, /) -> Counts: ...

    def settle(self) -> None: ...


@dataclass(frozen=True)
class Collecting:
    """What collectors are made from. members: those that serve; others may be added to the list."""

    transport: Transport
    config: FederationConfig
    members: list[Member]
    run_dir: Path
    standing: Standing
    greeting: Greeting
    log: EventLog

    @property
    def sessions(self) -> Path:
        """Folder of the run in which open sessions are kept."""
        return self.run_dir / "sessions"


class VoteKeys(Protocol):
    """A way to collect votes, with what it needs: a roster and the coordinator's keys, for all but plaintext ones."""

    @property
    def least_sum(self) -> int:
        """Parties that must be in a sum; 0 where any will do."""
        ...

    def check(self, config: FederationConfig) -> None:
        """Raise ConfigError or SecAggError unless they are those of the federation."""
        ...

    def check_reachable(self, means: Collecting) -> None:
        """Raise AggregatorAway or AggregatorRefuses where votes could not be collected, before anybody trains."""
        ...

    def collector(self, means: Collecting) -> Collector:
        """What collects votes."""
        ...


@dataclass(frozen=True)
class ClearVotes:
    """See `VoteKeys`; plaintext votes need no keys."""

    least_sum: int = 0

    def check(self, config: FederationConfig) -> None:
        """See `VoteKeys`."""
        if config.collection != "plaintext":
            raise ConfigError(f"{config.collection} votes need a roster and the coordinator's key", "Name their files")

    def check_reachable(self, means: Collecting) -> None:
        """See `VoteKeys`: parties are all that is needed."""

    def collector(self, means: Collecting) -> Collector:
        """See `VoteKeys`."""
        sinks: Any = partial(keeping, means.run_dir / "private") if means.config.record_votes else None
        return ClearCollector(means.transport, means.config, means.members, means.standing, means.log, sinks)


CLEAR = ClearVotes()


class ClearCollector:
    """The `Collector` of plaintext votes. `sink_for` makes, for simulations, what keeps each party's votes."""

    def __init__(
        self,
        transport: Transport,
        config: FederationConfig,
        members: list[Member],
        standing: Standing,
        log: EventLog,
        sink_for: Callable[[np.ndarray, str, int], VotesSink] | None = None,
    ) -> None:
        self._transport, self._config, self._members, self._log = transport, config, members, log
        self._standing, self._sink_for = standing, sink_for

    def __call__(self, queries: np.ndarray, query_set: str, progress: Progress = no_progress, phase: int = 1) -> Counts:
        """See `collect`; plaintext votes have one phase."""
        sink = None if self._sink_for is None else self._sink_for(queries, query_set, len(self._config.rows.classes))
        places, proof = self._standing.proof(queries)
        request = VoteRequest(
            federation=self._config.digest(),
            query_set=query_set,
            **self._standing.position().model_dump(),
            queries=queries,
            places=places,
            proof=proof,
            start=self._standing.start,
        )
        self._standing.voting(queries, [member.party for member in self._members])
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
) -> Counts:
    """Ask `query.vote` of every member and add up the valid answers. Raises NotEnoughParties."""
    queries = request.queries
    steps = Steps(log, "vote", len(members), progress, queries=len(queries))
    by_node = {member.node: member for member in members}
    counted: list[str] = []
    failures: dict[str, Failure] = {}
    teachers = 0
    total = np.zeros((len(queries), len(config.rows.classes)), dtype=np.int64)
    with nullcontext(_forget) if sink is None else sink as keep:
        for node, reply in _answers(transport, config, by_node, request, steps):
            member = by_node[node]
            if isinstance(reply, Failure):
                failures[member.party] = reply
                continue
            add_choices(total, reply.choices)
            keep(member, reply.choices)
            counted.append(member.party)
            teachers += member.teachers
        tell_left_out(log, "vote", failures)
        require(len(counted), config.minimum_parties, "vote", failures)
    return Counts(total, tuple(sorted(counted)), teachers)


def _answers(
    transport: Transport,
    config: FederationConfig,
    by_node: Mapping[int, Member],
    request: VoteRequest,
    steps: Callable[[int, int], None],
) -> Iterator[tuple[int, VoteReply | Failure]]:
    """Each member's votes that can be counted, or why they cannot, as they come."""
    queries, classes = len(request.queries), len(config.rows.classes)
    most_bytes = queries * config.teachers_per_party * WIDEST
    requests = dict.fromkeys(by_node, request)
    for node, reply in stream(transport, requests, VoteReply, config.timeouts.vote, steps, most_bytes):
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


PATTERN = "votes-*.npz"
PREFIX = "choices/"
AT_ONCE = 256
"""Parties whose votes are in one array of the file, and in memory together."""
UNUSABLE = (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, MemoryError, NotImplementedError, TypeError)
"""What numpy raises for a file that is damaged."""


@contextmanager
def keeping(folder: Path, queries: np.ndarray, query_set: str, classes: int) -> Iterator[Keep]:
    """A new file in `folder`, there as a whole once the context has ended without an error."""
    parties: list[str] = []
    waiting: list[np.ndarray] = []
    path = private_folder(folder) / f"votes-{query_set[:12]}.npz"
    with replacing(path, 0o600) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:

        def put(name: str, array: np.ndarray) -> None:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)

        def put_choices() -> None:
            if waiting:
                put(f"{PREFIX}{(len(parties) - 1) // AT_ONCE:05d}", np.stack(waiting))
                waiting.clear()

        def keep(member: Member, choices: np.ndarray) -> None:
            parties.append(member.party)
            waiting.append(choices)
            if len(waiting) == AT_ONCE:
                put_choices()

        yield keep
        put_choices()
        put("query_ids", np.array(query_ids(queries)))
        put("classes", np.array(classes))
        put("parties", np.array(parties))


@dataclass(frozen=True)
class KeptVotes:
    """One file that is open. classes: their number. parties: in order of the names."""

    query_ids: list[str]
    classes: int
    parties: list[str]
    _content: np.lib.npyio.NpzFile = field(repr=False)
    _places: Mapping[str, int] = field(repr=False)
    """Of the parties, in the order in which they answered."""
    _last: dict[int, np.ndarray] = field(default_factory=dict, repr=False)

    def choices(self, party: str) -> np.ndarray:
        """What a party said, see `protocol.choices`. Raises DataError."""
        choices = self._choices(party)
        teachers = choices.shape[1] if choices.ndim == 2 else 0
        if wrong := fault(choices, len(self.query_ids), self.classes, teachers):
            raise DataError(f"kept votes of {party}: {wrong}")
        return choices

    def _choices(self, party: str) -> np.ndarray:
        number, place = divmod(self._places[party], AT_ONCE)
        if number not in self._last:
            self._last.clear()
            self._last[number] = self._content[f"{PREFIX}{number:05d}"]
        if not 0 <= place < len(self._last[number]):
            raise DataError(f"kept votes of {party} are missing")
        return self._last[number][place]

    def votes(self, party: str) -> np.ndarray:
        """The same as counts, int64 (queries, classes)."""
        return counted(self.choices(party), self.classes)

    def total(self) -> np.ndarray:
        """Of all parties, int64 (queries, classes). Few parties' votes are in memory at a time."""
        total = np.zeros((len(self.query_ids), self.classes), dtype=np.int64)
        for party in self._places:
            add_choices(total, self.choices(party))
        return total


@contextmanager
def kept_votes(path: Path) -> Iterator[KeptVotes]:
    """A file of `keeping`, open.

    Raises
    ------
    One of `UNUSABLE` : it is damaged; also while it is read from.
    """
    with np.load(path, allow_pickle=False) as content:
        parties = content["parties"].tolist()
        classes, ids = int(content["classes"]), content["query_ids"].tolist()
        places = {party: place for place, party in enumerate(parties)}
        yield KeptVotes(ids, classes, sorted(parties), content, places)
