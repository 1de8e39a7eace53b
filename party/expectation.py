"""What a party may be warned of before it takes part: what the promise means in its own unit, at its own delta."""

from __future__ import annotations

from consilium.party.policy import Policy
from consilium.party.promise import epsilon, promise_of
from consilium.protocol.parties.messages import Terms
from consilium.protocol.warnings.before import Expected, before_run
from consilium.protocol.warnings.kinds import RunWarning


def party_warnings(terms: Terms, policy: Policy) -> list[RunWarning]:
    """Of the one federation that these terms are of. Raises Refused for a promise that cannot be read."""
    promise = promise_of(terms)
    expected = Expected(
        epsilon=epsilon(promise.events, policy),
        delta=policy.delta,
        unit=policy.unit.value,
        classes=len(terms.classes),
        answers=promise.release.answered,
        votes=0,  # how many others take part, terms do not say
    )
    return before_run(expected)
