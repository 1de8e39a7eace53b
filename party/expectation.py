"""What a federation asks of this party, and what the party may expect: guarantees by its own unit."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from consilium.node.acceptance import (
    PolicyRequest,
    check_kit_accepted,
    counting,
    guarantees,
    lines_of,
    load_federation_part,
    new_patients_line,
    past_in_words,
    read_policy,
    rounded_up,
    shown,
)
from consilium.node.checks import refused_is_wrong
from consilium.node.limits import epsilon, events_of
from consilium.party.account import Account
from consilium.party.home import LIMITS, Home, Policy
from consilium.party.promise import promise_of
from consilium.protocol.messages import Terms
from consilium.protocol.releases import AT_MOST, widest
from consilium.report.before_run import Expected, before_run
from consilium.report.disclosure import Disclosure, epsilon_text, in_plain_words
from consilium.report.warnings import RunWarning


def own_epsilon(home: Home, terms: Terms) -> float:
    """This party's own epsilon in the federation of these terms.

    Raises
    ------
    Refused : the policy does not allow it, or the promise cannot be read.
    """
    with closing(home.remembered()) as store:
        return Account(store).epsilon(terms, home.policy)


def _disclosed(terms: Terms) -> Disclosure:
    """What these terms disclose, and to whom: what the student gets, else what the party is charged for."""
    promise = promise_of(terms)
    events = events_of(terms.student) if terms.student else promise.events
    kind = widest(AT_MOST[event.mechanism.name] for event in events if not event.mechanism.closing)
    return Disclosure(kind, terms.collection)


def student_epsilon(terms: Terms, policy: Policy) -> float | None:
    """Epsilon towards the student and the public, by the party's own unit and delta; None where the terms promise one
    epsilon to all. Raises Refused for a promise that cannot be read."""
    return epsilon((terms.student,), policy) if terms.student else None


def towards_whom(terms: Terms, charged: float, student: float | None) -> str:
    """Of this party's epsilons, whom each holds towards. charged: `own_epsilon`. student: `student_epsilon`."""
    disclosed = _disclosed(terms)
    to_student = charged if student is None else student
    nodes = disclosed.towards_nodes(charged)
    return f"epsilon at most {epsilon_text(to_student)} towards the student and the public; {nodes}"


def promise_in_words(terms: Terms, policy: Policy, charged: float) -> str:
    """What these terms release at most, and the epsilon that it may cost the party by its own unit and delta.
    charged: `own_epsilon`."""
    closing = promise_of(terms).closing is not None
    words = in_plain_words(charged, policy.delta, policy.unit.value, policy.neighbouring.value, closing)
    kind, student = _disclosed(terms).release, student_epsilon(terms, policy)
    whom = towards_whom(terms, charged, student)
    return f"Released for each query is at most {kind.leaves}. {kind.stays} {words} Towards whom: {whom}."


def party_warnings(terms: Terms, policy: Policy) -> list[RunWarning]:
    """Of the one federation that these terms are of. Raises Refused for a promise that cannot be read."""
    expected = Expected(
        epsilon=epsilon((terms.promise,), policy),
        delta=policy.delta,
        unit=policy.unit.value,
        votes=0,  # how many others take part, terms do not say
    )
    return before_run(expected)


def check_is_accepted(home: Home) -> None:
    """Raise NotAccepted, see `check_kit_accepted`."""
    check_kit_accepted(home, "party", Policy, LIMITS, policy_request)


def policy_request(home: Home, terms: Terms) -> PolicyRequest:
    """All that these terms ask, beside the defaults and what was accepted before.

    Raises
    ------
    ConfigError : a file of the kit cannot be read, or its terms are none.
    """
    return refused_is_wrong(lambda: _policy_request(home, terms), "terms.json", "Do not take part: ask the operator")


def _policy_request(home: Home, terms: Terms) -> PolicyRequest:
    federation, promise = load_federation_part(home.folder), promise_of(terms)
    known, roster = read_policy(home.folder, Policy, LIMITS), home.roster_for(terms.collection)
    with closing(home.remembered()) as store:
        past = Account(store).past(terms.federation)
    unit, neighbouring = promise.release.unit.value, promise.release.neighbouring.value
    privacy = federation.privacy
    columns = tuple(name for name in federation.columns if name not in home.file.lacks)
    may_miss = tuple(name for name in federation.may_miss if name in columns)
    requested: dict[str, Any] = {
        "collection": terms.collection,
        "unit": unit,
        "neighbouring": neighbouring,
        "delta": privacy.delta,
        "most_queries": past.elsewhere + promise.queries,
        "most_teachers": terms.teachers,
        "least_parties": None if roster is None else roster.sure,
        "allow_simulation": terms.simulation,
        "allowed_classes": list(terms.classes),
    }
    counted_by = Policy.model_validate({"allowed_classes": terms.classes, **counting(LIMITS, requested, known)})
    theirs = counted_by.model_copy(
        update={"unit": promise.release.unit, "neighbouring": promise.release.neighbouring, "delta": privacy.delta}
    )
    nodes = epsilon((terms.promise,), theirs)
    student = student_epsilon(terms, theirs)
    together = epsilon((*past.promises, terms.promise), counted_by)
    by = f"at delta {counted_by.delta:g} for a {counted_by.unit}"
    inherited = home.inheritance()
    lines = lines_of(LIMITS, {**requested, "most_epsilon": rounded_up(together)}, Policy, known, columns)
    lines += (new_patients_line(inherited.others, known),) if inherited.others else ()
    names = {"names before": ", ".join(inherited.succeeds)} if inherited.succeeds else {}
    return PolicyRequest(
        kind="party",
        name=home.name,
        federation=federation.name,
        terms=terms,
        model=Policy,
        known=known,
        lines=lines,
        guarantees=guarantees(privacy, terms.collection, nodes if student is None else student, nodes, neighbouring),
        facts={
            **names,
            **past_in_words(len(past.promises), past.elsewhere, epsilon(past.promises, counted_by), together, by),
            "missing values": f"of {shown(may_miss)}: that a value is missing is read too"
            if may_miss
            else "not asked about in any column",
        },
        columns=columns,
    )
