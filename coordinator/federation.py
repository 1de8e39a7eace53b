"""One federation from enrolment to close, on plain objects: transport, configuration, run folder, student."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from consilium.coordinator.collection.admission import (
    SEEN_FILE,
    Admission,
    Greeting,
    KnownNodes,
    Latecomers,
    Member,
    SeenPositions,
    assemble,
    enrol,
    train,
)
from consilium.coordinator.collection.clear import ClearCollector, Histogram, Standing, keeping
from consilium.coordinator.collection.exchange import Transport
from consilium.coordinator.collection.secure import SecureCollector, SecureKeys
from consilium.coordinator.collection.verified import SecondAggregator, VerifiedCollector, VerifiedKeys
from consilium.coordinator.conclusion import Participation, conclude
from consilium.coordinator.config import FederationConfig, check_sanitised, check_threshold
from consilium.coordinator.expectation import expected
from consilium.coordinator.labels.grpc_server import OPEN_DOOR, Door, serving, wait_for_close
from consilium.coordinator.labels.service import Collector, LabelService, NoiseFor
from consilium.coordinator.ledger.store import Ledger
from consilium.coordinator.rosters import least_together
from consilium.coordinator.run_log import EventLog
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError, ServiceError
from consilium.protocol.labels.service import Progress
from consilium.protocol.noise import SeededNoise, SystemNoise
from consilium.protocol.parties.messages import LedgerPosition, VotesMode
from consilium.protocol.rows.pool import PoolTree
from consilium.protocol.warnings import before_run

SESSIONS = "sessions"
"""Folder of a run in which open sessions are kept."""


class VoteKeys(Protocol):
    """What all but clear votes need: a roster and the coordinator's keys."""

    def check(self, config: FederationConfig) -> None:
        """Raise ConfigError or SecAggError unless they are those of the federation."""
        ...

    def weights(self) -> dict[str, int]:
        """How often the answers of each party count, by name."""
        ...

    @property
    def least_sum(self) -> int:
        """Parties that must be in a sum."""
        ...


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
    keys: VoteKeys | None

    def second(self) -> SecondAggregator:
        """The second aggregator of verified votes."""
        roster = cast(VerifiedKeys, self.keys).roster
        nodes = self.members

        def members() -> list[int]:
            return [member.node for member in nodes]

        return SecondAggregator(self.transport, self.config, roster, self.greeting, members, self.log)

    def collector(self, number: int | None) -> Collector:
        """Of the federation's phase with this number, from 1; None where there is no schedule."""
        return MAKERS[self.config.votes](self, number)


def _clear(given: Collecting, number: int | None) -> Collector:
    sinks: Any = partial(keeping, given.run_dir / "private") if given.config.record_votes else None
    return ClearCollector(given.transport, given.config, given.members, given.standing, given.log, sinks, number or 1)


def _secure(given: Collecting, number: int | None) -> Collector:
    keys, folder = cast(SecureKeys, given.keys), given.run_dir / SESSIONS
    return SecureCollector(
        given.transport, given.config, given.members, keys, folder, given.standing, given.log, number
    )


def _verified(given: Collecting, number: int | None) -> Collector:
    keys, folder = cast(VerifiedKeys, given.keys), given.run_dir / SESSIONS
    return VerifiedCollector(
        given.transport, given.config, given.members, keys, given.second(), folder, given.standing, given.log, number
    )


MAKERS: Mapping[VotesMode, Callable[[Collecting, int | None], Collector]] = {
    "clear": _clear,
    "secure": _secure,
    "distributed": _secure,
    "verified": _verified,
}


def _nobody_else(given: Collecting) -> None:
    """Parties are all that is needed."""


def _second_is_there(given: Collecting) -> None:
    given.second().find()


NEEDED: Mapping[VotesMode, Callable[[Collecting], None]] = {
    "clear": _nobody_else,
    "secure": _nobody_else,
    "distributed": _nobody_else,
    "verified": _second_is_there,
}
"""Raises AggregatorAway or AggregatorRefuses where votes could not be collected, before anybody trains."""


@dataclass(frozen=True)
class Student:
    """A student that runs inside the coordinator's process.

    run: asks, trains and finishes before it returns. It is called with one `LabelSource` for each phase of the
    federation, in order: with one where there is no schedule. asks_typical: see `Expected`.
    """

    run: Callable[..., None]
    asks_typical: bool | None


