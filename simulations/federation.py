"""The federation of a case as it runs on an engine: the deployed coordinator's steps, a student beside it, and what the
teachers say when it has ended. Plain data, so that an engine may run it in another process."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from consilium.coordinator.collection.exchange import Failure, Steps, Transport, stream, tell_left_out
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.conclusion import telling_failure
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import FederationRun
from consilium.coordinator.parts import PATIENCE
from consilium.protocol.label_source import LabelSource
from consilium.report.progress import BASELINES
from consilium.simulations.divide import Case
from consilium.simulations.population.parties import simulated_keys
from consilium.simulations.progress import EVENTS, Recorder
from consilium.simulations.said import Heard, Questions, SaidReply, SaidRequest
from consilium.simulations.vote import questions_of
from consilium.student.config import StudentSpec
from consilium.student.pool import Pool
from consilium.student.run import run_student


@dataclass(frozen=True)
class SimulatedFederation:
    """names: of the parties. pool, student, seed: the student's rows, how it learns, and the run's seed.
    questions: see `said`."""

    config: FederationConfig
    names: tuple[str, ...]
    pool: Pool = field(repr=False)
    student: StudentSpec
    seed: int
    questions: Questions = field(repr=False)

    @classmethod
    def of(cls, case: Case) -> SimulatedFederation:
        """Of a case. Votes are asked for once more where the run does not record them."""
        config = case.config
        sets = ("test",) if config.record_votes else ("pool", "test")
        questions = questions_of(case, sets, scores=False, alone=True)
        return cls(config, case.parties, case.pool, case.scenario.student, case.seed, questions)

    def run(self, transport: Transport, run_dir: Path) -> Heard:
        """Enrol, train, answer the student, close; then what the teachers say. Writes what `FederationRun.run` and
        `run_student` write, and the event log. Raises what they raise."""
        identities = simulated_keys(self.config, self.names, self.seed)
        log = EventLog(run_dir / EVENTS)

        def student(source: LabelSource) -> None:
            run_student(source, self.pool, self.student, run_dir, self.seed, Recorder(log))

        with closing(log), telling_failure(run_dir, log):
            keys = PLAINTEXT if identities is None else identities.keys
            FederationRun(transport, self.config, run_dir, log, student, keys).run()
            return ask_teachers(transport, self.config.digest(), self.questions, log)


def ask_teachers(transport: Transport, federation: str, questions: Questions, log: EventLog) -> Heard:
    """What all teachers of this federation say. Nodes without any are left out; those that were lost are named in the
    log."""
    nodes = transport.nodes()
    request = SaidRequest.of(federation, questions)
    heard, lost = Heard(questions), dict[str, Failure]()
    steps = Steps(log, BASELINES, len(nodes))
    for node, reply in stream(transport, dict.fromkeys(nodes, request), SaidReply, PATIENCE, steps):
        if isinstance(reply, SaidReply):
            heard.add(reply.party, reply.said)
        elif reply.silent:
            lost[f"node {node}"] = reply
    tell_left_out(log, BASELINES, lost)
    return heard
