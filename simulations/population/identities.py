"""Signing keys of simulated nodes, derived from the run's seed: the roster's hash is part of the federation's, which a
resumed run and an audit must find again. Whoever knows the seed has the keys: they protect nobody."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilium.coordinator.config import Federation
from consilium.protocol.secagg.identity import Identity
from consilium.protocol.secagg.roster import Roster

COORDINATOR = "/coordinator"  # no party can have this name


@dataclass(frozen=True)
class SimulatedIdentities:
    """Keys by party, the coordinator's key, and the roster of them all."""

    parties: dict[str, Identity]
    coordinator: Identity
    roster: Roster


def simulated_identities(
    names: Sequence[str], federation: Federation, seed: int, weights: Mapping[str, int]
) -> SimulatedIdentities:
    """Keys for these parties, and a roster with their weights, 1 where none is given. Raises ConfigError where no safe
    roster of so many parties exists.
    """
    parties = {name: _identity(name, seed) for name in names}
    coordinator = _identity(COORDINATOR, seed)
    keys = {name: identity.public.hex() for name, identity in parties.items()}
    roster = Roster.build(
        keys,
        coordinator.public.hex(),
        federation.colluders,
        federation.least_survivors,
        federation.least_difference,
        weights,
    )
    return SimulatedIdentities(parties, coordinator, roster)


def _identity(name: str, seed: int) -> Identity:
    secret = hashlib.sha256(f"consilium simulation {seed} {name}".encode()).digest()
    return Identity(Ed25519PrivateKey.from_private_bytes(secret))
