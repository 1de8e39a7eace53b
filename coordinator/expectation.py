"""What may be expected of a federation before it runs: the numbers that warnings are computed from."""

from __future__ import annotations

from consilium.coordinator.config import Federation, FederationConfig
from consilium.coordinator.privacy import promised, towards_coordinator
from consilium.protocol.messages import CollectionMode
from consilium.report.disclosure import in_plain_words
from consilium.report.warnings import Expected

PAIRED: frozenset[CollectionMode] = frozenset({"secure", "distributed"})
"""Ways to collect votes in which each party masks its own with every other."""


def expected(
    federation: Federation, parties: int, classes: int, votes: int | None = None, *, asks_typical: bool | None
) -> Expected:
    """Of a federation in which so many parties vote.

    votes: on a query, where the parties' weights are known; else every party counts once. asks_typical: what is known
    of the student, see `Expected`; None where students choose for themselves.

    Raises
    ------
    ConfigError : it cannot be charged.
    """
    guarantee, mechanisms = promised(federation), [phase.mechanism for phase in federation.phases]
    noise = [
        sigma for mechanism in mechanisms if (sigma := mechanism.label_noise(federation.givers(parties))) is not None
    ]
    return Expected(
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        unit=guarantee.unit.value,
        classes=classes,
        answers=federation.whole_budget.answers,
        votes=parties * federation.teachers_per_party if votes is None else votes,
        asks_typical=asks_typical,
        noise=max(noise, default=None),
        histogram=federation.mechanism.count_sigma(parties) > 0,
        undeclared=federation.voting_rule.undeclared,
        paired=parties if federation.collection in PAIRED else 0,
    )


def promise_in_words(federation: Federation) -> str:
    """What the federation releases, and what it promises about that whatever the votes are, for people.

    Raises ConfigError where it cannot be charged.
    """
    guarantee, privacy = promised(federation), federation.privacy
    words = in_plain_words(
        guarantee.epsilon,
        guarantee.delta,
        guarantee.unit.value,
        privacy.neighbouring.value,
        privacy.sanitised is not None,
    )
    return f"{federation.disclosure.release.sentence} {words}"


def towards_nodes(config: FederationConfig) -> str:
    """What is promised towards whoever collects votes, for people. Raises ConfigError where it cannot be charged."""
    guarantee = towards_coordinator(config)
    return config.disclosure.towards_nodes(0 if guarantee is None else guarantee.epsilon)
