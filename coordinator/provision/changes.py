"""The registry after a change of membership: computed here, whether the change is made or only planned."""

from __future__ import annotations

from collections.abc import Sequence

from consilium.coordinator.provision.party_keys import PartyKeys, check_distinct
from consilium.coordinator.provision.plan import PartyPlan
from consilium.coordinator.provision.registry import EarlierFederation, PartyRecord, Registry
from consilium.protocol.errors import ConfigError


def checked_party(registry: Registry, name: str, port: int, weight: int) -> PartyPlan:
    """A party that may be added. Raises ConfigError: the name is taken or unfit, or the weight is not allowed."""
    try:
        party = PartyPlan(name=name, port=port)
    except ValueError:
        raise ConfigError(f"{name!r} is no name", "Use letters, digits, dot, dash and underscore") from None
    most = registry.plan.federation.most_weight
    if not 1 <= weight <= most:
        raise ConfigError(f"weight {weight} of {name!r} is not from 1 to the federation's most_weight {most}")
    registry.check_new(name)
    return party


def with_party(registry: Registry, party: PartyPlan, keys: PartyKeys, weight: int) -> Registry:
    """With one more party. Raises ConfigError: a key is another node's, or no safe roster of these parties exists."""
    parties = {**registry.parties, party.name: keys.record(party.port, weight)}
    changed = _next(registry, parties)
    check_distinct(changed.parties, changed.coordinator_identity, changed.revoked_keys)
    changed.federation()
    return changed


def without(registry: Registry, name: str) -> Registry:
    """Without a party or student, which can always be shut out. Raises ConfigError if there is no such node."""
    if name not in registry.parties and name not in registry.students:
        raise ConfigError(
            f"no party or student {name!r}", f"There are {sorted([*registry.parties, *registry.students])}"
        )
    gone = registry.parties.get(name)
    changed = _next(registry, {other: record for other, record in registry.parties.items() if other != name})
    return changed.model_copy(
        update={
            "students": {other: pins for other, pins in registry.students.items() if other != name},
            "revoked": [*registry.revoked, name],
            "revoked_keys": [*registry.revoked_keys, *((gone.identity, gone.node) if gone else ())],
        }
    )


def _next(registry: Registry, parties: dict[str, PartyRecord]) -> Registry:
    """The next version, with these parties. The federation before it is kept in mind where it becomes another one."""
    changed = registry.model_copy(update={"version": registry.version + 1, "parties": parties})
    before = _earlier(registry)
    if not before or parties == registry.parties:
        return changed
    return changed.model_copy(update={"earlier": [*registry.earlier, *before]})


def _earlier(registry: Registry) -> Sequence[EarlierFederation]:
    """The federation of these parties; none where votes have no roster, so that it stays the same, or they are too
    few to have formed one."""
    if registry.plan.federation.votes == "clear":
        return []
    try:
        digest = registry.federation().digest()
    except ConfigError:
        return []
    weights = {name: record.weight for name, record in registry.parties.items()}
    return [EarlierFederation(digest=digest, parties=weights)]
