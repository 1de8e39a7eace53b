"""What the operator keeps beside the authority: the decisions, and the public halves of all keys that were made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from consilium.coordinator.config import FederationConfig, check_threshold
from consilium.coordinator.provision.plan import Plan
from consilium.coordinator.rosters import AnyRoster, check_sums, least_accepted
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replace_text
from consilium.protocol.models import Countable, Frozen
from consilium.protocol.node.kit import Coordinator, Port
from consilium.protocol.parties.messages import PartyName, VotesMode
from consilium.protocol.rows.pool import PoolTerms
from consilium.protocol.rows.schema import Schema
from consilium.protocol.secagg.roster import Roster
from consilium.protocol.verified.roster import AggregatorEntry, VerifiedRoster

OPERATOR, REGISTRY = "operator", "registry.json"


class PartyRecord(Countable, Frozen):
    """Public keys of one party: Ed25519 in hex, and its SuperNode's in OpenSSH form.

    made_by: who made the keys, and so who ever held the private ones. weight: times that its answers count.
    """

    identity: str
    node: str
    port: Port
    made_by: Literal["operator", "party"] = "operator"
    weight: int = 1


class AggregatorRecord(Frozen):
    """Public keys of the second aggregator: Ed25519 and X25519 in hex, and its SuperNode's in OpenSSH form.

    made_by: as that of a party. The operator always makes the coordinator's: one that makes these too could open every
    vote.
    """

    name: PartyName
    identity: str
    sealing: str
    node: str
    port: Port
    made_by: Literal["operator", "aggregator"] = "operator"

    @property
    def keys(self) -> tuple[str, ...]:
        """All public ones."""
        return self.identity, self.sealing, self.node


class EarlierFederation(Frozen):
    """A federation that was provisioned and is none of this registry any more. parties: weights by name."""

    digest: str
    parties: dict[PartyName, int]


class Registry(Frozen):
    """The file `operator/registry.json`. Revoked nodes are not in it, but their names are never given again.

    federation_digest: of the plan's federation; simulations of the same file show the same one. certificates: PEM, by
    node. students: accepted fingerprints. version: counts the changes, and names their updates. revoked_keys: both
    public keys of each revoked party; no other party is enrolled with one. reference: text of the reference rows.
    earlier: federations before this one, whose promises count on; older registries kept none. blocks: of parties, by
    public key, in the rosters of these (`protocol.secagg.blocks`). aggregator, coordinator_sealing (X25519, hex): of
    verified votes.
    """

    format: int = 2
    version: int = 1
    federation_digest: str
    plan: Plan
    rows: Schema
    pool: PoolTerms | None = None
    reference: str = ""
    coordinator_identity: str
    parties: dict[PartyName, PartyRecord]
    students: dict[PartyName, list[str]]
    certificates: dict[str, str]
    revoked: list[str] = Field(default_factory=list)
    revoked_keys: list[str] = Field(default_factory=list)
    earlier: list[EarlierFederation] = Field(default_factory=list)
    blocks: list[list[str]] = Field(default_factory=list)
    aggregator: AggregatorRecord | None = None
    coordinator_sealing: str = ""

    @property
    def place(self) -> Coordinator:
        """Where the coordinator is."""
        return self.plan.coordinator

    @property
    def node_ports(self) -> dict[str, int]:
        """Loopback ports of SuperNodes, by the node's name."""
        second = [] if self.aggregator is None else [(self.aggregator.name, self.aggregator.port)]
        return {name: record.port for name, record in self.parties.items()} | dict(second)

    def roster(self) -> AnyRoster | None:
        """The roster of the present parties; None for clear votes, which use none. Raises ConfigError."""
        return BUILDERS[self.plan.federation.votes](self)

    def federation(self) -> FederationConfig:
        """The coordinator's configuration with the present parties: no earlier one, which may be closed already, though
        the parties may be the same again. Raises ConfigError."""
        roster = self.roster()
        shares = self.plan.federation.sure_givers(roster.least_sum if roster else 0)
        config = self.plan.config(self.rows, roster.digest if roster else "", self.pool, self.reference, shares)
        check_sums(config, roster)
        if len(self.parties) < config.minimum_parties:
            raise ConfigError(
                f"{len(self.parties)} parties are left, minimum_parties is {config.minimum_parties}",
                "Provision a new federation with fewer",
            )
        check_threshold(config, config.teachers_per_party * sum(each.weight for each in self.parties.values()))
        earlier = {each.digest for each in self.earlier}
        while config.digest() in earlier:
            config = config.model_copy(update={"edition": config.edition + 1})
        return config

    def check_new(self, name: str) -> None:
        """Raise ConfigError if a node of this name exists, or did."""
        if name in {*self.parties, *self.students, *self.revoked, *self._second(), "coordinator"}:
            raise ConfigError(f"the name {name!r} is taken, or was by a revoked node", "Choose another")

    def _second(self) -> list[str]:
        return [] if self.aggregator is None else [self.aggregator.name]

    def save(self, kits: Path) -> None:
        """Write it; the old one is replaced in one step."""
        replace_text(kits / OPERATOR / REGISTRY, self.model_dump_json(indent=1) + "\n")


def _none(registry: Registry) -> None:
    """Clear votes have no roster."""


def _secure(registry: Registry) -> Roster:
    keys = {name: record.identity for name, record in registry.parties.items()}
    chosen = registry.plan.federation
    weights = {name: record.weight for name, record in registry.parties.items()}
    return Roster.build(
        keys, registry.coordinator_identity, chosen.colluders, chosen.least_survivors, weights, registry.blocks
    )


def _verified(registry: Registry) -> VerifiedRoster:
    second, chosen = registry.aggregator, registry.plan.federation
    if second is None:
        raise ConfigError(
            "verified votes have no second aggregator any more", "Add one: consilium provision add-aggregator"
        )
    return VerifiedRoster.build(
        {name: record.identity for name, record in registry.parties.items()},
        AggregatorEntry(ed25519_pk=registry.coordinator_identity, x25519_pk=registry.coordinator_sealing),
        AggregatorEntry(ed25519_pk=second.identity, x25519_pk=second.sealing),
        chosen.colluders,
        least_accepted(chosen, len(registry.parties)),
        registry.blocks,
    )


BUILDERS: Mapping[VotesMode, Callable[[Registry], AnyRoster | None]] = {
    "clear": _none,
    "secure": _secure,
    "distributed": _secure,
    "verified": _verified,
}
"""Of the roster, by how votes are collected."""


def load_registry(kits: Path) -> Registry:
    """That of an operator's folder. Raises ConfigError."""
    path = kits / OPERATOR / REGISTRY
    if not path.exists():
        raise ConfigError(f"{kits} has no {OPERATOR}/{REGISTRY}", "Give the folder that `consilium provision` made")
    return load(path, Registry)
