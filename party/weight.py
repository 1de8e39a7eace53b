"""How often a party's answers count: as often as its policy allows, a function of policy and terms and never of data.

A vote that counts w times moves w votes of the sum, so that the party's own epsilon grows with its weight (Boenisch et
al. 2023 call budgets of this kind weighting). The weight that a federation promises for is the most of any party.
"""

from __future__ import annotations

from collections.abc import Sequence

from consilium.accounting.events import ReleaseEvent
from consilium.party.policy import Policy
from consilium.party.promise import Promise, epsilon
from consilium.protocol.parties.refusals import Refused, Rule


def check_within(events: Sequence[ReleaseEvent], policy: Policy) -> None:
    """Raise Refused (MOST_EPSILON) if all these events together cost more than the policy allows."""
    if _fits(events, policy):
        return
    total = epsilon(events, policy)
    if total > policy.most_epsilon:
        raise Refused(Rule.MOST_EPSILON, limit=policy.most_epsilon, requested=round(total, 4))


def largest_weight(promise: Promise, policy: Policy, earlier: Sequence[ReleaseEvent] = ()) -> int:
    """The largest weight that the promise allows and whose own worst case fits the policy.

    earlier : events of other federations that the party serves, at its weights there; they count as well.

    Raises
    ------
    Refused (MOST_EPSILON) : not even weight 1 fits.
    """
    least, most = 1, promise.weight
    if _fits([*earlier, *promise.at(most).events], policy):
        return most
    check_within([*earlier, *promise.at(least).events], policy)
    while most - least > 1:  # `least` fits and `most` does not; the cost grows with the weight
        middle = (least + most) // 2
        least, most = (middle, most) if _fits([*earlier, *promise.at(middle).events], policy) else (least, middle)
    return least


def own_weight(
    promise: Promise, policy: Policy, earlier: Sequence[ReleaseEvent] = (), agreed: int | None = None
) -> int:
    """The weight with which the party takes part.

    agreed : the one that stands in the roster, which fixes it for secure and distributed votes; None for clear ones,
        where the party takes the largest that fits.

    Raises
    ------
    Refused : it does not fit the policy (MOST_EPSILON), or the terms promise for smaller weights only (PROMISE).
    """
    if agreed is None:
        return largest_weight(promise, policy, earlier)
    if agreed > promise.weight:
        raise Refused(Rule.PROMISE, limit=promise.weight, requested=agreed, detail="a larger weight than promised for")
    check_within([*earlier, *promise.at(agreed).events], policy)
    return agreed


def _fits(events: Sequence[ReleaseEvent], policy: Policy) -> bool:
    """Whether all these events together are within the policy; the bound that takes no time is asked first."""
    return any(epsilon(events, policy, rough=rough) <= policy.most_epsilon for rough in (True, False))
