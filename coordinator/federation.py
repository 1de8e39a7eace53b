"""One federation from enrolment to close, on plain objects: transport, configuration, run folder, student."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from consilium.coordinator.events import EventLog
from consilium.coordinator.expectation import expected
from consilium.coordinator.label_server import OPEN_DOOR, Door, serving, wait_for_close
from consilium.coordinator.label_service import Collector, LabelService, NoiseFor
from consilium.coordinator.ledger.store import Ledger
from consilium.coordinator.rosters import least_together
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError, ServiceError
from consilium.protocol.label_source import Progress
from consilium.protocol.messages import CollectionMode, LedgerPosition
from consilium.protocol.noise import SeededNoise, SystemNoise
from consilium.protocol.rows.pool import PoolTree
from consilium.report.warnings import before_run

SESSIONS = "sessions"
"""Folder of a run in which open sessions are kept."""


class VoteKeys(Protocol):
    """What all but plaintext votes need: a roster and the coordinator's keys."""

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

    def collector(self, stage: int | None) -> Collector:
        """Of the schedule's stage with this number, from 1; None where there is no schedule."""
        return MAKERS[self.config.collection](self, stage)


def _clear(means: Collecting, stage: int | None) -> Collector:
    sinks: Any = partial(keeping, means.run_dir / "private") if means.config.record_votes else None
    return ClearCollector(means.transport, means.config, means.members, means.standing, means.log, sinks, stage or 1)


def _secure(means: Collecting, stage: int | None) -> Collector:
    keys, folder = cast(SecureKeys, means.keys), means.run_dir / SESSIONS
    return SecureCollector(means.transport, means.config, means.members, keys, folder, means.standing, means.log, stage)


def _verified(means: Collecting, stage: int | None) -> Collector:
    keys, folder = cast(VerifiedKeys, means.keys), means.run_dir / SESSIONS
    return VerifiedCollector(
        means.transport, means.config, means.members, keys, means.second(), folder, means.standing, means.log, stage
    )


MAKERS: Mapping[CollectionMode, Callable[[Collecting, int | None], Collector]] = {
    "plaintext": _clear,
    "secure": _secure,
    "distributed": _secure,
    "verified": _verified,
}


def _nobody_else(means: Collecting) -> None:
    """Parties are all that is needed."""


def _second_is_there(means: Collecting) -> None:
    means.second().find()


