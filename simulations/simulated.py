"""The federation of a case as plain data: its parties, which any process can make, and its run on any engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from consilium.aggregator.node import AggregatorNode
from consilium.aggregator.store import GivenStore
from consilium.coordinator.collection.exchange import Failure, Steps, Transport, stream, tell_left_out
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import FederationRun, telling_failure
from consilium.coordinator.parts import PATIENCE
from consilium.data.mapping import DataRules, LabelRule, PatientRule
from consilium.data.private_rows import MemoryRows
from consilium.models.keys import TeacherKind
from consilium.node.limits import NodePolicy
from consilium.party.home import PartySettings
from consilium.party.node import PartyNode
from consilium.party.policy import Policy
from consilium.party.store import Store
from consilium.protocol.files import private_folder
from consilium.protocol.label_source import LabelSource
from consilium.report.progress import BASELINES
from consilium.simulations.divide import Case
from consilium.simulations.population.specs import SECOND, identity_of, sealing_of, simulated_keys
from consilium.simulations.progress import EVENTS, Recorder
from consilium.simulations.said import Heard, Questions, SaidReply, SaidRequest, packed
from consilium.student.config import StudentSpec
from consilium.student.pool import Pool
from consilium.student.run import run_student
from consilium.sums.roster import SumRoster, VerifiedRoster


@dataclass(frozen=True)
class SimulatedParty:
    """x float (n, features), y int64 (n,), and patient (n,) where patients are known. teacher: its own kind."""

    name: str
    arrays: Mapping[str, np.ndarray] = field(repr=False)
    teacher: TeacherKind | None


@dataclass(frozen=True)
class Population:
    """parties: by their index in the case. features, classes: of all rows. seed: of the run, which keys are made from:
    they protect nobody. roster: None for plaintext votes. aggregator: folder of what the second aggregator of verified
    votes remembers, which is the node after the last party."""

    parties: Mapping[int, SimulatedParty]
    features: tuple[str, ...]
    classes: tuple[str, ...]
    policy: Policy
    seed: int
    roster: SumRoster | None
    noise_seed: int | None
    aggregator: Path | None = None

    @classmethod
    def of(cls, case: Case, work: Path | None = None) -> Population:
        """All parties of a case. work: a new folder for the second aggregator, where votes are collected. Raises
        ConfigError if no roster is safe, or a file of a party's own teacher cannot be read."""
        dataset, scenario, identities = case.dataset, case.scenario, case.identities()
        columns = {"x": dataset.x, "y": dataset.y, "patient": case.patient}
        own, parties = scenario.simulation.own_teacher, dict[int, SimulatedParty]()
        teacher = None if own is None else own.anywhere()
        for index, name in enumerate(case.parties):
            rows = case.partition.parties[name]
            arrays = {key: column[rows] for key, column in columns.items() if column is not None}
            parties[index] = SimulatedParty(name, arrays, teacher)
        policy = Policy(
            allowed_classes=dataset.classes,
            least_rows_per_teacher=0,  # the division left out who has too few
            most_teachers=scenario.federation.teachers_per_party,
            most_queries=scenario.simulation.most_queries,
            most_epsilon=float("inf"),
            unit=scenario.federation.privacy.unit,
            collection=case.config.collection,
            allow_simulation=True,
        )
        roster = None if identities is None else identities.roster
        second = work is not None and roster is not None and roster.second is not None
        aggregator = private_folder(work / "aggregator") if work is not None and second else None
        features, classes = tuple(dataset.features), tuple(dataset.classes)
        return cls(parties, features, classes, policy, case.seed, roster, case.config.noise_seed, aggregator)

    @property
    def nodes(self) -> int:
        return len(self.parties) + (self.aggregator is not None)

    def part(self, indices: Iterable[int]) -> Population:
        return replace(self, parties={index: self.parties[index] for index in indices if index in self.parties})

    def party(self, index: int, store: Store) -> PartyNode:
        party, teacher = self.parties[index], self.parties[index].teacher
        rules = DataRules(
            label=LabelRule(allow_one_class=True),
            patient=PatientRule(column="patient" if "patient" in party.arrays else None),
            keep_missing=teacher is not None and teacher.keeps_missing,
        )
        settings = PartySettings(
            name=party.name,
            policy=self.policy,
            rules=rules,
            teacher=teacher,
            identity=None if self.roster is None else identity_of(party.name, self.seed),
            roster=self.roster,
            noise_seed=self.noise_seed,
            pinned=None,
        )
        arrays = {"features": np.array(self.features), "classes": np.array(self.classes), **party.arrays}
        return PartyNode(settings, MemoryRows(arrays, rules), store)

    def second_aggregator(self) -> AggregatorNode:
        if self.aggregator is None or not isinstance(self.roster, VerifiedRoster):
            raise LookupError("no second aggregator is among these nodes")
        policy = self.policy
        return AggregatorNode(
            GivenStore(self.aggregator / "given.db"),
            name="second-aggregator",
            policy=NodePolicy(
                most_queries=policy.most_queries, most_epsilon=policy.most_epsilon, unit=policy.unit,
                allow_simulation=True,
            ),
            roster=self.roster,
            identity=identity_of(SECOND, self.seed),
            sealing=sealing_of(SECOND, self.seed),
            noise_seed=self.noise_seed,
        )  # fmt: skip


@dataclass(frozen=True)
class SimulatedFederation:
    """The deployed coordinator's steps, a student beside it, and what the teachers say when it has ended. names: of the
    parties. pool, student, seed: the student's rows, how it learns, and the run's seed."""

    config: FederationConfig
    names: tuple[str, ...]
    pool: Pool = field(repr=False)
    student: StudentSpec
    seed: int
    questions: Questions = field(repr=False)

    @classmethod
    def of(cls, case: Case) -> SimulatedFederation:
        questions = Questions.of(case, study=False)
        return cls(case.config, case.parties, case.pool, case.scenario.student, case.seed, questions)

    def run(self, transport: Transport, run_dir: Path) -> Heard:
        """Enrol, train, answer the student, close; then what the teachers say. Writes and raises what
        `FederationRun.run` and `run_student` do; and the event log."""
        identities = simulated_keys(self.config, self.names, self.seed)
        log = EventLog(run_dir / EVENTS)

        def student(source: LabelSource) -> None:
            run_student(source, self.pool, self.student, run_dir, self.seed, Recorder(log))

        with closing(log), telling_failure(run_dir, log):
            keys = PLAINTEXT if identities is None else identities.keys
            FederationRun(transport, self.config, run_dir, log, student, keys).run()
            nodes, heard, lost = transport.nodes(), Heard(self.questions), dict[str, Failure]()
            request = SaidRequest(federation=self.config.digest(), questions=packed(self.questions))
            steps = Steps(log, BASELINES, len(nodes))
            for node, reply in stream(transport, dict.fromkeys(nodes, request), SaidReply, PATIENCE, steps):
                if isinstance(reply, SaidReply):
                    heard.add(reply.party, reply.said)
                elif reply.silent:
                    lost[f"node {node}"] = reply
            tell_left_out(log, BASELINES, lost)
            return heard
