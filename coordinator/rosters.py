"""Rosters by how votes are collected, held against a federation by whoever has no private key; least parties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from consilium.coordinator.collection.secure import SecureKeys
from consilium.coordinator.collection.verified import check_verified_sums
from consilium.coordinator.config import Federation, FederationConfig
from consilium.protocol.identity import Identity
from consilium.protocol.messages import CollectionMode
from consilium.sums.roster import Roster, VerifiedRoster, least_sum

AnyRoster = Roster | VerifiedRoster


def _none(path: Path) -> None:
    """Plaintext votes have no roster."""


LOADERS: Mapping[CollectionMode, Callable[[Path], AnyRoster | None]] = {
    "plaintext": _none,
    "secure": Roster.load,
    "distributed": Roster.load,
    "verified": VerifiedRoster.load,
}


def load_roster(collection: CollectionMode, path: Path) -> AnyRoster | None:
    """The roster in a file, for votes that are collected so; None for plaintext votes. Raises ConfigError."""
    return LOADERS[collection](path)


def least_accepted(federation: Federation, parties: int) -> int:
    """Parties of so many that must be in a verified sum: as the federation says, else as many as in a secure one."""
    if federation.least_survivors is not None:
        return federation.least_survivors
    return least_sum(parties, federation.colluders)


def _secure_sums(config: FederationConfig, roster: Any) -> None:
    SecureKeys(roster, Identity.generate()).check(config)  # the check does not look at the signer


def _no_sums(config: FederationConfig, roster: Any) -> None:
    """Plaintext votes are added up as they come."""


SUMS: Mapping[CollectionMode, Callable[[FederationConfig, Any], None]] = {
    "plaintext": _no_sums,
    "secure": _secure_sums,
    "distributed": _secure_sums,
    "verified": check_verified_sums,
}


def check_sums(config: FederationConfig, roster: AnyRoster | None) -> None:
    """Raise ConfigError or SecAggError unless the sums of a federation over this roster can be computed."""
    SUMS[config.collection](config, roster)


def least_together(federation: Federation, least_sum: int) -> int:
    """`least_parties` where so many must be in a sum, 0 for plaintext votes."""
    needed = max(phase.mechanism.votes_needed for phase in federation.phases)
    most_votes = federation.teachers_per_party * federation.most_weight
    return max(federation.minimum_parties, least_sum, -(-needed // most_votes))


def least_parties(federation: Federation, roster: Roster | None) -> int:
    """The federation's minimum; as many as a secure sum needs; and as many as can pass every threshold at all.

    roster: of secure and distributed votes, None for plaintext ones.
    """
    return least_together(federation, 0 if roster is None else roster.u_min)
