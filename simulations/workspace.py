"""What a simulation lays out on disk before it starts: the same files that real nodes have.

RUN/private/work/federation.json     the coordinator's configuration
RUN/private/work/public.npz            the student's public rows
RUN/private/work/public.npy            ids of the rows that may be asked, for secure votes
RUN/private/work/student.json        how the student learns, and its seed
RUN/private/work/roster.json         for all but plaintext votes, and
RUN/private/work/coordinator.pem     the coordinator's signing key, and
RUN/private/work/sealing.pem         for verified votes, its key of the link to the second aggregator
RUN/private/work/parties/00017/      one party's home: party.toml, data.npz, identity.pem, later state/; or a block of
                                     parties, see `engines.block`; for verified votes the last one is the second
                                     aggregator's: aggregator.toml, keys, later state/
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from consilium.aggregator import SETTINGS as AGGREGATOR
from consilium.coordinator.config import FederationConfig
from consilium.party.home import SETTINGS, Home, open_home
from consilium.party.voting import TeacherSet, load_teachers
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.queries import canonical_queries
from consilium.simulations.divide import Case
from consilium.simulations.engines.block import SETTINGS as BLOCK
from consilium.simulations.engines.block import Block, blocks_of, party_folder, write_block
from consilium.simulations.engines.block import Settings as BlockSettings
from consilium.simulations.population import public
from consilium.simulations.population.parties import KeyFiles, own_teachers
from consilium.simulations.scenario import Scenario
from consilium.student.config import StudentSpec
from consilium.student.pool import Pool, load_pool


@dataclass(frozen=True)
class Workspace:
    """Paths of one simulated run."""

    run_dir: Path

    @property
    def private(self) -> Path:
        """What exists only because this is a simulation: exact votes, private rows."""
        return self.run_dir / "private"

    @property
    def work(self) -> Path:
        return self.private / "work"

    @property
    def federation_file(self) -> Path:
        return self.work / "federation.json"

    @property
    def roster_file(self) -> Path:
        return self.work / "roster.json"

    @property
    def pool_file(self) -> Path:
        return self.work / "public.npy"

    @property
    def identity_file(self) -> Path:
        return self.work / "coordinator.pem"

    @property
    def sealing_file(self) -> Path:
        return self.work / "sealing.pem"

    def run_config(self, run_dir: Path, student: str) -> dict[str, str]:
        """The run configuration that the ServerApp and the simulated nodes get."""
        secure = self.roster_file.exists()
        return {
            "federation-file": str(self.federation_file),
            "run-dir": str(run_dir),
            "student": student,
            "party-root": str(self.party_root),
            "roster-file": str(self.roster_file) if secure else "",
            "identity-file": str(self.identity_file) if secure else "",
            "sealing-file": str(self.sealing_file) if self.sealing_file.exists() else "",
            "public-file": str(self.pool_file) if self.pool_file.exists() else "",
        }

    @property
    def party_root(self) -> Path:
        return self.work / "parties"

    def home(self, index: int) -> Path:
        """Home of the party with this partition id."""
        return self.party_root / f"{index:05d}"

    @property
    def nodes(self) -> int:
        """How many were laid out, beside the coordinator."""
        return sum(1 for _ in self.party_root.iterdir())

    @property
    def in_blocks(self) -> bool:
        """Whether one node answers for many parties."""
        return (self.home(0) / BLOCK).exists()

    def blocks(self) -> Iterator[Block]:
        """Each, in order."""
        yield from map(Block.open, sorted(path.parent for path in self.party_root.glob(f"*/{BLOCK}")))

    def party(self, index: int) -> Home:
        """Settings of the party with this number."""
        if not self.in_blocks:
            return open_home(self.home(index), durable=False)
        number, place = divmod(index, len(Block.open(self.home(0)).settings.names))
        return Block.open(self.home(number)).home(place)

    def trained(self, config: FederationConfig) -> Iterator[tuple[int, Home, TeacherSet]]:
        """Number of each party that has trained, its settings and its teachers."""
        federation = config.digest()
        if self.in_blocks:
            for block in self.blocks():
                for place in range(len(block.settings.names)):
                    if (teachers := block.teacher_set(federation, place)) is not None:
                        yield block.settings.first + place, block.home(place), teachers
            return
        for home in sorted(path.parent for path in self.party_root.glob(f"*/{SETTINGS}")):
            opened = open_home(home, durable=False)
            if opened.teachers(federation).exists():
                yield int(home.name), opened, load_teachers(opened.teachers(federation), federation)

    def student(self) -> tuple[Pool, StudentSpec, int]:
        """The student's pool, specification and seed."""
        table = json.loads((self.work / "student.json").read_text(encoding="utf-8"))
        return load_pool(self.work / "public.npz"), StudentSpec.model_validate(table["spec"]), table["seed"]


def make_run_dir(path: Path) -> Workspace:
    """Create the output folder.

    Raises
    ------
    OutputExists : it is there already. ConfigError : it cannot be made.
    """
    try:
        path.mkdir(parents=True, mode=0o700)  # summary and ledger hold functions of the votes
    except FileExistsError:
        raise OutputExists(f"output folder {path} exists already", "Choose another with --out, or remove it") from None
    except OSError as error:
        raise ConfigError(f"cannot make output folder {path}: {error.strerror}", "Choose another with --out") from None
    return Workspace(path.resolve())


