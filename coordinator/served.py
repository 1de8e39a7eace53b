"""What operator and coordinator read of the signed folder; its roster, held against the federation; least parties."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from consilium.coordinator.collection.means import VoteKeys
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.collection.secure import SecureKeys, check_digest, check_masked_sums
from consilium.coordinator.collection.verified import VerifiedKeys, check_verified_sums
from consilium.coordinator.config import Federation, FederationConfig
from consilium.node.keys import IDENTITY, SEALING
from consilium.node.signed import FederationFile
from consilium.protocol.messages import CollectionMode
from consilium.sums.roster import SumRoster


@dataclass(frozen=True)
class Way:
    """keys: of the roster, None for plaintext votes, and the coordinator's own private keys by file, as `OwnKeys` has
    them. check: raise ConfigError unless sums over a roster can be computed in a federation."""

    keys: Callable[[Any, Mapping[str, Any]], VoteKeys]
    check: Callable[[FederationConfig, Any], None]


WAYS: Mapping[CollectionMode, Way] = {
    "plaintext": Way(lambda roster, own: PLAINTEXT, lambda config, roster: None),
    "secure": Way(lambda roster, own: SecureKeys(roster, own[IDENTITY]), check_masked_sums),
    "verified": Way(lambda roster, own: VerifiedKeys(roster, own[IDENTITY], own[SEALING]), check_verified_sums),
}


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
