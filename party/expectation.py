"""What a party may expect before it takes part: its weight, and what the promise means in its own unit and delta."""

from __future__ import annotations

from dataclasses import replace

from consilium.party import hidden_votes, sum_store
from consilium.party.home import Home
from consilium.party.policy import Policy
from consilium.party.promise import epsilon, parse_events, promise_of
from consilium.party.spend import Share, SpendStore
from consilium.protocol.messages import Terms
from consilium.protocol.refusals import Refused
from consilium.protocol.releases import AT_MOST, widest
from consilium.report.disclosure import Disclosure, epsilon_text, in_plain_words
from consilium.report.warnings import Expected, RunWarning, before_run


def agreed_weight(home: Home, terms: Terms) -> int | None:
    """This party's weight in the roster of the terms; None for plaintext votes, which have no roster.

    Raises
    ------
    Refused, ConfigError : as `hidden_votes.check_roster`. RosterMismatch : the party is not in it.
    BrokenBlock : sums are exact, and the party stands in no block, or in another than before.
    """
    if terms.collection not in hidden_votes.ROSTERS:
        return None
    roster = hidden_votes.check_roster(home, terms)
    sum_store.check_exact(home.state, promise_of(terms), roster, roster.place(home.name))
    return roster.weight_of(home.name)


def own_share(home: Home, terms: Terms) -> Share:
    """How often this party's answers would count in the federation of these terms, and its own epsilon there.

    Raises
    ------
    Refused : the policy does not allow it, or the promise cannot be read. ConfigError : no usable roster.
    """
    agreed = agreed_weight(home, terms) if promise_of(terms).weight > 1 else None
    return SpendStore(home.spend_file).check(terms, home.policy, agreed)


def weight_line(terms: Terms, policy: Policy, share: Share) -> str:
    """For the party's own people."""
    counted = f"{share.weight} of at most {promise_of(terms).weight}: your answers count {share.weight} times"
    own = f"your own epsilon is at most {share.epsilon:.3f} at delta {policy.delta:g} for a {policy.unit}"
    return f"weight     {counted}; {own}"


def told_share(home: Home, terms: Terms) -> tuple[Share | None, list[str]]:
    """`own_share` and the line on it; nothing where every party counts once, and why where the party would refuse.

    Raises
    ------
    ConfigError : no usable roster.
    """
    try:
        if promise_of(terms).weight == 1:
            return None, []
    except Refused:
        return None, []  # the terms are not readable, which doctor says
    try:
        share = own_share(home, terms)
    except Refused as error:
        return None, [f"weight     none: this federation would be refused: {error}"]
    return share, [weight_line(terms, home.policy, share)]


def _disclosed(terms: Terms) -> Disclosure:
    """What these terms disclose, and to whom: what the student gets, else what the party is charged for."""
    promise = promise_of(terms)
    events = parse_events(terms.student) if terms.student else promise.events
    kind = widest(AT_MOST[event.TYPE] for event in events if not event.closing)
    in_sums = promise.release.noise_by_parties and terms.collection != "plaintext"
    return Disclosure(kind, terms.collection, in_sums, explicit=in_sums and not terms.student)


def student_epsilon(terms: Terms, policy: Policy, weight: int) -> float | None:
    """Epsilon towards the student and the public, by the party's own unit and delta; None where the terms promise one
    epsilon to all. Raises Refused for a promise that cannot be read."""
    events = parse_events(terms.student) if terms.student else ()
    return epsilon([replace(event, weight=weight) for event in events], policy) if events else None


def towards_whom(terms: Terms, charged: float, student: float | None) -> str:
    """Of this party's epsilons, whom each holds towards. charged: `Share.epsilon`. student: `student_epsilon`."""
    disclosed = _disclosed(terms)
    own = charged if student is None else student
    nodes = disclosed.towards_nodes(charged)
    return f"epsilon at most {epsilon_text(own)} towards the student and the public; {nodes}"


def promise_in_words(terms: Terms, policy: Policy, share: Share) -> str:
    """What these terms release at most, and the epsilon that it may cost the party by its own unit and delta."""
    closing = promise_of(terms).closing is not None
    words = in_plain_words(share.epsilon, policy.delta, policy.unit.value, policy.neighbouring.value, closing)
    kind, student = _disclosed(terms).release, student_epsilon(terms, policy, share.weight)
    whom = towards_whom(terms, share.epsilon, student)
    return f"Released for each query is at most {kind.leaves}. {kind.stays} {words} Towards whom: {whom}."


def party_warnings(terms: Terms, policy: Policy, weight: int) -> list[RunWarning]:
    """Of the one federation that these terms are of, at the party's weight. Raises Refused for a promise that cannot be
    read."""
    promise = promise_of(terms).at(weight)
    expected = Expected(
        epsilon=epsilon(promise.events, policy),
        delta=policy.delta,
        unit=policy.unit.value,
        classes=len(terms.classes),
        answers=promise.answered,
        votes=0,  # how many others take part, terms do not say
        asks_typical=None,
    )
    return before_run(expected)
