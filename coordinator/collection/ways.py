"""The ways in which a coordinator collects votes: one table, which all look up who need one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from consilium.coordinator.collection.means import VoteKeys
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.collection.secure import SecureKeys, check_masked_sums
from consilium.coordinator.collection.verified import VerifiedKeys, check_verified_sums
from consilium.coordinator.config import FederationConfig
from consilium.node.keys import IDENTITY, SEALING
from consilium.protocol.messages import CollectionMode


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
