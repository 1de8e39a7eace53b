"""What the operator keeps beside the authority: the decisions, all public keys; and its next version after a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from consilium.coordinator.config import FederationConfig, check_threshold
from consilium.coordinator.provision.plan import AggregatorPlan, PartyPlan, Plan
from consilium.coordinator.rosters import check_sums
from consilium.node.keys import ENROLMENT, Enrolment, OwnKeys, read_enrolment
from consilium.node.kit import THE_COORDINATOR, Coordinator, KeyKind, Port
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replace_text
from consilium.protocol.inheritance import Inheritance, InheritedFederation
from consilium.protocol.messages import PartyName
from consilium.protocol.models import Frozen
from consilium.protocol.pool import PoolTerms
from consilium.protocol.schema import Schema
from consilium.report.words import many
from consilium.sums.modes import MODES, WITH_SECOND
from consilium.sums.roster import AggregatorEntry, SumRoster

OPERATOR, UPDATES, REGISTRY = "operator", "updates", "registry.json"


class PartyRecord(Frozen):
    """Public keys of one party: Ed25519 in hex, and its SuperNode's in OpenSSH form.

    made_by: who made the keys, and so who ever held the private ones.
    """

    identity: str
    node: str
    port: Port
    made_by: Literal["operator", "party"] = "operator"


class AggregatorRecord(Frozen):
    """Public keys of the second aggregator: Ed25519 and X25519 in hex, and its SuperNode's in OpenSSH form.

    made_by: as that of a party. Where the operator made the coordinator's, one that makes these too could open every
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
    """A federation that was provisioned and is none of this registry any more. promise: as in its `Terms`."""

    digest: str
    parties: tuple[PartyName, ...]
    promise: str


class Registry(Frozen):
    """The file `operator/registry.json`. Revoked nodes are not in it, but their names are never given again.

    federation_digest: of the plan's federation; simulations of the same file show the same one. students: accepted
    fingerprints. version: counts the changes, and names their updates. revoked_keys: both
    public keys of each revoked party; no other party is enrolled with one. reference: text of the reference rows.
    earlier: federations before this one, whose promises count on. aggregator, coordinator_sealing (X25519, hex): of
    verified votes. revoked_parties: of `revoked`, those that were parties. successors: by a party's name, the names
    that its patients had before.
    """

    format: int = 2
    version: int = 1
    federation_digest: str
    plan: Plan
    rows: Schema
    public: PoolTerms | None = None
    reference: str = ""
    coordinator_identity: str
    parties: dict[PartyName, PartyRecord]
    students: dict[PartyName, list[str]]
    revoked: list[str] = Field(default_factory=list)
    revoked_keys: list[str] = Field(default_factory=list)
    earlier: list[EarlierFederation] = Field(default_factory=list)
    aggregator: AggregatorRecord | None = None
    coordinator_sealing: str = ""
    revoked_parties: list[str] = Field(default_factory=list)
    successors: dict[PartyName, list[PartyName]] = Field(default_factory=dict)

    @property
    def former(self) -> list[str]:
        """Parties that left, whose patients nobody has under another name."""
        known = {*self.revoked_parties, *(party.name for party in self.plan.party)}
        known.update(name for each in self.earlier for name in each.parties)
        taken = {name for names in self.successors.values() for name in names}
        return sorted((known & {*self.revoked}) - taken)

    def names_of(self, name: str) -> list[str]:
        """All names that a party's patients had, its own first."""
        names = [name]
        for each in names:
            names += [before for before in self.successors.get(each, ()) if before not in names]
        return names

    def inheritance(self, name: str) -> Inheritance:
        """What a party takes over from the names before its own. Raises ConfigError."""
        before = self.names_of(name)[1:]
        if not before:
            return Inheritance(others=tuple(self.former))
        config = self.federation()
        queries, now = config.query_budget.queries, config.digest()
        found = [
            InheritedFederation(federation=each.digest, promise=each.promise, queries=queries)
            for old in before
            for each in self.earlier
            if old in each.parties and each.digest != now
        ]
        return Inheritance(succeeds=tuple(before), others=tuple(self.former), federations=tuple(found))

    @property
    def place(self) -> Coordinator:
        """Where the coordinator is."""
        return self.plan.coordinator.place

    @property
    def node_ports(self) -> dict[str, int]:
        """Loopback ports of SuperNodes, by the node's name."""
        second = [] if self.aggregator is None else [(self.aggregator.name, self.aggregator.port)]
        return {name: record.port for name, record in self.parties.items()} | dict(second)

    def roster(self) -> SumRoster | None:
        """The roster of the present parties; None for plaintext votes, which use none. Raises ConfigError."""
        federation, second = self.plan.federation, self.aggregator
        if federation.collection not in MODES:
            return None
        return MODES[federation.collection].roster.build(
            {name: record.identity for name, record in self.parties.items()},
            self.coordinator_identity,
            federation.colluders,
            federation.least_survivors,
            sealing=self.coordinator_sealing,
            second=None if second is None else AggregatorEntry(ed25519_pk=second.identity, x25519_pk=second.sealing),
        )

    def federation(self) -> FederationConfig:
        """The coordinator's configuration with the present parties: no earlier one, which may be closed already, though
        the parties may be the same again. Raises ConfigError."""
        roster = self.roster()
        shares = self.plan.federation.sure_givers(roster.least if roster else 0)
        config = self.plan.config(self.rows, roster.digest if roster else "", self.public, self.reference, shares)
        check_sums(config, roster)
        if len(self.parties) < config.minimum_parties:
            raise ConfigError(
                f"{many(len(self.parties), 'party')} left, minimum_parties is {config.minimum_parties}",
                "Add a party first, or provision a new federation"
                + (" with fewer" if config.minimum_parties > 2 else ""),
            )
        check_threshold(config, config.teachers_per_party * len(self.parties))
        earlier = {federation.digest for federation in self.earlier}
        while config.digest() in earlier:
            config = config.model_copy(update={"edition": config.edition + 1})
        return config

    def check_new(self, name: str) -> None:
        """Raise ConfigError if a node of this name exists, or did."""
        if name in {*self.parties, *self.students, *self.revoked, *self._second(), "coordinator"}:
            raise ConfigError(f"the name {name!r} is taken, or was by a revoked node", "Choose another")

    def _second(self) -> list[str]:
        return [] if self.aggregator is None else [self.aggregator.name]

    def next(self, **changes: Any) -> Registry:
        """The next version, with these changes."""
        return self.model_copy(update={"version": self.version + 1, **changes})

    def save(self, kits: Path) -> None:
        """Write it; the old one is replaced in one step."""
        replace_text(kits / OPERATOR / REGISTRY, self.model_dump_json(indent=1) + "\n")


