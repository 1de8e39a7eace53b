"""One federation from enrolment to close, on plain objects: transport, configuration, run folder, student."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from consilium.coordinator.collection.admission import (
    SEEN_FILE,
    Admission,
    Greeting,
    KnownNodes,
    Latecomers,
    SeenPositions,
    assemble,
    enrol,
    train,
)
from consilium.coordinator.collection.exchange import Transport
from consilium.coordinator.collection.means import Collecting, NotedCollector, Standing, VoteKeys
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.config import FederationConfig, check_sanitised, check_threshold
from consilium.coordinator.events import EventLog
from consilium.coordinator.label_service import LabelService, noise_for
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.privacy import expected
from consilium.coordinator.run_folders import conclude
from consilium.coordinator.served import least_together
from consilium.protocol.errors import ConfigError
from consilium.protocol.pool import PoolTree
from consilium.report.warnings import warnings_of

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
    nodes: KnownNodes | None = None
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
        with contextlib.closing(Ledger.of(self.run_dir / "ledger.db", config)) as ledger:
            self._run(ledger)

    def _run(self, ledger: Ledger) -> None:
        config, log, transport, nodes = self.config, self.log, self.transport, self.nodes
        times = [time.monotonic()]
        admission, least = None, None
        seen = SeenPositions(self.run_dir / SEEN_FILE)
        # a simulated party's state goes with its home
        starts = () if config.simulation else ledger.begin_start()
        greeting = Greeting(ledger.position, {} if config.simulation else seen.least, starts=starts, asked=ledger.asked)
        if nodes is None:
            members = enrol(transport, config, log, greeting)
        else:
            log.write("awaiting", parties=sorted(nodes.names()))
            least = least_together(config, self.keys.least_sum)
            admission = Admission(transport, config, log, greeting, nodes)
            members = assemble(admission, least, config.timeouts.join, log, self.closing)
            if not members:  # it is to be closed
                conclude(config, self.run_dir, ledger, log)
                return
        # whoever may come, before anybody looked at a row: those that enrolled, which policies decide; deployed, all
        parties = len({member.party for member in members} | (set() if nodes is None else {*nodes.names()}))
        pool, noted = self.pool if config.public else None, None if config.simulation else seen
        standing = Standing(ledger, pool, starts[-1] if starts else "", noted)
        means = Collecting(transport, config, members, self.run_dir, standing, greeting, log)
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
        late = None if admission is None else Latecomers(admission, transport, config, log)
        collector = NotedCollector(self.keys.collector(means), late, members, standing)
        service = LabelService(config, ledger, collector, noise_for(config), parties, log, pool, self.spent_before)
        log.write("promised", **service.promised.to_json())
        for warning in warnings_of(expected(config, len(members))):
            log.write("warned", **warning)
        with late or contextlib.nullcontext():
            self.student(service)
        times.append(time.monotonic())
        enrolling, training, answering = (end - begin for begin, end in pairwise(times))
        seconds = {"enrol": enrolling, "train": training, "student": answering - service.seconds}
        conclude(
            config, self.run_dir, ledger, log, parties=[member.party for member in members], counted=service.counted,
            left_out_for_data=trained.left_out_for_data, seconds={**seconds, "vote": service.seconds},
        )  # fmt: skip
