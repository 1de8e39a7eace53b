"""The roster that a node pins, as its checks and its people see it, however votes are collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from consilium.node.keys import grouped
from consilium.protocol.identity import digest
from consilium.protocol.messages import CollectionMode
from consilium.sums.roster import AggregatorEntry, Roster, VerifiedRoster

ROSTER = "roster.json"


@dataclass(frozen=True)
class PinnedRoster:
    """Public keys, hex: `parties` by name and the coordinator's, Ed25519. Of verified votes
    coordinator_sealing, X25519, and second: those of the second aggregator. sure: parties other than assumed colluders
    in every sum. weights: times that a party's answers count, where not once."""

    digest: str
    parties: Mapping[str, str]
    coordinator: str
    coordinator_sealing: str = ""
    second: AggregatorEntry | None = None
    sure: int = 0
    weights: Mapping[str, int] = field(default_factory=dict)

    @property
    def second_fingerprint(self) -> str:
        """SHA-256 of the second aggregator's keys, in groups of four; empty where there is none."""
        if self.second is None:
            return ""
        return grouped(digest("aggregator-fingerprint", *map(bytes.fromhex, self.second.model_dump().values())).hex())


def _none(path: Path) -> None:
    """Plaintext votes have no roster."""


def _secure(path: Path) -> PinnedRoster:
    found = Roster.load(path)
    keys = {entry.id: entry.ed25519_pk for entry in found.parties}
    weights = {entry.id: entry.weight for entry in found.parties}
    sure = found.least_sum - found.c
    return PinnedRoster(found.digest, keys, found.coordinator_pk, sure=sure, weights=weights)


def _verified(path: Path) -> PinnedRoster:
    found = VerifiedRoster.load(path)
    keys = {entry.id: entry.ed25519_pk for entry in found.parties}
    sure = found.least_sum - found.c
    return PinnedRoster(found.digest, keys, found.leader.ed25519_pk, found.leader.x25519_pk, found.helper, sure)


LOADERS: Mapping[CollectionMode, Callable[[Path], PinnedRoster | None]] = {
    "plaintext": _none,
    "secure": _secure,
    "distributed": _secure,
    "verified": _verified,
}


def pinned_roster(collection: CollectionMode, path: Path) -> PinnedRoster | None:
    """The roster in a file, for votes that are collected so; None for plaintext votes.

    Raises
    ------
    ConfigError : no such file, or no safe roster for that way to collect votes.
    """
    return LOADERS[collection](path)
