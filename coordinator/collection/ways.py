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
from consilium.protocol.messages import CollectionMode

ROSTER_FILE, IDENTITY_FILE, SEALING_FILE = "roster-file", "identity-file", "sealing-file"


@dataclass(frozen=True)
class Way:
    """files: what the coordinator has of the roster, its signing key and its key of the link to a second aggregator, as
    run configs name the files. keys: of these, in this order. check: raise ConfigError unless sums over a roster can be
    computed in a federation."""

    files: tuple[str, ...]
    keys: Callable[..., VoteKeys]
    check: Callable[[FederationConfig, Any], None]


WAYS: Mapping[CollectionMode, Way] = {
    "plaintext": Way((), lambda: PLAINTEXT, lambda config, roster: None),
    "secure": Way((ROSTER_FILE, IDENTITY_FILE), SecureKeys, check_masked_sums),
    "verified": Way((ROSTER_FILE, IDENTITY_FILE, SEALING_FILE), VerifiedKeys, check_verified_sums),
}
