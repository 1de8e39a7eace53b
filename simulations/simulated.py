"""The simulated parties of a case as plain data, which any process can make parties from."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from consilium.aggregator.node import AggregatorNode
from consilium.aggregator.store import GivenStore
from consilium.data.mapping import DataRules, LabelRule, PatientRule
from consilium.data.private_rows import MemoryRows, remarks
from consilium.models.keys import TeacherKind
from consilium.node.limits import NodePolicy
from consilium.party.home import PartySettings
from consilium.party.node import PartyNode
from consilium.party.policy import Policy
from consilium.party.store import Store
from consilium.protocol.files import private_folder, write_private
from consilium.simulations.divide import Case
from consilium.simulations.population.parties import SECOND, identity_of, own_teachers, sealing_of
from consilium.sums.roster import SumRoster, VerifiedRoster

FILE = "population.pickle"


@dataclass(frozen=True)
class SimulatedParty:
    """x float (n, features), y int64 (n,), and patient (n,) where patients are known. teacher: its own kind."""

    name: str
    arrays: Mapping[str, np.ndarray] = field(repr=False)
    teacher: TeacherKind | None


@dataclass(frozen=True)
class Population:
    """parties: by their index in the case. features, classes: of all rows. seed: of the run, which the keys are made
    from: they protect nobody. roster: None for plaintext votes. aggregator: folder of what the second aggregator of
    verified votes remembers, which is the node after the last party."""

    parties: Mapping[int, SimulatedParty]
    features: tuple[str, ...]
    classes: tuple[str, ...]
    policy: Policy
    patients_known: bool
    seed: int
    roster: SumRoster | None
    noise_seed: int | None
    aggregator: Path | None = None

    @classmethod
    def of(cls, case: Case, work: Path | None = None) -> Population:
        """All parties of a case, with what they train on. work: a new folder for the second aggregator, where votes are
        collected. Raises ConfigError if no roster is safe, or a file of a party's own teacher cannot be read."""
        dataset, scenario, simulation = case.dataset, case.scenario, case.scenario.simulation
        by_owner = dataset.patient is None and scenario.data.partition == "groups"
        whose = dataset.owner if by_owner else dataset.patient
        teachers = own_teachers(simulation, len(case.parties), case.seed)
        identities, parties = case.identities(), dict[int, SimulatedParty]()
        for index, name in enumerate(case.parties):
            rows, teacher = case.partition.parties[name], teachers.get(index)
            arrays = {"x": dataset.x[rows], "y": dataset.y[rows], **({} if whose is None else {"patient": whose[rows]})}
            parties[index] = SimulatedParty(name, arrays, None if teacher is None else teacher.anywhere())
        policy = Policy(
            allowed_classes=dataset.classes,
            least_rows_per_teacher=0,  # the division left out who has too few
            most_teachers=scenario.federation.teachers_per_party,
            most_queries=simulation.most_queries,
            most_epsilon=float("inf"),
            unit=scenario.federation.privacy.unit,
            collection=case.config.collection,
            allow_simulation=True,
        )
        aggregator = None
        if work is not None and identities is not None and identities.roster.second is not None:
            aggregator = private_folder(work / "aggregator")
        return cls(
            parties,
            tuple(dataset.features),
            tuple(dataset.classes),
            policy,
            whose is not None,
            case.seed,
            None if identities is None else identities.roster,
            case.config.noise_seed,
            aggregator,
        )

    @property
    def nodes(self) -> int:
        """The parties, and the second aggregator of verified votes."""
        return len(self.parties) + (self.aggregator is not None)

    def part(self, indices: Iterable[int]) -> Population:
        """The same with these parties alone."""
        return replace(self, parties={index: self.parties[index] for index in indices if index in self.parties})

    def party(self, index: int, store: Store) -> PartyNode:
        """The party of this index, with what it remembers."""
        party, teacher = self.parties[index], self.parties[index].teacher
        rules = DataRules(
            label=LabelRule(allow_one_class=True),
            patient=PatientRule(column="patient" if self.patients_known else None),
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
        """The node after the last party, which gives what the parties give."""
        if self.aggregator is None or not isinstance(self.roster, VerifiedRoster):
            raise LookupError("no second aggregator is among these nodes")
        policy = NodePolicy(
            most_queries=self.policy.most_queries,
            most_epsilon=self.policy.most_epsilon,
            unit=self.policy.unit,
            allow_simulation=True,
        )
        return AggregatorNode(
            GivenStore(self.aggregator / "given.db"),
            name="second-aggregator",
            policy=policy,
            roster=self.roster,
            identity=identity_of(SECOND, self.seed),
            sealing=sealing_of(SECOND, self.seed),
            noise_seed=self.noise_seed,
        )

    def save(self, folder: Path) -> None:
        """For processes that are not this one's: into a folder that only its owner can read."""
        write_private(folder / FILE, pickle.dumps(self))

    @classmethod
    def load(cls, folder: Path) -> Population:
        """What was saved there, by this run and nobody else. Raises OSError."""
        return pickle.loads((folder / FILE).read_bytes())


@contextmanager
def unremarked() -> Iterator[None]:
    """What is odd about a party's rows is for whoever looks after them: here nobody does."""
    before, remarks.disabled = remarks.disabled, True
    try:
        yield
    finally:
        remarks.disabled = before
