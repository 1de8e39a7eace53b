"""What operator and coordinator read of the signed folder; its roster, held against the federation; least parties."""

from __future__ import annotations

import math
from collections.abc import Mapping

from consilium.coordinator.collection.means import VoteKeys, check_digest
from consilium.coordinator.collection.plaintext import PlaintextVotes
from consilium.coordinator.collection.secure import SecureKeys
from consilium.coordinator.collection.verified import VerifiedKeys
from consilium.coordinator.config import Federation, FederationConfig
from consilium.node.signed import FederationFile
from consilium.protocol.messages import CollectionMode
from consilium.sums.roster import SumRoster

WAYS: Mapping[CollectionMode, type[VoteKeys]] = {
    "plaintext": PlaintextVotes,
    "secure": SecureKeys,
    "verified": VerifiedKeys,
}


class ServedFederation(FederationFile):
    """`federation.json`: see `FederationFile`, with all that the coordinator runs."""

    config: FederationConfig  # pyright: ignore[reportIncompatibleVariableOverride] - of the same table, more of it


def check_sums(config: FederationConfig, roster: SumRoster | None) -> None:
    """Raise ConfigError unless the sums of a federation over this roster can be computed; plaintext votes have none."""
    if roster is not None:
        check_digest(config, roster)
        WAYS[config.collection].check_sums(config, roster)


def least_parties(federation: Federation, roster: SumRoster | None) -> int:
    """The federation's minimum; as many as a secure sum needs; and as many as can pass every threshold at all.

    roster: None for plaintext votes.
    """
    needed = math.ceil(federation.mechanism.votes_needed / federation.teachers_per_party)
    return max(federation.minimum_parties, 0 if roster is None else roster.least, needed)
