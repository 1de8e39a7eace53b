"""What a party may expect of its federation: guarantees by its own unit, and whom they hold towards."""

from __future__ import annotations

from consilium.node.limits import epsilon, events_of
from consilium.party.policy import Policy
from consilium.party.promise import promise_of
from consilium.protocol.messages import Terms
from consilium.protocol.releases import AT_MOST, widest
from consilium.report.before_run import Expected, before_run
from consilium.report.disclosure import Disclosure, epsilon_text, in_plain_words
from consilium.report.warnings import RunWarning


def towards_whom(terms: Terms, policy: Policy, charged: float) -> str:
    """Of this party's epsilons, whom each holds towards. charged: as its account has it for this federation."""
    to_student = epsilon((terms.student,), policy) if terms.student else charged  # one epsilon to all
    nodes = _disclosed(terms).towards_nodes(charged)
    return f"epsilon at most {epsilon_text(to_student)} towards the student and the public; {nodes}"


def promise_in_words(terms: Terms, policy: Policy, charged: float) -> str:
    """What these terms release at most, and the epsilon that it may cost the party by its own unit and delta.
    charged: see `towards_whom`."""
    closing = promise_of(terms).closing is not None
    words = in_plain_words(charged, policy.delta, policy.unit.value, policy.neighbouring.value, closing)
    kind, whom = _disclosed(terms).release, towards_whom(terms, policy, charged)
    return f"Released for each query is at most {kind.leaves}. {kind.stays} {words} Towards whom: {whom}."


def _disclosed(terms: Terms) -> Disclosure:
    """What these terms disclose, and to whom: what the student gets, else what the party is charged for."""
    promise = promise_of(terms)
    events = events_of(terms.student) if terms.student else promise.events
    kind = widest(AT_MOST[event.mechanism.name] for event in events if not event.mechanism.closing)
    return Disclosure(kind, terms.collection)


def party_warnings(terms: Terms, policy: Policy) -> list[RunWarning]:
    """Of the one federation that these terms are of. Raises Refused for a promise that cannot be read."""
    expected = Expected(
        epsilon=epsilon((terms.promise,), policy),
        delta=policy.delta,
        unit=policy.unit.value,
        votes=0,  # how many others take part, terms do not say
    )
    return before_run(expected)
