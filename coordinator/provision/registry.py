"""What the operator keeps beside the authority: the decisions, and the public halves of all keys that were made."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from consilium.coordinator.collection.secure import SecureKeys
from consilium.coordinator.config import FederationConfig, check_threshold
from consilium.coordinator.provision.plan import Plan
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replace_text
from consilium.protocol.models import Countable, Frozen
from consilium.protocol.node.kit import Coordinator, Port
from consilium.protocol.parties.messages import PartyName
from consilium.protocol.rows.pool import PoolTerms
from consilium.protocol.rows.schema import Schema
from consilium.protocol.secagg.identity import Identity
from consilium.protocol.secagg.roster import Roster

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


class EarlierFederation(Frozen):
    """A federation that was provisioned and is none of this registry any more. parties: weights by name."""

    digest: str
    parties: dict[PartyName, int]


class Registry(Frozen):
    """The file `operator/registry.json`. Revoked nodes are not in it, but their names are never given again.

    federation_digest: of the plan's federation; simulations of the same file show the same one. certificates: PEM, by
    node. students: accepted fingerprints. version: counts the changes, and names their updates. revoked_keys: both
    public keys of each revoked party; no other party is enrolled with one. reference: text of the reference rows.
    earlier: federations before this one, whose promises count on; older registries kept none.
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

    @property
    def place(self) -> Coordinator:
        """Where the coordinator is."""
        return self.plan.coordinator

    def roster(self) -> Roster | None:
        """The roster of the present parties; None for clear votes, which use none. Raises ConfigError."""
        if self.plan.federation.votes == "clear":
            return None
        keys = {name: record.identity for name, record in self.parties.items()}
        chosen = self.plan.federation
        weights = {name: record.weight for name, record in self.parties.items()}
        return Roster.build(
            keys, self.coordinator_identity, chosen.colluders, chosen.least_survivors, chosen.least_difference, weights
        )

    def federation(self) -> FederationConfig:
        """The coordinator's configuration with the present parties: no earlier one, which may be closed already, though
        the parties may be the same again. Raises ConfigError."""
        roster = self.roster()
        config = self.plan.config(self.rows, roster.digest if roster else "", self.pool, self.reference)
        if roster is not None:
            SecureKeys(roster, Identity.generate()).check(config)  # the check does not look at the signer
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
        if name in {*self.parties, *self.students, *self.revoked, "coordinator"}:
            raise ConfigError(f"the name {name!r} is taken, or was by a revoked node", "Choose another")

    def save(self, kits: Path) -> None:
        """Write it; the old one is replaced in one step."""
        replace_text(kits / OPERATOR / REGISTRY, self.model_dump_json(indent=1) + "\n")


def load_registry(kits: Path) -> Registry:
    """That of an operator's folder. Raises ConfigError."""
    path = kits / OPERATOR / REGISTRY
    if not path.exists():
        raise ConfigError(f"{kits} has no {OPERATOR}/{REGISTRY}", "Give the folder that `consilium provision` made")
    return load(path, Registry)
