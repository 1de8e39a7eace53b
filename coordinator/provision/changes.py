"""The registry after a change of who takes part: computed here, whether the change is made or only planned."""

from __future__ import annotations

from collections.abc import Sequence

from consilium.coordinator.provision.party_keys import PartyKeys, check_distinct
from consilium.coordinator.provision.plan import AggregatorPlan, PartyPlan
from consilium.coordinator.provision.registry import AggregatorRecord, EarlierFederation, PartyRecord, Registry
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
    changed = _next(registry, parties, registry.aggregator)
    check_distinct(changed)
    changed.federation()
    return changed


def checked_aggregator(registry: Registry, name: str, port: int) -> AggregatorPlan:
    """One that may be added. Raises ConfigError: there is one already, votes need none, or the name is unfit."""
    try:
        plan = AggregatorPlan(name=name, port=port)
    except ValueError:
        raise ConfigError(f"{name!r} is no name", "Use letters, digits, dot, dash and underscore") from None
    votes = registry.plan.federation.votes
    if votes != "verified":
        raise ConfigError(f"{votes} votes have no second aggregator", "Provision a federation with verified votes")
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
        update={
            "revoked": [*registry.revoked, gone.name],
            "revoked_keys": [*registry.revoked_keys, *gone.keys],
        }
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
        }
    )


def _next(registry: Registry, parties: dict[str, PartyRecord], second: AggregatorRecord | None) -> Registry:
    """The next version, with these parties and this second aggregator. The federation before it is kept in mind where
    it becomes another one."""
    changed = registry.model_copy(update={"version": registry.version + 1, "parties": parties, "aggregator": second})
    before = _earlier(registry)
    if not before or (parties, second) == (registry.parties, registry.aggregator):
        return changed
    roster = registry.roster()
    there = [sorted(roster.block_keys(min(block))) for block in roster.blocks] if roster else []
    blocks = [*registry.blocks, *(block for block in there if block not in registry.blocks)]
    return changed.model_copy(update={"earlier": [*registry.earlier, *before], "blocks": blocks})


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