def load_registry(kits: Path) -> Registry:
    """That of an operator's folder. Raises ConfigError."""
    path = kits / OPERATOR / REGISTRY
    if not path.exists():
        raise ConfigError(f"{kits} has no {OPERATOR}/{REGISTRY}", "Give the folder that `consilium provision` made")
    return load(path, Registry)


@dataclass(frozen=True)
class MemberKeys:
    """Keys of a node: private ones too where the operator makes them (`OwnKeys`), public halves only where the node did
    (`Enrolment`)."""

    source: OwnKeys | Enrolment
    kind: KeyKind

    @property
    def enrolment(self) -> Enrolment | None:
        """Of a node that made its own."""
        return self.source if isinstance(self.source, Enrolment) else None

    def party(self, port: int) -> PartyRecord:
        """For the registry, of a party."""
        keys = self.source
        made_by = "party" if self.enrolment else "operator"
        return PartyRecord(identity=keys.identity, node=keys.node, port=port, made_by=made_by)

    def second(self, name: str, port: int) -> AggregatorRecord:
        """For the registry, of the second aggregator."""
        keys = self.source
        made_by = "aggregator" if self.enrolment else "operator"
        return AggregatorRecord(
            name=name, identity=keys.identity, sealing=keys.sealing, node=keys.node, port=port, made_by=made_by
        )

    def fill(self, kit: Path) -> None:
        """Write the private keys; or the enrolment, beside which the node puts its own in."""
        self.source.save(kit / ENROLMENT if self.enrolment else kit)


def keys_of(name: str, enrolment: Path | None, kind: KeyKind = "party") -> MemberKeys:
    """Those that a node enrolled, or new ones. Raises ConfigError if the enrolment is not that node's."""
    return MemberKeys(OwnKeys.generate(kind) if enrolment is None else read_enrolment(enrolment, name, kind), kind)


def check_distinct(registry: Registry) -> None:
    """No key twice, and none of a node that was shut out, or had it before.

    Raises
    ------
    ConfigError : who has a key that it may not have.
    """
    owners = dict.fromkeys(registry.revoked_keys, "a node that was revoked")
    for who, kind, keys in _all_keys(registry):
        for key in keys:
            if key in owners:
                raise ConfigError(
                    f"{who} has the key of {owners[key]}",
                    f"Each {kind} makes its own, anew for each place that it takes: consilium node keys --kind {kind}",
                )
            owners[key] = who


def _of_coordinator(registry: Registry) -> list[str]:
    """Its public keys, but that of its certificate."""
    return [key for key in (registry.coordinator_identity, registry.coordinator_sealing) if key]


def _all_keys(registry: Registry) -> list[tuple[str, KeyKind, tuple[str, ...]]]:
    """Who, of which kind, and its public keys."""
    owners: list[tuple[str, KeyKind, tuple[str, ...]]] = [
        ("the coordinator", THE_COORDINATOR, tuple(_of_coordinator(registry))),
        *((f"party {name}", "party", (record.identity, record.node)) for name, record in registry.parties.items()),
    ]
    if registry.aggregator is not None:
        owners.append((f"aggregator {registry.aggregator.name}", "aggregator", registry.aggregator.keys))
    return owners