def run_federation(
    transport: Transport,
    config: FederationConfig,
    run_dir: Path,
    log: EventLog,
    student: Student | None = None,
    keys: VoteKeys | None = None,
    door: Door = OPEN_DOOR,
    pool: PoolTree | None = None,
    nodes: KnownNodes | None = None,
    spent_before: Collection[str] = (),
) -> None:
    """Enrol, train, answer the student, close. Without `student`, one is awaited on the socket `config.service`, at
    `door`.

    nodes: of a deployment, the parties that may connect, who are then waited for, and let in late. spent_before: ids of
    queries that these parties answered in an earlier federation, and do not answer again.

    Writes into `run_dir`: ledger.db, coordinator.json and, in simulations that ask for it, private/votes-*.npz.
    All but clear votes need `keys`, a federation whose queries were fixed beforehand its `pool`.

    Raises
    ------
    ConsiliumError : typed; nothing is released that is not in the ledger.
    """
    if config.votes != "clear":
        if keys is None:
            raise ConfigError(f"{config.votes} votes need a roster and the coordinator's key", "Name their files")
        keys.check(config)
    if config.pool is not None and (pool is None or pool.terms(config.pool.least_distance) != config.pool):
        raise ConfigError("the federation's queries are fixed to a pool, and this is not its file", "Name its pool.npy")
    ledger = Ledger(run_dir / "ledger.db", config.digest(), config.model_dump_json(exclude={"noise_seed"}))
    try:
        _run(transport, config, run_dir, ledger, log, student, keys, door, pool, nodes, spent_before)
    finally:
        ledger.close()


def _run(
    transport: Transport,
    config: FederationConfig,
    run_dir: Path,
    ledger: Ledger,
    log: EventLog,
    student: Student | None,
    keys: VoteKeys | None,
    door: Door,
    pool: PoolTree | None,
    nodes: KnownNodes | None,
    spent_before: Collection[str],
) -> None:
    clock = _Clock()
    agreed, admission, least = _agreed(config, ledger, keys), None, None
    seen = SeenPositions(run_dir / SEEN_FILE)
    # a simulated party's state goes with its home, which a run that is resumed makes anew
    greeting = Greeting(ledger.position, {} if config.simulation else seen.least)
    if nodes is None:
        members = enrol(transport, config, ledger.id, log, agreed, greeting)
    else:
        log.write("awaiting", parties=sorted(nodes.names()))
        least = least_together(config, 0 if keys is None else keys.least_sum)
        admission = Admission(transport, config, ledger.id, log, agreed, nodes, greeting=greeting)
        members = assemble(admission, least, config.timeouts.join, log, door.closing)
        if not members:  # it is to be closed
            conclude(config, run_dir, ledger, log, Participation(roll=True))
            return
    _pin(config, ledger, members)
    parties, most_votes = _invited(config, ledger, members, nodes)
    standpoint = _Standpoint(ledger)
    standing = Standing(standpoint, pool if config.pool else None)
    given = Collecting(transport, config, members, run_dir, standing, greeting, log, keys)
    NEEDED[config.votes](given)
    clock.lap("enrol")
    trained = train(transport, config, members, log, least)
    members = trained.members
    given = replace(given, members=members)
    if admission is not None:
        admission.fail(trained.failures)
        log.write("takes-part", parties=[member.party for member in members])
    clock.lap("train")
    votes = sum(member.votes for member in members)
    check_threshold(config, votes)
    check_sanitised(config, votes)
    late = None if admission is None else Latecomers(admission, transport, config, log)
    votes_of = _Votes(log)

    def join() -> None:
        if late is not None:
            _pin(config, ledger, late.join(members))

    def service_of(phase: int | None) -> LabelService:
        collector = given.collector(phase)
        noting = collector if config.simulation else _Noting(collector, seen, standpoint)
        timed = _Timed(noting, votes_of, join)
        return LabelService(
            config, ledger, noise_for(config), timed, parties, log, standing.pool, phase, spent_before, most_votes
        )

    services = [service_of(phase) for phase in config.phase_numbers]
    service = services[0]
    log.write("promised", **service.promised.to_json())
    typical = None if student is None else student.asks_typical
    for warning in before_run(expected(config, len(members), len(config.rows.classes), votes, asks_typical=typical)):
        log.write("warned", **warning.to_json())
    with late or contextlib.nullcontext():
        if student is not None:
            student.run(*services)
        else:
            _serve(services, config, log, door)
    clock.lap("student", minus=votes_of.seconds)
    weights = {member.party: member.weight for member in members}
    seconds = {**clock.laps, "vote": votes_of.seconds}
    told = Participation(weights, trained.left_out_for_data, votes_of.counted, seconds, admission is not None)
    conclude(config, run_dir, ledger, log, told)


