"""How often the answers of each simulated party count: what its own policy makes of the federation's promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from consilium.coordinator.config import Federation
from consilium.party.policy import Policy
from consilium.party.promise import Promise, largest_weight
from consilium.protocol.parties.refusals import Refused
from consilium.simulations.population.specs import PolicyShare
from consilium.simulations.population.teacher_mix import own_limits
from consilium.sums.roster import least_sum


def limited(federation: Federation, most_epsilon: float) -> dict[str, Any]:
    """The part of a party's `[policy]` that has this limit, for what the federation promises."""
    privacy = federation.privacy
    return {
        "most_epsilon": most_epsilon,
        "delta": privacy.delta,
        "unit": privacy.unit.value,
        "neighbouring": privacy.neighbouring.value,
    }


def simulated_weights(
    names: Sequence[str], federation: Federation, policies: Sequence[PolicyShare], seed: int
) -> dict[str, int]:
    """The weight of each party. One whose policy does not even allow weight 1 has that, and refuses when asked."""
    if federation.most_weight == 1:
        return dict.fromkeys(names, 1)
    least = federation.least_survivors or least_sum(len(names), federation.colluders)
    promise = Promise.of(federation.node_events(federation.sure_givers(least)))
    limits = own_limits(policies, len(names), seed)
    weights = {limit: _weight(federation, promise, limit) for limit in set(limits.values())}
    return {
        name: weights[limits[index]] if index in limits else federation.most_weight for index, name in enumerate(names)
    }


def _weight(federation: Federation, promise: Promise, most_epsilon: float) -> int:
    classes = ("0", "1")  # a policy needs some, and no limit looks at them
    policy = Policy.model_validate({"allowed_classes": classes, **limited(federation, most_epsilon)})
    try:
        return largest_weight(promise, policy)
    except Refused:
        return 1
