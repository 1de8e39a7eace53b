"""Tables of what is released, to whom, who is not protected and what a count means, from the values that say so."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import get_args

from consilium.coordinator.privacy import promised
from consilium.protocol.messages import CollectionMode
from consilium.protocol.releases import AT_MOST, ReleaseKind
from consilium.report.disclosure import Bound, Disclosure, people, rounded_up, times_as_likely, vote_odds
from consilium.simulations.scenario import load_scenario
from consilium.simulations.shipped import Shipped

MODES: tuple[CollectionMode, ...] = get_args(CollectionMode)
NINETEEN_OF_TWENTY = NormalDist().inv_cdf(0.975)
_SHOWN = frozenset({"lnmax", "gnmax", "confident", "interactive", "histogram", "immutable", "immutable_gaussian"})
"""Mechanisms of which the student and the promise say the same; those by parties have a line of their own."""


def releases() -> str:
    """What the student gets, by mechanism."""
    rows = [
        (", ".join(f"`{name}`" for name, at_most in AT_MOST.items() if at_most is kind and name in _SHOWN), kind)
        for kind in ReleaseKind
    ]
    by_parties = "`distributed`, `distributed_two_phase`"
    return _table(
        ["mechanism", "the student gets for each query", "a count leaves"],
        [
            *([names, kind.leaves, "noisy" if kind is ReleaseKind.COUNTS else "no"] for names, kind in rows),
            [
                by_parties,
                "what the configuration says: the winner; the winner or an abstention; or, with `release_counts`, the"
                " noisy histogram. The coordinator sees noisy histograms always",
                "noisy, and to the student with `release_counts`",
            ],
        ],
    )


def views() -> str:
    """Who sees what of votes, by how these are collected, and whose epsilon holds towards them."""
    columns = {
        (mode, noisy): Disclosure(ReleaseKind.COUNTS, mode, noisy).audiences()
        for mode in MODES
        for noisy in ((mode == "distributed",) if mode != "verified" else (True, False))
    }
    heads = [f"`{mode}`{', `exact_sums`' if mode == 'verified' and not noisy else ''}" for mode, noisy in columns]
    whom = list(dict.fromkeys(audience.who for column in columns.values() for audience in column))
    rows = []
    for who in whom:
        cells = []
        for column in columns.values():
            audience = next((audience for audience in column if audience.who == who), None)
            cells.append("–" if audience is None else f"{audience.seen.value}; {_epsilon_of(audience.bound)}")
        rows.append([who, *cells])
    return _table(["sees of the votes, beside what is released", *heads], rows)


def _epsilon_of(bound: Bound) -> str:
    return "**no epsilon**" if bound is Bound.TRUSTED else f"{bound} epsilon{' of both' * (bound is Bound.LARGER)}"


def unprotected() -> str:
    """Who is protected, and who is not."""
    return _table(["whose rows", "protected", "why"], [[each.who, each.protected, each.why] for each in people()])


def counts() -> str:
    """What released counts say, of each shipped scenario that releases some, at the least noise that it may have."""
    rows = []
    for name in Shipped.SCENARIO.files():
        federation = load_scenario(name).federation
        if federation.disclosure.release is not ReleaseKind.COUNTS:
            continue
        sigma = federation.mechanism.count_sigma(1)
        histograms = federation.query_budget.answers
        rows.append(
            [
                f"`{name}`",
                f"{sigma:.4g}",
                f"± {math.ceil(NINETEEN_OF_TWENTY * sigma)}",
                f"{rounded_up(vote_odds(sigma))} times",
                f"{histograms:,}",
                f"{rounded_up(vote_odds(sigma, histograms))} times",
                f"{times_as_likely(promised(federation).epsilon)}",
            ]
        )
    return _table(
        [
            "scenario",
            "noise on each count (standard deviation, votes)",
            "the exact count lies within, in 95 of 100 cases",
            "one histogram makes one vote likelier than another, at most",
            "histograms",
            "all of them make one set of votes likelier than another, at most",
            "promised (e^epsilon)",
        ],
        rows,
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
