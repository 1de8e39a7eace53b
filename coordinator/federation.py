"""One federation from enrolment to close, on plain objects: transport, configuration, run folder, student; and where a
coordinator keeps its federations, `state/run-DIGEST/` for each that it has served.

A folder holds ledger.db, which says which federation it is of, events.jsonl, `close` once it is to be closed, and
coordinator.json once it is.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from consilium.coordinator.collection.admission import (
    Admission,
    Latecomers,
    NotedCollector,
    Registered,
    assemble,
    enrol,
    train,
)
from consilium.coordinator.collection.exchange import Transport
from consilium.coordinator.collection.means import Collecting, Standing, VoteKeys
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.config import FederationConfig, check_sanitised, check_threshold
from consilium.coordinator.events import Event, EventLog, RunState, read_events
from consilium.coordinator.label_service import LabelService, noise_for
from consilium.coordinator.ledger import Ledger, stored_config
from consilium.coordinator.parts import QueryBudget
from consilium.coordinator.privacy import Normal, close, expected, promises, spent
from consilium.coordinator.served import ServedFederation, least_parties
from consilium.node.folder import PUBLIC_FILE, NodeFolder
from consilium.node.signed import joined
from consilium.protocol import errors
from consilium.protocol.databases import LOOK_SECONDS
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError, ConsiliumError, EngineError, LedgerError
from consilium.protocol.files import replace_private, typed
from consilium.protocol.label_source import USES_UP
from consilium.protocol.pool import PoolTree
from consilium.report.warnings import warnings_of
from consilium.sums.errors import SecAggError
from consilium.sums.modes import WITH_SECOND

LEDGER, SUMMARY, EVENTS, CLOSE = "ledger.db", "coordinator.json", "events.jsonl", "close"
T = TypeVar("T")


@dataclass(frozen=True)
class BudgetUse:
    """What was asked and answered of the query budget. asked: as parties have charged it. over: closed, so that nothing
    more can be. unanswered: of those asked, that came to nothing."""

    asked: int
    answered: int
    query_budget: QueryBudget
    over: bool
    unanswered: int = 0

    @property
    def queries_left(self) -> int:
        return 0 if self.over else max(0, self.query_budget.queries - self.asked)

    @property
    def answers_left(self) -> int:
        return 0 if self.over else self.query_budget.answers - self.answered

    def describe(self) -> str:
        most = self.query_budget
        used = f"{self.asked} of {most.queries} queries asked, {self.answered} of {most.answers} answers given"
        failed = (
            f"; of those {self.unanswered} not answered{'' if self.over else f': asking the same again {USES_UP}'}"
            if self.unanswered
            else ""
        )
        return f"{used}{', closed: nothing can be asked' if self.over else ''}{failed}"


@dataclass(frozen=True)
class RunFolder:
    """One federation of a coordinator: its folder, which need not be there yet, and its configuration."""

    path: Path
    config: FederationConfig

    @property
    def ledger(self) -> Path:
        """Where there is one, the federation was begun."""
        return self.path / LEDGER

    @property
    def events(self) -> Path:
        return self.path / EVENTS

    @property
    def close_file(self) -> Path:
        """There once somebody asked for it to be closed."""
        return self.path / CLOSE

    @property
    def closed(self) -> bool:
        """Whether it has its summary, and gives no label any more."""
        return (self.path / SUMMARY).exists()

    @property
    def short(self) -> str:
        return self.config.digest()[:12]

    def summary(self) -> dict[str, Any]:
        return json.loads((self.path / SUMMARY).read_text(encoding="utf-8"))

    def use(self) -> BudgetUse:
        """What is used up of the query budget. Raises LedgerError."""
        budget, closed = self.config.query_budget, self.closed

        def use(ledger: Ledger) -> BudgetUse:
            asked, answered = ledger.spent()
            return BudgetUse(asked + ledger.in_vain(), answered, budget, closed, ledger.unanswered())

        return self._read(BudgetUse(0, 0, budget, closed), use)

    def check(self) -> None:
        """Follow the ledger's hash chain. Raises LedgerError."""
        self._read([], Ledger.batches)

    def asked(self) -> frozenset[str]:
        """Ids, hex, of all queries that the ledger records. Raises LedgerError."""
        return self._read(frozenset(), Ledger.recorded)

    def _read(self, nothing: T, read: Callable[[Ledger], T]) -> T:
        """What the ledger says; `nothing` where there is none."""
        if not self.ledger.exists():
            return nothing
        with contextlib.closing(
            Ledger(self.ledger, self.config.digest(), "", read_only=True, wait=LOOK_SECONDS)
        ) as ledger:
            return read(ledger)