def _invited(
    config: FederationConfig, ledger: Ledger, members: Sequence[Member], nodes: KnownNodes | None
) -> tuple[int, int]:
    """Parties that might take part, and the most votes that they may give on a query: before anybody looked at a row.

    members: those that enrolled, which policies decide; the ledger knows the weights of earlier ones. nodes: of a
    deployment, all that may come, whose weights are not known before they do.
    """
    weights = {**ledger.weights(), **{member.party: member.weight for member in members}}
    away = 0 if nodes is None else len({*nodes.names()} - set(weights))
    return len(weights) + away, (sum(weights.values()) + away * config.most_weight) * config.teachers_per_party


def _agreed(config: FederationConfig, ledger: Ledger, keys: VoteKeys | None) -> dict[str, int]:
    """Weights that are fixed before anybody enrols: by the roster, or by an earlier enrolment in this ledger."""
    if keys is None or config.votes == "clear":
        return ledger.weights()
    return keys.weights()


@dataclass
class _Votes:
    """Seconds that collecting votes took, the number of parties in each sum, and all that were in any."""

    log: EventLog
    seconds: float = 0.0
    counted: list[int] = field(default_factory=list)
    named: set[str] = field(default_factory=set)

    def note(self, parties: Sequence[str], seconds: float) -> None:
        """Of one sum."""
        self.seconds += seconds
        if parties:
            self.counted.append(len(parties))
        if fresh := sorted({*parties} - self.named):
            self.named.update(fresh)
            self.log.write("voted", parties=fresh)


class _Standpoint:
    """Where the ledger stands; and where it stood when a request for votes last said so."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.told: LedgerPosition | None = None

    def __call__(self) -> LedgerPosition:
        self.told = self._ledger.position()
        return self.told


class _Noting:
    """A collector that notes who voted at which position of the ledger.

    Nothing is noted of a session that is brought to its end after a restart: its parties were asked earlier.
    """

    def __init__(self, collector: Collector, seen: SeenPositions, standpoint: _Standpoint) -> None:
        self._collector, self._seen, self._standpoint = collector, seen, standpoint

    def __call__(self, queries: np.ndarray, query_set: str, progress: Progress, phase: int = 1) -> Histogram:
        self._standpoint.told = None
        histogram = self._collector(queries, query_set, progress, phase)
        if self._standpoint.told is not None:
            self._seen.note(histogram.parties, self._standpoint.told.batch)
        return histogram

    def settle(self) -> None:
        self._collector.settle()


class _Timed:
    """A collector that notes what it took. join: takes in the parties that came since the last sum."""

    def __init__(self, collector: Collector, noted: _Votes, join: Callable[[], None]) -> None:
        self._collector = collector
        self._noted = noted
        self._join = join

    def __call__(self, queries: np.ndarray, query_set: str, progress: Progress, phase: int = 1) -> Histogram:
        self._join()
        start, parties = time.monotonic(), ()
        try:
            histogram = self._collector(queries, query_set, progress, phase)
            parties = histogram.parties
        finally:
            self._noted.note(parties, time.monotonic() - start)
        return histogram

    def settle(self) -> None:
        self._collector.settle()


class _Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, stage: str, minus: float = 0.0) -> None:
        now = time.monotonic()
        self.laps[stage] = now - self._last - minus
        self._last = now


def _pin(config: FederationConfig, ledger: Ledger, members: Sequence[Member]) -> None:
    """Keep the weights with which parties enrolled, where they may differ."""
    if config.most_weight > 1 and members:
        ledger.pin_weights({member.party: member.weight for member in members})


def noise_for(config: FederationConfig) -> NoiseFor:
    """The operating system's noise; in a simulation that asks for it, noise seeded by seed and number of the batch."""
    if config.noise_seed is None:
        return lambda _: SystemNoise()
    seed = config.noise_seed
    return lambda batch: SeededNoise(int(canonical_digest([seed, batch]), 16))


def _serve(services: Sequence[LabelService], config: FederationConfig, log: EventLog, door: Door) -> None:
    first, *later = services
    most_rows = max(phase.caps.queries for phase in config.phases)
    with serving(first, door.address or config.service, most_rows, door, later=later) as address:
        log.write("serving", address=address)
        if not wait_for_close(first, door, config.timeouts.student, config.caps.queries):
            raise ServiceError(
                f"no student finished within {config.timeouts.student:g} s at {address}",
                "Start one with `consilium student run`, or raise timeouts.student",
            )
