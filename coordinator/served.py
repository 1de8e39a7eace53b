"""What operator and coordinator read of the signed folder; its roster, held against the federation; least parties."""

from __future__ import annotations

import math

from consilium.coordinator.collection.secure import check_digest
from consilium.coordinator.collection.ways import WAYS
from consilium.coordinator.config import Federation, FederationConfig
from consilium.node.signed import FederationFile
from consilium.sums.roster import SumRoster


class ServedFederation(FederationFile):
    """`federation.json`: see `FederationFile`, with all that the coordinator runs."""

    config: FederationConfig  # pyright: ignore[reportIncompatibleVariableOverride] - of the same table, more of it


def check_sums(config: FederationConfig, roster: SumRoster | None) -> None:
    """Raise ConfigError unless the sums of a federation over this roster can be computed; plaintext votes have none."""
    if roster is not None:
        check_digest(config, roster)
        WAYS[config.collection].check(config, roster)


def least_together(federation: Federation, least_sum: int) -> int:
    """`least_parties` where so many must be in a sum, 0 for plaintext votes."""
    needed = federation.mechanism.votes_needed
    return max(federation.minimum_parties, least_sum, math.ceil(needed / federation.teachers_per_party))


def least_parties(federation: Federation, roster: SumRoster | None) -> int:
    """The federation's minimum; as many as a secure sum needs; and as many as can pass every threshold at all.

    roster: None for plaintext votes.
    """
    return least_together(federation, 0 if roster is None else roster.least)