NEWEST = "Join the newest folder that the operator sent: consilium node join FOLDER"


def pool_of(folder: NodeFolder, config: FederationConfig) -> PoolTree | None:
    """The public rows that may be asked, where they are fixed. Raises ConfigError: they are not those of the terms."""
    if config.public is None:
        return None
    path = folder.federation / PUBLIC_FILE
    try:
        with np.load(path, allow_pickle=False) as file:
            tree = PoolTree.of_rows(file["queries"])
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise ConfigError(f"cannot read public rows {path}: {type(error).__name__}", NEWEST) from None
    if tree.terms(config.public.least_distance) != config.public:
        raise ConfigError(f"{path} holds other rows than the federation is fixed to", NEWEST)
    return tree


def run_of(folder: NodeFolder, file: ServedFederation | None = None) -> RunFolder:
    """Of the federation that a coordinator joined last. file: that, where it was read already. Raises ConfigError."""
    config = (file or joined(folder, ServedFederation)).config
    return RunFolder(folder / "state" / f"run-{config.digest()[:12]}", config)


def earlier_runs(folder: NodeFolder, run: RunFolder) -> list[RunFolder]:
    """All federations that were begun but this one. Raises LedgerError where it cannot be said which one is."""
    earlier = []
    for ledger in sorted((folder / "state").glob(f"run-*/{LEDGER}")):
        if ledger.parent == run.path:
            continue
        try:
            earlier.append(RunFolder(ledger.parent, FederationConfig.model_validate_json(stored_config(ledger)[1])))
        except ValidationError:
            raise LedgerError(
                f"ledger {ledger} does not say which federation it is of",
                "Restore its newest backup; the folder of a federation that is over may be moved out of the node's"
                " state",
            ) from None
    return earlier


def asked_before(folder: NodeFolder, run: RunFolder) -> frozenset[str]:
    """Ids of queries of earlier federations that cannot be asked in this one: a second aggregator gives its half of
    each row once. Where there is none, parties charge the row again. Raises LedgerError."""
    if run.config.collection not in WITH_SECOND:
        return frozenset()
    return frozenset().union(*(earlier.asked() for earlier in earlier_runs(folder, run)))


