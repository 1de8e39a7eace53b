"""Collection of secure and distributed votes: the sessions of `coordinator.secagg` over the exchanges with the parties.

The state of a session is on disk from before its first request until its labels are in the ledger. A coordinator that
crashed in between goes on with the same session: parties answer a query once, so that a second sum over other survivors
cannot show what one of them voted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np

from coordinator.collection import Histogram, Standing
from coordinator.config import FederationConfig
from coordinator.events import EventLog
from coordinator.exchange import Failure, Transport, exchange
from coordinator.mechanisms import Distributed, DistributedTwoPhase
from coordinator.members import Member, tell_left_out
from coordinator.secagg.drive import drive
from coordinator.secagg.machine import Aggregation, SecureSum, StageReport
from protocol.errors import ConfigError
from protocol.labels import Progress, no_progress
from protocol.messages import WireModel
from protocol.secagg.errors import BadShare, ThresholdNotMet
from protocol.secagg.identity import Identity
from protocol.secagg.messages import REPLIES, SecAggMessage
from protocol.secagg.roster import Roster
from protocol.secagg.session import SessionDescriptor
from protocol.secagg.stages import Stage

ATTEMPTS = 2
"""How often a stage is sent where too few answered; parties answer a repeated request with the same bytes."""


@dataclass(frozen=True)
class SecureKeys:
    """What the coordinator needs for sums that it cannot open: the roster, and its own signing key."""

    roster: Roster
    signer: Identity

    def check(self, config: FederationConfig) -> None:
        """Raise ConfigError or SecAggError unless they are those of the federation, and its noise fits the roster."""
        if self.roster.digest != config.roster:
            raise ConfigError(
                f"the roster has hash {self.roster.digest[:12]}, the federation asks for {config.roster[:12]}",
                "Use the roster that the federation was made with",
            )
        mechanism = config.mechanism
        sure = self.roster.u_min - self.roster.c
        if isinstance(mechanism, Distributed | DistributedTwoPhase) and mechanism.noise_shares > sure:
            raise ConfigError(
                f"mechanism.noise_shares {mechanism.noise_shares} is above the {sure} honest parties that are sure to"
                f" be in a sum (u_min {self.roster.u_min} less {self.roster.c} colluders)",
                f"Set it to {sure}",
            )


class SecureCollector:
    """The `Ballot` of secure and distributed votes.

    folder: where the states of open sessions are kept, made on first use.
    """

    def __init__(
        self,
        transport: Transport,
        config: FederationConfig,
        members: list[Member],
        keys: SecureKeys,
        folder: Path,
        standing: Standing,
        log: EventLog,
    ) -> None:
        keys.check(config)
        self._standing = standing
        self._transport, self._config, self._keys, self._log = transport, config, keys, log
        self._nodes = {member.party: member.node for member in members}
        self._folder = folder
        self._summed: list[Path] = []

    def __call__(
        self, queries: np.ndarray, query_set: str, progress: Progress = no_progress, phase: int = 1
    ) -> Histogram:
        """The sum over those who were there to the end, with the parties' noise in distributed mode.

        Raises
        ------
        ThresholdNotMet, BadShare, BadSum : there is no sum. The session can be tried again with the same queries.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{query_set[:32]}-{phase}.session"
        self._summed.append(path)
        if path.exists():
            done = self._resume(path, queries, progress)
            if done is not None:
                return self._histogram(done)
        terms = self._terms(queries, phase)
        machine = Aggregation(
            self._keys.roster, self._keys.signer, terms, queries, list(self._nodes), self._standing.proof(queries)
        )
        return self._histogram(self._run(machine, path, progress))

    def settle(self) -> None:
        """Forget the sessions that gave the last sums: these are in the ledger. Those that failed are kept."""
        for path in self._summed:
            path.unlink(missing_ok=True)
        self._summed.clear()

    def _terms(self, queries: np.ndarray, phase: int) -> SessionDescriptor:
        mechanism = self._config.mechanism
        noisy = isinstance(mechanism, Distributed | DistributedTwoPhase)
        return SessionDescriptor.create(
            self._keys.roster,
            self._config.digest(),
            queries,
            len(self._config.rows.classes),
            self._config.teachers_per_party,
            position=self._standing.position(),
            sigma=mechanism.sigma_of(phase) if noisy else 0.0,
            noise_shares=mechanism.noise_shares if noisy else 0,
            phase=cast(Literal[1, 2], phase),
        )

    def _resume(self, path: Path, queries: np.ndarray, progress: Progress) -> SecureSum | None:
        """Go on where a coordinator stopped; None if the parties have forgotten the session, or it cannot be read.

        A new session is then begun, which parties that did not forget will refuse: they, not we, guard against a second
        sum.
        """
        try:
            machine = Aggregation.load(
                path, self._keys.roster, self._keys.signer, queries, self._standing.proof(queries)
            )
            self._log.write("resumed-session", stage=str(machine.stage or "done"))
            return self._run(machine, path, progress)
        except (ThresholdNotMet, BadShare, ConfigError) as error:
            self._log.write("session-lost", reason=type(error).__name__)
            path.unlink(missing_ok=True)
            return None

    def _run(self, machine: Aggregation, path: Path, progress: Progress) -> SecureSum:
        def report(stage: StageReport) -> None:
            tell_left_out(self._log, str(stage.stage), {name: Failure(why) for name, why in stage.dropped.items()})

        def send(stage: Stage, asked: Mapping[str, SecAggMessage]) -> dict[str, WireModel | str]:
            return self._send(stage, asked, progress)

        for attempt in range(ATTEMPTS):
            try:
                return drive(machine, send, path=path, progress=report)
            except ThresholdNotMet as error:
                reasons = {name: Failure(why) for name, why in machine.dropped.get(Stage(error.stage), {}).items()}
                tell_left_out(self._log, error.stage, reasons)
                if attempt + 1 == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _send(self, stage: Stage, asked: Mapping[str, SecAggMessage], progress: Progress) -> dict[str, WireModel | str]:
        timeouts = self._config.timeouts
        name = f"secure sum: {stage}"
        self._log.write("stage", stage=name, total=len(asked))

        def told(done: int, total: int) -> None:
            self._log.write("progress", stage=name, done=done, total=total)
            progress(name, done, total)

        by_node = {self._nodes[party]: party for party in asked}
        replies = exchange(
            self._transport,
            {self._nodes[party]: request for party, request in asked.items()},
            REPLIES[stage],
            timeouts.vote if stage is Stage.MASKED else timeouts.secure,
            told,
        )
        return {
            **{by_node[node]: failure.reason for node, failure in replies.failures.items()},
            **{by_node[node]: reply for node, reply in replies.answers.items()},
        }

    def _histogram(self, result: SecureSum) -> Histogram:
        return Histogram(
            result.sums, tuple(sorted(result.survivors)), len(result.survivors) * self._config.teachers_per_party
        )
