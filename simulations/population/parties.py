"""Simulated parties: their keys, teachers and policies of their own, how often their answers count."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from consilium.aggregator import SETTINGS
from consilium.coordinator.collection.secure import SecureKeys
from consilium.coordinator.collection.verified import VerifiedKeys
from consilium.coordinator.config import Federation
from consilium.models.keys import TeacherKind
from consilium.models.table import check_teacher
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.messages import CollectionMode
from consilium.protocol.refusals import Refused
from consilium.protocol.schema import Schema
from consilium.simulations.population.specs import SimulationSpec, TeacherShare, drawn_parties
from consilium.sums.roster import AggregatorEntry, Roster, VerifiedRoster

COORDINATOR, SECOND = "/coordinator", "/second-aggregator"  # no party can have these names


@dataclass(frozen=True)
class SimulatedIdentities:
    """Keys by party, the coordinator's key, and the roster of them all."""

    parties: dict[str, Identity]
    coordinator: Identity
    roster: Roster

    @property
    def keys(self) -> SecureKeys:
        """What the coordinator has of it."""
        return SecureKeys(self.roster, self.coordinator)


def simulated_identities(names: Sequence[str], federation: Federation, seed: int) -> SimulatedIdentities:
    """Keys of simulated nodes, derived from the run's seed.

    The roster's hash is part of the federation's, which an audit must find again. Whoever knows the
    seed has the keys: they protect nobody.

    Raises ConfigError where no safe roster of so many parties exists.
    """
    parties = {name: identity_of(name, seed) for name in names}
    coordinator = identity_of(COORDINATOR, seed)
    keys = {name: identity.public.hex() for name, identity in parties.items()}
    roster = Roster.build(keys, coordinator.public.hex(), federation.colluders, federation.least_survivors)
    return SimulatedIdentities(parties, coordinator, roster)


@dataclass(frozen=True)
class SimulatedAggregators:
    """Of verified votes: keys by party, both keys of the coordinator and of the second aggregator, and the roster."""

    parties: dict[str, Identity]
    coordinator: Identity
    coordinator_sealing: SealingKey
    second: Identity
    second_sealing: SealingKey
    roster: VerifiedRoster

    @property
    def keys(self) -> VerifiedKeys:
        """What the coordinator has of it."""
        return VerifiedKeys(self.roster, self.coordinator, self.coordinator_sealing)

    def write_second(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """The home of the second aggregator, a new folder. settings: as its `aggregator.toml` has them."""
        folder.mkdir(mode=0o700, parents=True)
        self.second.save(folder / "identity.pem")
        self.second_sealing.save(folder / "sealing.pem")
        self.roster.save(folder / "roster.json")
        (folder / SETTINGS).write_text(tomli_w.dumps(settings))


def simulated_aggregators(names: Sequence[str], federation: Federation, seed: int) -> SimulatedAggregators:
    """Keys for these parties and both aggregators. Raises ConfigError where no roster of so many is safe."""
    parties = {name: identity_of(name, seed) for name in names}
    coordinator, second = identity_of(COORDINATOR, seed), identity_of(SECOND, seed)
    leads, helps = _sealing(COORDINATOR, seed), _sealing(SECOND, seed)
    roster = VerifiedRoster.build(
        {name: identity.public.hex() for name, identity in parties.items()},
        _entry(coordinator, leads),
        _entry(second, helps),
        federation.colluders,
        federation.least_survivors,
    )
    return SimulatedAggregators(parties, coordinator, leads, second, helps, roster)


KEYS: Mapping[
    CollectionMode, Callable[[Sequence[str], Federation, int], SimulatedIdentities | SimulatedAggregators | None]
]
KEYS = {
    "plaintext": lambda names, federation, seed: None,
    "secure": simulated_identities,
    "verified": simulated_aggregators,
}
"""By how votes are collected."""


def simulated_keys(
    federation: Federation, names: Sequence[str], seed: int
) -> SimulatedIdentities | SimulatedAggregators | None:
    """Keys and roster; None for plaintext votes. Raises ConfigError if no roster is safe."""
    return KEYS[federation.collection](names, federation, seed)


def _entry(identity: Identity, sealing: SealingKey) -> AggregatorEntry:
    return AggregatorEntry(ed25519_pk=identity.public.hex(), x25519_pk=sealing.public.hex())


def _sealing(name: str, seed: int) -> SealingKey:
    return SealingKey(hashlib.sha256(f"consilium simulation {seed} {name} sealing".encode()).digest())


def identity_of(name: str, seed: int) -> Identity:
    """Signing key of a simulated node, derived from the run's seed."""
    secret = hashlib.sha256(f"consilium simulation {seed} {name}".encode()).digest()
    return Identity.of_secret(secret)


_TEACHERS = 0x6B696E64
"""Purpose of the lot."""


def own_teachers(
    shares: Sequence[TeacherShare], parties: int, seed: int, others: TeacherKind | None = None
) -> dict[int, TeacherKind]:
    """Index of a party -> its own teacher: that of its share, drawn by lot, else that of all `others`; parties without
    one train what the coordinator asks."""
    teachers = {} if others is None else dict.fromkeys(range(parties), others)
    return teachers | {index: item.teacher for index, item in drawn_parties(shares, parties, seed, _TEACHERS).items()}


def teachers_named(simulation: SimulationSpec) -> list[TeacherKind]:
    """Every teacher that some simulated party may have of its own."""
    everybody = [] if simulation.own_teacher is None else [simulation.own_teacher]
    return [*everybody, *(item.teacher for item in simulation.teachers)]


def check_own_teachers(simulation: SimulationSpec, schema: Schema) -> None:
    """Raise ConfigError unless each can be trained on made-up rows of this schema: once here, before all parties."""
    for teacher in teachers_named(simulation):
        try:
            check_teacher(teacher, schema)
        except Refused as error:
            raise ConfigError(f"a simulated party's own teacher: {error.detail}") from None


def why_untrainable(simulation: SimulationSpec, schema: Schema, progress: Progress = no_progress) -> str:
    """What is wrong with them in this process, where parties are; empty where nothing is. progress: not told."""
    try:
        check_own_teachers(simulation, schema)
    except ConfigError as error:
        return str(error)
    return ""