def checked_party(registry: Registry, name: str, port: int) -> PartyPlan:
    """A party that may be added. Raises ConfigError: the name is taken or unfit."""
    try:
        party = PartyPlan(name=name, port=port)
    except ValueError:
        raise ConfigError(f"{name!r} is no name", "Use letters, digits, dot, dash and underscore") from None
    registry.check_new(name)
    return party


def check_whose(registry: Registry, name: str, succeeds: Sequence[str], new_patients: bool) -> None:
    """Raise ConfigError unless it is said whose patients a new party's are, where parties have left."""
    unknown = sorted({*succeeds} - {*registry.former})
    if unknown:
        raise ConfigError(
            f"{unknown[0]!r} is no party that left, or has a successor", f"Those that left: {registry.former}"
        )
    if registry.former and not succeeds and not new_patients:
        raise ConfigError(
            f"{', '.join(registry.former)} left this federation: are patients of {name!r} among theirs? What was spent"
            " for a patient counts under any name",
            "Give --succeeds NAME, whose account goes with the new kit; or --new-patients, if none of them is",
        )


def with_party(registry: Registry, party: PartyPlan, keys: MemberKeys, succeeds: Sequence[str] = ()) -> Registry:
    """With one more party. succeeds: names that its patients had before. Raises ConfigError: a key is another node's,
    or no safe roster of these parties exists."""
    parties = {**registry.parties, party.name: keys.party(party.port)}
    changed = _next(registry, parties, registry.aggregator)
    if succeeds:
        successors = {**registry.successors, party.name: [*succeeds]}
        changed = changed.model_copy(update={"successors": successors})
    check_distinct(changed)
    changed.federation()
    return changed


def checked_aggregator(registry: Registry, name: str, port: int) -> AggregatorPlan:
    """One that may be added. Raises ConfigError: there is one already, votes need none, or the name is unfit."""
    try:
        plan = AggregatorPlan(name=name, port=port)
    except ValueError:
        raise ConfigError(f"{name!r} is no name", "Use letters, digits, dot, dash and underscore") from None
    votes = registry.plan.federation.collection
    if votes not in WITH_SECOND:
        raise ConfigError(
            f"{votes} votes have no second aggregator", f"Provision a federation with {WITH_SECOND[0]} votes"
        )
    if registry.aggregator is not None:
        raise ConfigError(
            f"the second aggregator is {registry.aggregator.name}", "Shut it out first: consilium provision revoke"
        )
    registry.check_new(name)
    return plan


def with_aggregator(registry: Registry, record: AggregatorRecord) -> Registry:
    """With this second aggregator, where there was none. Raises as `with_party`."""
    changed = _next(registry, registry.parties, record)
    check_distinct(changed)
    changed.federation()
    return changed


def _without_aggregator(registry: Registry, gone: AggregatorRecord) -> Registry:
    changed = _next(registry, registry.parties, None)
    return changed.model_copy(
        update={"revoked": [*registry.revoked, gone.name], "revoked_keys": [*registry.revoked_keys, *gone.keys]}
    )


def without(registry: Registry, name: str) -> Registry:
    """Without a party, student or second aggregator, which can always be shut out. Raises ConfigError if there is no
    such node."""
    if registry.aggregator is not None and registry.aggregator.name == name:
        return _without_aggregator(registry, registry.aggregator)
    if name not in registry.parties and name not in registry.students:
        raise ConfigError(
            f"no party or student {name!r}", f"There are {sorted([*registry.parties, *registry.students])}"
        )
    gone = registry.parties.get(name)
    left = {other: record for other, record in registry.parties.items() if other != name}
    changed = _next(registry, left, registry.aggregator)
    return changed.model_copy(
        update={
            "students": {other: pins for other, pins in registry.students.items() if other != name},
            "revoked": [*registry.revoked, name],
            "revoked_keys": [*registry.revoked_keys, *((gone.identity, gone.node) if gone else ())],
            "revoked_parties": [*registry.revoked_parties, *([name] if gone else [])],
        }
    )


def _next(registry: Registry, parties: dict[str, PartyRecord], second: AggregatorRecord | None) -> Registry:
    """The next version, with these parties and this second aggregator. The federation before it is kept in mind where
    it becomes another one."""
    changed = registry.next(parties=parties, aggregator=second)
    same = (parties, second) == (registry.parties, registry.aggregator)
    return changed if same else _mindful(registry, changed)


def _mindful(registry: Registry, changed: Registry) -> Registry:
    """The same, mindful of the federation before it."""
    return changed.model_copy(update={"earlier": [*registry.earlier, *_earlier(registry)]})


def _earlier(registry: Registry) -> Sequence[EarlierFederation]:
    """The federation of these parties; none where votes have no roster, so that it stays the same, or they are too
    few to have formed one."""
    if registry.plan.federation.collection not in MODES:
        return []
    try:
        config = registry.federation()
    except ConfigError:
        return []
    return [EarlierFederation(digest=config.digest(), parties=tuple(registry.parties), promise=config.terms().promise)]
