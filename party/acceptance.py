"""What a federation asks of this party, and what it gave in earlier ones; see `node.acceptance`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from consilium.accounting.events import ReleaseEvent
from consilium.node.acceptance import (
    PolicyRequest,
    check_kit_accepted,
    counting,
    guarantees,
    lines_of,
    load_federation_part,
    past_in_words,
    read_policy,
    rounded_up,
    shown,
    written_by_operator,
)
from consilium.node.checks import refused_is_wrong
from consilium.node.kit import open_kit
from consilium.node.rosters import pinned_roster
from consilium.party.expectation import student_epsilon
from consilium.party.home import SETTINGS, Home
from consilium.party.policy import LIMITS, Policy, has_exact_sums
from consilium.party.promise import epsilon, promise_of
from consilium.party.spend import SpendStore
from consilium.protocol.messages import EXACT_SUMS, Terms


def check_is_accepted(home: Home) -> None:
    """Raise NotAccepted, see `check_kit_accepted`."""
    check_kit_accepted(
        home.folder, "party", Policy, LIMITS, home.pinned_terms, lambda terms: policy_request(home, terms)
    )


def policy_request(home: Home, terms: Terms) -> PolicyRequest:
    """All that these terms ask, beside the defaults and what was accepted before.

    Raises
    ------
    ConfigError : a file of the kit cannot be read, or its terms are none.
    """
    return refused_is_wrong(lambda: _policy_request(home, terms), "terms.json", "Do not take part: ask the operator")


def _policy_request(home: Home, terms: Terms) -> PolicyRequest:
    federation, promise = load_federation_part(home.folder), promise_of(terms)
    known, past = read_policy(home.folder, Policy, LIMITS), SpendStore(home.spend_file).past(terms.federation)
    roster = pinned_roster(terms.collection, home.roster_file)
    weight = open_kit(home.folder).weight if roster is None else roster.weights.get(home.name, 1)
    mine = promise.at(min(past.weight or weight, promise.weight))
    unit, neighbouring = promise.release.unit.value, promise.release.neighbouring.value
    exact, privacy = has_exact_sums(terms), federation.privacy
    requested: dict[str, Any] = {
        "collection": terms.collection,
        "exact_sums": exact,
        "open_queries": terms.collection in EXACT_SUMS and not terms.public,
        "unit": unit,
        "neighbouring": neighbouring,
        "delta": privacy.delta,
        "most_queries": past.elsewhere + promise.asked,
        "most_teachers": terms.teachers,
        "least_parties": None if roster is None else roster.sure,
        "allow_simulation": terms.simulation,
        "allowed_classes": list(terms.classes),
    }
    own = Policy.model_validate({"allowed_classes": terms.classes, **counting(LIMITS, requested, known)})
    theirs = own.model_copy(
        update={"unit": mine.release.unit, "neighbouring": mine.release.neighbouring, "delta": privacy.delta}
    )
    nodes = _epsilon(mine.events, theirs)
    student = student_epsilon(terms, theirs, mine.weight)
    together = _epsilon([*past.events, *mine.events], own)
    by = f"at delta {own.delta:g} for a {own.unit}"
    return PolicyRequest(
        kind="party",
        name=home.name,
        federation=federation.name,
        terms=terms,
        model=Policy,
        known=known,
        lines=lines_of(LIMITS, {**requested, "most_epsilon": rounded_up(together)}, Policy, known, federation.columns),
        guarantees=guarantees(
            privacy, terms.collection, exact, nodes if student is None else student, nodes, neighbouring
        ),
        facts={
            **past_in_words(past.federations, past.elsewhere, _epsilon(past.events, own), together, by),
            "missing values": f"of {shown(federation.may_miss)}: that a value is missing is read too"
            if federation.may_miss
            else "not asked about in any column",
        },
        operator=written_by_operator(home.folder / SETTINGS),
        columns=federation.columns,
    )


def _epsilon(events: Sequence[ReleaseEvent], policy: Policy) -> float:
    return epsilon(events, policy) if events else 0.0
