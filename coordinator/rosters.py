"""Rosters by how votes are collected, held against a federation by whoever has no private key; least parties."""

from __future__ import annotations

from consilium.coordinator.collection.secure import check_digest, check_masked_sums
from consilium.coordinator.collection.verified import check_verified_sums
from consilium.coordinator.config import Federation, FederationConfig
from consilium.sums.roster import Roster, VerifiedRoster, least_sum

AnyRoster = Roster | VerifiedRoster


def least_accepted(federation: Federation, parties: int) -> int:
    """Parties of so many that must be in a verified sum: as the federation says, else as many as in a secure one."""
    if federation.least_survivors is not None:
        return federation.least_survivors
    return least_sum(parties, federation.colluders)


def check_sums(config: FederationConfig, roster: AnyRoster | None) -> None:
    """Raise ConfigError unless the sums of a federation over this roster can be computed; plaintext votes have none."""
    match roster:
        case Roster():
            check_digest(config, roster)
            check_masked_sums(config, roster)
        case VerifiedRoster():
            check_verified_sums(config, roster)


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