def lay_out(space: Workspace, case: Case, processes: int = 0) -> None:
    """Write all files of the simulated nodes.

    processes: that will compute at the same time, of blocks of parties, see `engines.block`; 0: a home for each party.
    """
    scenario, config = case.scenario, case.config
    dataset, partition = case.dataset, case.partition
    blocks = blocks_of(len(case.parties), processes) if processes else []
    space.private.mkdir(mode=0o700, exist_ok=True)
    space.party_root.mkdir(parents=True)
    space.federation_file.write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")
    width, known = len(dataset.features), dict[str, Any]()
    if case.known_labels is not None:
        known["y"] = case.known_labels
    np.savez(
        space.work / "public.npz",
        features=np.array(dataset.features),
        queries=public.queries(dataset, partition),
        test_x=canonical_queries(dataset.x[partition.test], width),
        test_y=dataset.y[partition.test],
        **known,
    )
    if config.public is not None:
        public.pool(dataset, partition).save(space.pool_file)
    student = {"spec": scenario.student.model_dump(mode="json"), "seed": case.seed}
    (space.work / "student.json").write_text(json.dumps(student) + "\n", encoding="utf-8")
    parties = _Parties(case, space)
    if parties.identities is not None:
        second = space.home(len(blocks or partition.parties))
        parties.identities.save(KeyFiles(space.roster_file, space.identity_file, space.sealing_file, second))
        if second.exists():
            (second / AGGREGATOR).write_text(tomli_w.dumps(_second_aggregator(space, scenario, config)))
    if blocks:
        for number, places in enumerate(blocks):
            parties.write_block(space.home(number), places)
    else:
        for index in range(len(partition.parties)):
            parties.write_home(space.home(index), index)


class _Parties:
    """The parties of a case as their nodes find them."""

    def __init__(self, case: Case, space: Workspace) -> None:
        dataset, scenario = case.dataset, case.scenario
        self._case, self._names = case, case.parties
        self.identities = case.identities()
        self._whose = (
            dataset.owner if dataset.patient is None and scenario.data.partition == "groups" else dataset.patient
        )
        self._shared = {"features": np.array(dataset.features), "classes": np.array(dataset.classes)}
        policy = {
            "allowed_classes": list(dataset.classes),
            # the sizes of shards vary as by lot: where there are several, any is taken
            "least_rows_per_teacher": scenario.data.rows_needed if scenario.federation.teachers_per_party == 1 else 0,
            "most_teachers": scenario.federation.teachers_per_party,
            "most_queries": scenario.simulation.most_queries,
            "most_epsilon": float("inf"),
            "unit": scenario.federation.privacy.unit.value,
            "collection": scenario.federation.collection,
            "allow_simulation": True,
        }
        self._settings: dict[str, Any] = {"data": "data.npz", "policy": policy}
        if self._whose is not None:
            self._settings["patient"] = {"column": "patient"}
        if case.config.noise_seed is not None:
            self._settings["simulated_noise_seed"] = case.config.noise_seed
        if self.identities is not None:  # a relative path: homes may be moved together with it
            self._settings["roster"] = os.path.relpath(space.roster_file, space.home(0))
        simulation, count = scenario.simulation, len(self._names)
        self._teachers = own_teachers(simulation.teachers, count, case.seed, simulation.own_teacher)

    def write_home(self, home: Path, index: int) -> None:
        """Of the party with this number alone."""
        home.mkdir(mode=0o700)
        name = self._names[index]
        if self.identities is not None:
            self.identities.parties[name].save(home / "identity.pem")
        np.savez(home / "data.npz", allow_pickle=False, **self._arrays(index), **self._shared)
        (home / SETTINGS).write_text(tomli_w.dumps({"name": name, **self._settings, **self._own(index, home)}))

    def write_block(self, folder: Path, places: range) -> None:
        """Of the parties with these numbers."""
        folder.mkdir(mode=0o700)
        arrays = [self._arrays(index) for index in places]
        tables = {place: self._own(index, party_folder(folder, place)) for place, index in enumerate(places)}
        settings = BlockSettings(
            first=places.start,
            names=tuple(self._names[index] for index in places),
            counts=tuple(len(part["y"]) for part in arrays),
            common=self._settings,
            own={place: table for place, table in tables.items() if table},
        )
        keys = [] if self.identities is None else [self.identities.parties[name].secret for name in settings.names]
        joined = {name: [part[name] for part in arrays] for name in arrays[0]}
        write_block(folder, settings, joined, self._shared, keys)

    def _arrays(self, index: int) -> dict[str, np.ndarray]:
        dataset, rows = self._case.dataset, self._case.partition.parties[self._names[index]]
        whom = {} if self._whose is None else {"patient": self._whose[rows]}
        return {"x": dataset.x[rows], "y": dataset.y[rows], **whom}

    def _own(self, index: int, home: Path) -> dict[str, Any]:
        """Settings of one party that others do not have; files that it has alone are put into its home."""
        table: dict[str, Any] = {}
        if index in self._teachers:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            table["teacher"] = self._teachers[index].placed(home).model_dump(mode="json")
        return table


def _second_aggregator(space: Workspace, scenario: Scenario, config: FederationConfig) -> dict[str, Any]:
    """`aggregator.toml`: it gives what the parties give."""
    policy = {
        "most_queries": scenario.simulation.most_queries,
        "most_epsilon": float("inf"),
        "unit": scenario.federation.privacy.unit.value,
        "allow_simulation": True,
    }
    seed = {} if config.noise_seed is None else {"simulated_noise_seed": config.noise_seed}
    roster = os.path.relpath(space.roster_file, space.home(0))
    return {"name": "second-aggregator", "roster": roster, "policy": policy, **seed}
