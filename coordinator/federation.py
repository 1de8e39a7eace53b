"""One federation from enrolment to close, on plain objects: transport, configuration, run folder, student."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from consilium.coordinator.collection.clear import ClearCollector, Histogram, Standing
from consilium.coordinator.collection.exchange import Transport
from consilium.coordinator.collection.greeting import SEEN_FILE, Greeting, SeenPositions
from consilium.coordinator.collection.members import enrol, train
from consilium.coordinator.collection.secure import SecureCollector, SecureKeys
from consilium.coordinator.config import FederationConfig, check_sanitised, check_threshold
from consilium.coordinator.expectation import expected
from consilium.coordinator.labels.grpc_server import OPEN_DOOR, Door, serving, wait_for_close
from consilium.coordinator.labels.service import Collector, LabelService, NoiseFor
from consilium.coordinator.ledger.closing import Normal, close
from consilium.coordinator.ledger.privacy import by_party, by_phase, promised_in_other_units, promised_to_student, spent
from consilium.coordinator.ledger.store import Ledger
from consilium.coordinator.run_log import EventLog
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError, ServiceError
from consilium.protocol.files import replace_text, replacing
from consilium.protocol.labels.service import Progress
from consilium.protocol.noise import SeededNoise, SystemNoise
from consilium.protocol.parties.messages import LedgerPosition
from consilium.protocol.rows.pool import PoolTree
from consilium.protocol.rows.queries import query_ids
from consilium.protocol.warnings.before import before_run

Student = Callable[..., None]
"""A student that runs inside the coordinator's process: it asks, trains and finishes before it returns. It is called
with one `LabelSource` for each phase of the federation, in order: with one where there is no schedule."""


def run_federation(
    transport: Transport,
    config: FederationConfig,
    run_dir: Path,
    log: EventLog,
    student: Student | None = None,
    keys: SecureKeys | None = None,
    door: Door = OPEN_DOOR,
    pool: PoolTree | None = None,
) -> None:
    """Enrol, train, answer the student, close. Without `student`, one is awaited on the socket `config.service`, at
    `door`.

    Writes into `run_dir`: ledger.db, coordinator.json and, in simulations that ask for it, private/votes.npz.
    Secure and distributed votes need `keys`, a federation whose queries were fixed beforehand its `pool`.

    Raises
    ------
    ConsiliumError : typed; nothing is released that is not in the ledger.
    """
    if config.votes != "clear":
        if keys is None:
            raise ConfigError(f"{config.votes} votes need a roster and the coordinator's key", "Name their files")
        keys.check(config)
    if config.schedule and student is None:
        raise ConfigError(
            "federation.schedule: a student on a socket cannot ask in phases yet",
            "Run the scenario with `consilium run`, or leave the schedule out",
        )
    if config.pool is not None and (pool is None or pool.terms(config.pool.least_distance) != config.pool):
        raise ConfigError("the federation's queries are fixed to a pool, and this is not its file", "Name its pool.npy")
    ledger = Ledger(run_dir / "ledger.db", config.digest(), config.model_dump_json(exclude={"noise_seed"}))
    try:
        _run(transport, config, run_dir, ledger, log, student, keys, door, pool)
    finally:
        ledger.close()


def _run(
    transport: Transport,
    config: FederationConfig,
    run_dir: Path,
    ledger: Ledger,
    log: EventLog,
    student: Student | None,
    keys: SecureKeys | None,
    door: Door,
    pool: PoolTree | None,
) -> None:
    clock = _Clock()
    seen = SeenPositions(run_dir / SEEN_FILE)
    # a simulated party's state goes with its home, which a run that is resumed makes anew
    greeting = Greeting(ledger.position(), {} if config.simulation else seen.least)
    members = enrol(transport, config, ledger.id, log, _agreed(config, ledger, keys), greeting)
    if config.most_weight > 1:
        ledger.pin_weights({member.party: member.weight for member in members})
    clock.lap("enrol")
    members, left_out_for_data = train(transport, config, members, log)
    clock.lap("train")
    votes = sum(member.votes for member in members)
    check_threshold(config, votes)
    check_sanitised(config, votes)
    standpoint = _Standpoint(ledger)
    standing = Standing(standpoint, pool if config.pool else None)
    votes_of = _Votes()

    def service_of(phase: int | None) -> LabelService:
        if keys is not None and config.votes != "clear":
            collector: Collector = SecureCollector(
                transport, config, members, keys, run_dir / "sessions", standing, log
            )
        else:
            sinks = partial(_votes_sink, run_dir) if config.record_votes else None
            collector = ClearCollector(transport, config, members, standing, log, sinks, phase or 1)
        noting = collector if config.simulation else _Noting(collector, seen, standpoint)
        timed = _Timed(noting, votes_of)
        return LabelService(config, ledger, noise_for(config), timed, len(members), log, standing.pool, phase)

    services = [service_of(phase) for phase in config.phase_numbers]
    service = services[0]
    log.write("promised", **service.promised.to_json())
    for warning in before_run(expected(config, len(members), len(config.rows.classes), votes)):
        log.write("warned", **warning.to_json())
    if student is not None:
        student(*services)
    else:
        _serve(service, config, log, door)
    clock.lap("student", minus=votes_of.seconds)
    sanitised = close(config, ledger, normal_for(config), log)
    batches = ledger.batches()
    guarantees = spent(config, batches, closed=sanitised is not None)
    summary = {
        "federation": config.digest(),
        "federation_digest": config.federation_digest(),
        "parties": sorted(member.party for member in members),
        "teachers": sum(member.teachers for member in members),
        "parties_left_out_for_data": left_out_for_data,
        "parties_counted": votes_of.counted,
        "votes": config.votes,
        "asked": sum(len(batch.query_ids) for batch in batches),
        "answered": sum(int(batch.answered.sum()) for batch in batches),
        "reinforced": sum(int(batch.reinforced.sum()) for batch in batches),
        "noise": "system" if config.noise_seed is None else "seeded",
        "privacy": {
            "promised": service.promised.to_json(),
            "student": promised_to_student(config).to_json(),
            **{name: guarantee.to_json() for name, guarantee in promised_in_other_units(config).items()},
            **{name: guarantee.to_json() for name, guarantee in guarantees.items()},
            **({"sanitised": sanitised["guarantee"]} if sanitised else {}),
        },
        **by_party(config, {member.party: member.weight for member in members}),
        "sanitised": sanitised,
        **by_phase(config, batches),
        "seconds": {**clock.laps, "vote": votes_of.seconds},
    }
    replace_text(run_dir / "coordinator.json", json.dumps(summary, indent=2) + "\n")  # half of it would say "closed"
    log.write("closed", asked=summary["asked"], answered=summary["answered"])


def _agreed(config: FederationConfig, ledger: Ledger, keys: SecureKeys | None) -> dict[str, int]:
    """Weights that are fixed before anybody enrols: by the roster, or by an earlier enrolment in this ledger."""
    if keys is None or config.votes == "clear":
        return ledger.weights()
    return {entry.id: entry.weight for entry in keys.roster.parties}


@dataclass
class _Votes:
    """Seconds that collecting votes took, and the number of parties in each sum."""

    seconds: float = 0.0
    counted: list[int] = field(default_factory=list)


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
    """A collector that notes what it took."""

    def __init__(self, collector: Collector, noted: _Votes) -> None:
        self._collector = collector
        self._noted = noted

    def __call__(self, queries: np.ndarray, query_set: str, progress: Progress, phase: int = 1) -> Histogram:
        start = time.monotonic()
        try:
            histogram = self._collector(queries, query_set, progress, phase)
        finally:
            self._noted.seconds += time.monotonic() - start
        self._noted.counted.append(len(histogram.parties))
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


def noise_for(config: FederationConfig) -> NoiseFor:
    """The operating system's noise; in a simulation that asks for it, noise seeded by seed and number of the batch."""
    if config.noise_seed is None:
        return lambda _: SystemNoise()
    seed = config.noise_seed
    return lambda batch: SeededNoise(int(canonical_digest([seed, batch]), 16))


