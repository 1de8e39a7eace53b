"""Simulated parties: their keys and their own teacher."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from consilium.coordinator.collection.means import VoteKeys
from consilium.coordinator.collection.ways import WAYS
from consilium.coordinator.config import Federation
from consilium.models.table import check_teacher
from consilium.node.keys import IDENTITY, SEALING
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.refusals import Refused
from consilium.protocol.schema import Schema
from consilium.simulations.population.specs import SimulationSpec
from consilium.sums.modes import MODES
from consilium.sums.roster import AggregatorEntry, SumRoster

COORDINATOR, SECOND = "/coordinator", "/second-aggregator"  # no party can have these names


@dataclass(frozen=True)
class SimulatedKeys:
    """The roster of simulated nodes. keys: what the coordinator has of them."""

    roster: SumRoster
    keys: VoteKeys


def simulated_keys(federation: Federation, names: Sequence[str], seed: int) -> SimulatedKeys | None:
    """Keys of simulated nodes, derived from the run's seed; None for plaintext votes. The roster's hash is part of the
    federation's, which an audit must find again. Whoever knows the seed has the keys: they protect nobody. Raises
    ConfigError where no safe roster of so many parties exists."""
    if federation.collection not in MODES:
        return None
    coordinator, second = identity_of(COORDINATOR, seed), identity_of(SECOND, seed)
    sealing, second_sealing = sealing_of(COORDINATOR, seed), sealing_of(SECOND, seed)
    roster = MODES[federation.collection].roster.build(
        {name: identity_of(name, seed).public.hex() for name in names}, coordinator.public.hex(), federation.colluders,
        federation.least_survivors, sealing=sealing.public.hex(),
        second=AggregatorEntry(ed25519_pk=second.public.hex(), x25519_pk=second_sealing.public.hex()),
    )  # fmt: skip
    keys = WAYS[federation.collection].keys(roster, {IDENTITY: coordinator, SEALING: sealing})
    return SimulatedKeys(roster, keys)


def sealing_of(name: str, seed: int) -> SealingKey:
    """Key of a simulated aggregator's link, derived likewise."""
    return SealingKey(hashlib.sha256(f"consilium simulation {seed} {name} sealing".encode()).digest())


def identity_of(name: str, seed: int) -> Identity:
    """Signing key of a simulated node, derived from the run's seed."""
    secret = hashlib.sha256(f"consilium simulation {seed} {name}".encode()).digest()
    return Identity(secret)


def check_own_teacher(simulation: SimulationSpec, schema: Schema) -> None:
    """Raise ConfigError unless it can be trained on made-up rows of this schema: once here, before all parties."""
    if simulation.own_teacher is not None:
        try:
            check_teacher(simulation.own_teacher, schema)
        except Refused as error:
            raise ConfigError(f"a simulated party's own teacher: {error.detail}") from None


def why_untrainable(simulation: SimulationSpec, schema: Schema, progress: Progress = no_progress) -> str:
    """What is wrong with it in this process, where parties are; empty where nothing is. progress: not told."""
    try:
        check_own_teacher(simulation, schema)
    except ConfigError as error:
        return str(error)
    return ""