def conclude(
    config: FederationConfig,
    run_dir: Path,
    ledger: Ledger,
    log: EventLog,
    *,
    parties: Sequence[str] = (),
    left_out_for_data: int = 0,
    seconds: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Write the summary, after which the federation is closed, and return it. parties: that took part since the
    coordinator was started last; the summary has all that ever did. Raises LedgerError:
    nothing was released."""
    names = sorted({*RunState.of(read_events(run_dir / EVENTS)).took_part, *parties})
    sanitised = close(config, ledger, normal_for(config), log)
    batches = ledger.batches()
    guarantees = spent(config, batches, closed=sanitised is not None)
    summary = {
        "federation": config.digest(),
        "parties": names,
        "teachers": len(names) * config.teachers_per_party,
        "parties_left_out_for_data": left_out_for_data,
        "collection": config.collection,
        "asked": sum(len(batch.query_ids) for batch in batches),
        "answered": sum(int(batch.answered.sum()) for batch in batches),
        "reinforced": sum(int(batch.reinforced.sum()) for batch in batches),
        "noise": "system" if config.noise_seed is None else "seeded",
        "privacy": {
            **{name: guarantee.to_json() for name, guarantee in (promises(config) | guarantees).items()},
            **({"sanitised": sanitised["guarantee"]} if sanitised else {}),
        },
        "sanitised": sanitised,
        "seconds": dict(seconds or {}),
    }
    replace_private(run_dir / SUMMARY, json.dumps(summary, indent=2) + "\n")  # half of it would say "closed"
    log.write("closed", asked=summary["asked"], answered=summary["answered"])
    return summary


def conclude_unserved(config: FederationConfig, run_dir: Path) -> dict[str, Any]:
    """Close a deployed federation that nobody serves: what closing needs is in its ledger, and no party. Raises
    LedgerError: the ledger cannot be read or written, or is of another federation."""
    log = contextlib.closing(EventLog(run_dir / EVENTS))
    with log as opened, contextlib.closing(Ledger.of(run_dir / LEDGER, config)) as ledger:
        return conclude(config, run_dir, ledger, opened)


def normal_for(config: FederationConfig) -> Normal | None:
    """The noise of the closing: None for the operating system's; seeded in a simulation that asks for it."""
    if config.noise_seed is None:
        return None
    generator = np.random.default_rng(int(canonical_digest([config.noise_seed, "closing"]), 16))
    return lambda: float(generator.standard_normal())


@contextlib.contextmanager
def telling_failure(run_dir: Path, log: EventLog) -> Iterator[None]:
    """A typed error is written into the run's event log before it is raised."""
    try:
        yield
    except (ConsiliumError, OSError) as error:
        known = error if isinstance(error, ConsiliumError) else typed(error, run_dir)
        if known is None:
            raise
        with contextlib.suppress(OSError):  # on a full disk the error itself is what matters
            log.write("failed", error=type(known).__name__, what=known.what, action=known.action)
        raise


def failure_of(events: Iterable[Event]) -> ConsiliumError | None:
    """The error that these tell of, or one of the kind above it; None where they tell of none."""
    of_sums = {kind.__name__ for kind in SecAggError.__subclasses__()}
    for event in events:
        if event.kind == "failed":
            kind = getattr(errors, event.error, SecAggError if event.error in of_sums else EngineError)
            return kind(event.what, event.action)
    return None


Student = Callable[[LabelService], None]
"""A student inside the coordinator's process, or all that come to a socket (`label_server.serve`)."""


@dataclass(frozen=True)
class FederationRun:
    """What one federation is run with.

    student: returns once the last one is done. closing: whether the federation is to be closed, so that no party is
    waited for any more. pool: of one whose queries were fixed beforehand. nodes: of a deployment, the parties that may
    connect, who are waited for, and let in late. spent_before: ids of queries that were answered in an earlier one.
    """

    transport: Transport
    config: FederationConfig
    run_dir: Path
    log: EventLog
    student: Student
    keys: VoteKeys = PLAINTEXT
    closing: Callable[[], bool] = lambda: False
    pool: PoolTree | None = None
    nodes: Registered | None = None
    spent_before: Collection[str] = ()

    def run(self) -> None:
        """Enrol, train, answer the student, close. Raises ConsiliumError : nothing is released that is not in the
        ledger."""
        config = self.config
        self.keys.check(config)
        fixed = config.public
        if fixed is not None and (self.pool is None or self.pool.terms(fixed.least_distance) != fixed):
            raise ConfigError(
                "the federation's queries are fixed beforehand; these are not their rows",
                "Take the public.npz of the federation's signed folder",
            )
        with contextlib.closing(Ledger.of(self.run_dir / LEDGER, config)) as ledger:
            self._run(ledger)

    def _run(self, ledger: Ledger) -> None:
        config, log, transport, nodes = self.config, self.log, self.transport, self.nodes
        times = [time.monotonic()]
        admission, least = None, None
        # a simulated party's state goes with its home
        starts = () if config.simulation else ledger.begin_start()
        pool = self.pool if config.public else None
        standing = Standing(ledger, pool, starts)
        if nodes is None:
            members = enrol(transport, config, log, standing)
        else:
            log.write("awaiting", parties=sorted(nodes.parties))
            least = least_parties(config, self.keys.roster)
            admission = Admission(transport, config, log, standing, nodes)
            members = assemble(admission, least, config.timeouts.join, self.closing)
            if not members:  # it is to be closed
                conclude(config, self.run_dir, ledger, log)
                return
        # whoever may come, before anybody looked at a row: those that enrolled, which policies decide; deployed, all
        parties = len({member.party for member in members} | (set() if nodes is None else {*nodes.parties}))
        means = Collecting(transport, config, members, self.run_dir, standing, log)
        self.keys.check_reachable(means)
        times.append(time.monotonic())
        trained = train(transport, config, members, log, least)
        members = trained.members
        means = replace(means, members=members)
        if admission is not None:
            admission.fail(trained.failures)
            log.write("takes-part", parties=[member.party for member in members])
        times.append(time.monotonic())
        votes = sum(member.teachers for member in members)
        check_threshold(config, votes)
        check_sanitised(config, votes)
        late = None if admission is None else Latecomers(admission)
        collector = NotedCollector(self.keys.collector(means), late, members, standing)
        service = LabelService(config, ledger, collector, noise_for(config), parties, log, pool, self.spent_before)
        log.write("promised", **service.promised.to_json())
        for warning in warnings_of(expected(config, len(members))):
            log.write("warned", **warning)
        with late or contextlib.nullcontext():
            self.student(service)
        service.end()
        times.append(time.monotonic())
        enrolling, training, answering = (end - begin for begin, end in pairwise(times))
        seconds = {"enrol": enrolling, "train": training, "student": answering - service.seconds}
        conclude(
            config, self.run_dir, ledger, log, parties=[member.party for member in members],
            left_out_for_data=trained.left_out_for_data, seconds={**seconds, "vote": service.seconds},
        )  # fmt: skip
