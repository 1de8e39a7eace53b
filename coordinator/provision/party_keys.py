"""Keys of parties and of the second aggregator: both halves where the operator makes them, public halves only where the
node did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from consilium.coordinator.provision.registry import AggregatorRecord, PartyRecord, Registry
from consilium.protocol.aggregators.keys import SealingKey
from consilium.protocol.errors import ConfigError
from consilium.protocol.node.enrolment import ENROLMENT, IDENTITY, SEALING, Enrolment, read_enrolment
from consilium.protocol.node.kit import EnrolledKind
from consilium.protocol.node.own_keys import OwnKeys
from consilium.protocol.secagg.identity import Identity


@dataclass(frozen=True)
class MadeHere:
    """All private keys of a node: the operator could keep them."""

    keys: OwnKeys

    def record(self, port: int, weight: int = 1) -> PartyRecord:
        """For the registry, of a party."""
        return PartyRecord(identity=self.keys.identity, node=self.keys.node, port=port, weight=weight)

    def second(self, name: str, port: int) -> AggregatorRecord:
        """For the registry, of the second aggregator."""
        keys = self.keys
        return AggregatorRecord(name=name, identity=keys.identity, sealing=keys.sealing, node=keys.node, port=port)

    def fill(self, kit: Path) -> None:
        """Write the private keys."""
        self.keys.save(kit)


@dataclass(frozen=True)
class MadeByNode:
    """A node's own keys, as it enrolled them."""

    enrolment: Enrolment

    def record(self, port: int, weight: int = 1) -> PartyRecord:
        """For the registry, of a party."""
        found = self.enrolment
        return PartyRecord(identity=found.identity, node=found.node, port=port, made_by="party", weight=weight)

    def second(self, name: str, port: int) -> AggregatorRecord:
        """For the registry, of the second aggregator."""
        found = self.enrolment
        return AggregatorRecord(
            name=name,
            identity=found.identity,
            sealing=found.sealing,
            node=found.node,
            port=port,
            made_by="aggregator",
        )

    def fill(self, kit: Path) -> None:
        """Write the enrolment; the node puts its private keys in beside it."""
        self.enrolment.save(kit / ENROLMENT)


@dataclass(frozen=True)
class CoordinatorKeys:
    """The coordinator's own; the operator makes them. sealing: of verified votes, None elsewhere."""

    identity: Identity
    sealing: SealingKey | None = None

    @classmethod
    def generate(cls, verified: bool) -> CoordinatorKeys:
        """New ones."""
        return cls(Identity.generate(), SealingKey.generate() if verified else None)

    def fill(self, kit: Path) -> None:
        """Write the private keys."""
        self.identity.save(kit / IDENTITY)
        if self.sealing is not None:
            self.sealing.save(kit / SEALING)


PartyKeys = MadeHere | MadeByNode


def keys_of(name: str, enrolment: Path | None, kind: EnrolledKind = "party") -> PartyKeys:
    """Those that a node enrolled, or new ones. Raises ConfigError if the enrolment is not that node's."""
    if enrolment is not None:
        return MadeByNode(read_enrolment(enrolment, name, kind))
    return MadeHere(OwnKeys.generate(kind))


def check_distinct(registry: Registry) -> None:
    """No key twice, none of the coordinator's, none of a node that was shut out.

    Raises
    ------
    ConfigError : who has a key that it may not have.
    """
    owners = {key: "the coordinator" for key in (registry.coordinator_identity, registry.coordinator_sealing) if key}
    owners |= dict.fromkeys(registry.revoked_keys, "a node that was revoked")
    for who, kind, keys in _all_keys(registry):
        for key in keys:
            if key in owners:
                raise ConfigError(
                    f"{who} has the key of {owners[key]}",
                    f"Each {kind} makes its own, anew for each place that it takes: consilium {kind} keys",
                )
            owners[key] = who


def _all_keys(registry: Registry) -> list[tuple[str, EnrolledKind, tuple[str, ...]]]:
    """Who, of which kind, and its public keys."""
    found: list[tuple[str, EnrolledKind, tuple[str, ...]]] = [
        (f"party {name}", "party", (record.identity, record.node)) for name, record in registry.parties.items()
    ]
    if registry.aggregator is not None:
        found.append((f"aggregator {registry.aggregator.name}", "aggregator", registry.aggregator.keys))
    return found
