"""Keys of parties: both halves where the operator makes them, public halves only where the party did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from consilium.coordinator.provision.registry import PartyRecord
from consilium.protocol.errors import ConfigError
from consilium.protocol.node.enrolment import ENROLMENT, IDENTITY, NODE_KEY, Enrolment, read_enrolment
from consilium.protocol.node.node_key import NodeKey
from consilium.protocol.secagg.identity import Identity


@dataclass(frozen=True)
class MadeHere:
    """Both private keys of a party: the operator could keep them."""

    identity: Identity
    node: NodeKey

    def record(self, port: int, weight: int = 1) -> PartyRecord:
        """For the registry."""
        return PartyRecord(identity=self.identity.public.hex(), node=self.node.public, port=port, weight=weight)

    def fill(self, kit: Path) -> None:
        """Write identity.pem, node.key and node.pub."""
        self.identity.save(kit / IDENTITY)
        self.node.save(kit / NODE_KEY)


@dataclass(frozen=True)
class MadeByParty:
    """The party's own keys, as it enrolled them."""

    enrolment: Enrolment

    def record(self, port: int, weight: int = 1) -> PartyRecord:
        """For the registry."""
        return PartyRecord(identity=self.enrolment.identity, node=self.enrolment.node, port=port, made_by="party")

    def fill(self, kit: Path) -> None:
        """Write the enrolment; the party puts its private keys in beside it."""
        self.enrolment.save(kit / ENROLMENT)


PartyKeys = MadeHere | MadeByParty


def keys_of(name: str, enrolment: Path | None) -> PartyKeys:
    """Those that a party enrolled, or new ones. Raises ConfigError if the enrolment is not that party's."""
    if enrolment is not None:
        return MadeByParty(read_enrolment(enrolment, name))
    return MadeHere(Identity.generate(), NodeKey.generate())


def check_distinct(parties: Mapping[str, PartyRecord], coordinator: str, revoked: list[str]) -> None:
    """No key twice, none of the coordinator's, none of a node that was shut out.

    Raises
    ------
    ConfigError : who has a key that it may not have.
    """
    owners = {coordinator: "the coordinator", **dict.fromkeys(revoked, "a node that was revoked")}
    for name, record in parties.items():
        for key in (record.identity, record.node):
            if key in owners:
                raise ConfigError(
                    f"party {name} has the key of {owners[key]}",
                    "Each party makes its own, anew for each place that it takes: consilium party keys",
                )
            owners[key] = f"party {name}"