def normal_for(config: FederationConfig) -> Normal | None:
    """The noise of the closing: None for the operating system's; seeded in a simulation that asks for it."""
    if config.noise_seed is None:
        return None
    generator = np.random.default_rng(int(canonical_digest([config.noise_seed, "closing"]), 16))
    return lambda: float(generator.standard_normal())


def _serve(service: LabelService, config: FederationConfig, log: EventLog, door: Door) -> None:
    with serving(service, config.service, config.caps.queries, door) as address:
        log.write("serving", address=address)
        if not wait_for_close(service, door, config.timeouts.student, config.caps.queries):
            raise ServiceError(
                f"no student finished within {config.timeouts.student:g} s at {address}",
                "Start one with `consilium student run`, or raise timeouts.student",
            )


def _votes_sink(run_dir: Path, queries: np.ndarray, query_set: str) -> Callable[[dict[str, np.ndarray]], None]:
    def write(counted: dict[str, np.ndarray]) -> None:
        folder = run_dir / "private"
        folder.mkdir(mode=0o700, exist_ok=True)
        names = sorted(counted)
        votes = np.stack([counted[name] for name in names]).astype(np.uint16)
        ids = np.array(query_ids(queries))
        path = folder / f"votes-{query_set[:12]}.npz"
        with replacing(path) as file:
            np.savez_compressed(file, parties=np.array(names), query_ids=ids, votes=votes)

    return write