NEEDED: Mapping[CollectionMode, Callable[[Collecting], None]] = {
    "plaintext": _nobody_else,
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


@dataclass(frozen=True)
class FederationRun:
    """What one federation is run with.

    student: None: one is awaited on the socket `config.service`, at `door`. keys: of all but plaintext votes. pool: of
    a federation whose queries were fixed beforehand. nodes: of a deployment, the parties that may connect, who are then
    waited for, and let in late. spent_before: ids of queries that these parties answered in an earlier federation, and
    do not answer again.
    """

    transport: Transport
    config: FederationConfig
    run_dir: Path
    log: EventLog
    student: Student | None = None
    keys: VoteKeys | None = None
    door: Door = OPEN_DOOR
    pool: PoolTree | None = None
    nodes: KnownNodes | None = None
    spent_before: Collection[str] = ()

    def run(self) -> None:
        """Enrol, train, answer the student, close.

        Writes into `run_dir`: ledger.db, coordinator.json and, in simulations that ask for it, private/votes-*.npz.

        Raises
        ------
        ConsiliumError : typed; nothing is released that is not in the ledger.
        """
        config = self.config
        if config.collection != "plaintext":
            if self.keys is None:
                raise ConfigError(
                    f"{config.collection} votes need a roster and the coordinator's key", "Name their files"
                )
            self.keys.check(config)
        fixed = config.public
        if fixed is not None and (self.pool is None or self.pool.terms(fixed.least_distance) != fixed):
            raise ConfigError(
                "the federation's queries are fixed beforehand; this is not the file of their rows",
                "Name its public.npy",
            )
        ledger = Ledger(self.run_dir / "ledger.db", config.digest(), config.model_dump_json(exclude={"noise_seed"}))
        try:
            self._run(ledger)
        finally:
            ledger.close()

    def _run(self, ledger: Ledger) -> None:
        config, log, transport, nodes = self.config, self.log, self.transport, self.nodes
        clock = _Clock()
        agreed, admission, least = self._agreed(ledger), None, None
        seen = SeenPositions(self.run_dir / SEEN_FILE)
        # a simulated party's state goes with its home, which a run that is resumed makes anew
        greeting = Greeting(ledger.position, {} if config.simulation else seen.least)
        if nodes is None:
            members = enrol(transport, config, ledger.id, log, agreed, greeting)
        else:
            log.write("awaiting", parties=sorted(nodes.names()))
            least = least_together(config, 0 if self.keys is None else self.keys.least_sum)
            admission = Admission(transport, config, ledger.id, log, agreed, nodes, greeting=greeting)
            members = assemble(admission, least, config.timeouts.join, log, self.door.closing)
            if not members:  # it is to be closed
                conclude(config, self.run_dir, ledger, log, Participation(roll=True))
                return
        _pin(config, ledger, members)
        parties, most_votes = self._invited(ledger, members)
        sums = _Sums(ledger, log, None if config.simulation else seen)
        standing = Standing(sums.position, self.pool if config.public else None)
        means = Collecting(transport, config, members, self.run_dir, standing, greeting, log, self.keys)
        NEEDED[config.collection](means)
        clock.lap("enrol")
        trained = train(transport, config, members, log, least)
        members = trained.members
        means = replace(means, members=members)
        if admission is not None:
            admission.fail(trained.failures)
            log.write("takes-part", parties=[member.party for member in members])
        clock.lap("train")
        votes = sum(member.votes for member in members)
        check_threshold(config, votes)
        check_sanitised(config, votes)
        late = None if admission is None else Latecomers(admission, transport, config, log)

        def join() -> None:
            if late is not None:
                _pin(config, ledger, late.join(members))

        sums.join = join
        noise, pool, before = noise_for(config), standing.pool, self.spent_before

        def service_of(stage: int | None) -> LabelService:
            collector = _Noted(means.collector(stage), sums)
            return LabelService(config, ledger, noise, collector, parties, log, pool, stage, before, most_votes)

        services = [service_of(stage) for stage in config.phase_numbers]
        log.write("promised", **services[0].promised.to_json())
        typical = None if self.student is None else self.student.asks_typical
        known = expected(config, len(members), len(config.rows.classes), votes, asks_typical=typical)
        for warning in before_run(known):
            log.write("warned", **warning.to_json())
        with late or contextlib.nullcontext():
            if self.student is not None:
                self.student.run(*services)
            else:
                _serve(services, config, log, self.door)
        clock.lap("student", minus=sums.seconds)
        weights = {member.party: member.weight for member in members}
        seconds = {**clock.laps, "vote": sums.seconds}
        part = Participation(weights, trained.left_out_for_data, sums.counted, seconds, admission is not None)
        conclude(config, self.run_dir, ledger, log, part)

    def _invited(self, ledger: Ledger, members: Sequence[Member]) -> tuple[int, int]:
        """Parties that might take part, and the most votes that they may give on a query: before anybody looked at a
        row.

        members: those that enrolled, which policies decide; the ledger knows the weights of earlier ones. Of a
        deployment all count that may come, whose weights are not known before they do.
        """
        weights = {**ledger.weights(), **{member.party: member.weight for member in members}}
        away = 0 if self.nodes is None else len({*self.nodes.names()} - set(weights))
        most_weight = sum(weights.values()) + away * self.config.most_weight
        return len(weights) + away, most_weight * self.config.teachers_per_party

    def _agreed(self, ledger: Ledger) -> dict[str, int]:
        """Weights that are fixed before anybody enrols: by the roster, or by an earlier enrolment in this ledger."""
        if self.keys is None or self.config.collection == "plaintext":
            return ledger.weights()
        return self.keys.weights()


class _Sums:
    """What is noted of all sums of a run: seconds, the number of parties in each, who was in any; and, where `seen` is
    kept, who voted at which position of the ledger. join: takes in the parties that came since the last sum."""

    def __init__(self, ledger: Ledger, log: EventLog, seen: SeenPositions | None) -> None:
        self._ledger, self._log, self._seen = ledger, log, seen
        self._stated: LedgerPosition | None = None
        self._named: set[str] = set()
        self.join: Callable[[], object] = lambda: None
        self.seconds = 0.0
        self.counted: list[int] = []

    def position(self) -> LedgerPosition:
        """Where the ledger stands; it is kept that a request for votes says so."""
        self._stated = self._ledger.position()
        return self._stated

    @contextlib.contextmanager
    def noting(self) -> Iterator[list[str]]:
        """Of one sum, whose parties are put into the list. Nothing is noted in `seen` of a session that is brought to
        its end after a restart: its parties were asked earlier."""
        start, self._stated = time.monotonic(), None
        parties: list[str] = []
        try:
            yield parties
            if self._seen is not None and self._stated is not None:
                self._seen.note(parties, self._stated.batch)
        finally:
            self.seconds += time.monotonic() - start
            if parties:
                self.counted.append(len(parties))
            if fresh := sorted({*parties} - self._named):
                self._named.update(fresh)
                self._log.write("voted", parties=fresh)


class _Noted:
    """A collector of whose sums is noted what `_Sums` has."""

    def __init__(self, collector: Collector, sums: _Sums) -> None:
        self._collector, self._sums = collector, sums

    def __call__(self, queries: np.ndarray, query_set: str, progress: Progress, round_: int = 1, /) -> Histogram:
        self._sums.join()
        with self._sums.noting() as parties:
            histogram = self._collector(queries, query_set, progress, round_)
            parties += histogram.parties
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
    most_rows = max(phase.query_budget.queries for phase in config.phases)
    with serving(first, door.address or config.service, most_rows, door, later=later) as address:
        log.write("serving", address=address)
        if not wait_for_close(first, door, config.timeouts.student, config.query_budget.queries):
            raise ServiceError(
                f"no student finished within {config.timeouts.student:g} s at {address}",
                "Start one with `consilium student run`, or raise timeouts.student",
            )
