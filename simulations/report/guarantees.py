"""What a run guarantees and spent, as a page shows it; and how strong a guarantee is, which `docs/report.md` argues."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from consilium.accounting.guarantees import Guarantee, Kind
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.privacy import NODES
from consilium.protocol.errors import DataError
from consilium.protocol.messages import CollectionMode
from consilium.protocol.strict_json import number
from consilium.report.words import delta_text, many
from consilium.sums.modes import MODES

GUARANTEE, SPENT = "guarantee", "spent"
TITLES = {
    GUARANTEE: "The guarantee",
    NODES: "The nodes’ guarantee",
    SPENT: "Spent at the released counts",
    "data_dependent": "Spent at these very votes",
    "sanitised": "Estimate released with noise",
    "guarantee_record": "For a record",
    "guarantee_party": "For a whole party",
}
KINDS = {
    Kind.WORST_CASE: "worst case: holds for all data",
    Kind.REALISED: "at the released counts, secret: do not publish",
    Kind.DATA_DEPENDENT: "data-dependent, secret: do not publish",
    Kind.SANITISED: "data-dependent, released with noise; an estimate, not a ceiling",
}
Claims = Mapping[str, Mapping[str, Any]]
"""By name, each as `Guarantee.to_json` gives it."""


def title_of(name: str) -> str:
    """What a guarantee of this name is called."""
    return TITLES.get(name, name.replace("_", " "))


def shown_guarantees(privacy: Claims, collection: CollectionMode) -> dict[str, Any]:
    """What the coordinator states, as a report shows it: where sums come with noise in them nothing depends on data."""
    left_out = {"student", "data_dependent"} if collection in MODES else {"student"}
    return {name: claim for name, claim in privacy.items() if name not in left_out}


def guarantees_of(claims: Claims) -> dict[str, Guarantee]:
    """All of them by name, the one that was fixed before the run first. Raises DataError: a field is missing, or is
    nothing that a guarantee can have. A blank could pass for zero."""
    found = {}
    for name in dict.fromkeys((*(name for name in TITLES if name in claims), *claims)):
        values = claims[name]
        try:
            found[name] = Guarantee(
                epsilon=number(values, "epsilon"),
                delta=float(values["delta"]),
                order=math.nan if values["order"] is None else float(values["order"]),
                unit=Unit(values["unit"]),
                neighbouring=Neighbouring(values["neighbouring"]),
                teachers_per_party=values["teachers_per_party"],
                towards=Towards(values["towards"]),
                kind=Kind(values["kind"]),
                method=values["method"],
            )
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(f"guarantee {name!r} is malformed: {error}", "Run the scenario again") from None
    return found


STRONG, MODERATE = 1.0, 3.0
"""Largest epsilon of a strong and of a moderate promise: a guess is then right in 74 and in 96 of 100 cases at most."""
NEARLY = 0.01
"""Of delta times the number of parties: above it no promise is strong; from 1 on it may name one of them outright."""

Level = Literal["strong", "moderate", "weak", "none"]


def verdict(
    epsilon: float, delta: float, parties: int, word: str = "party", unit: Unit = Unit.PARTY
) -> tuple[Level, tuple[str, ...]]:
    """How much a promise is worth, by noise that nobody knows, and why: the first sentence decided.

    parties: that take part, each a `word`. unit: what delta is for; there are as many records and patients as parties,
    or more, which is not told: the level may then be too good.

    >>> [verdict(epsilon, 1e-5, 371)[0] for epsilon in (0.8, 2, 8, math.inf)], verdict(2, 1e-2, 371)[0]
    (['strong', 'moderate', 'weak', 'none'], 'weak')
    """
    if math.isinf(epsilon):
        return "none", ("No number bounds what the release tells about one of them.",)
    level: Level = "strong" if epsilon <= STRONG else "moderate" if epsilon <= MODERATE else "weak"
    reason = {
        "strong": f"Epsilon is at most {STRONG:g}.",
        "moderate": f"Epsilon is above {STRONG:g} and at most {MODERATE:g}.",
        "weak": f"Epsilon is above {MODERATE:g}: from an even start somebody could become surer than 19 to 1, which is"
        " commonly taken for proof.",
    }[level]
    expected = delta * parties
    among = many(parties, word) if unit is Unit.PARTY else f"at least {many(parties, unit.value)}"
    if expected >= 1:
        return "weak", (f"Delta is {delta:g}: with {among} it would allow to name one of them outright.", reason)
    if expected > NEARLY and level == "strong":
        return "moderate", (f"Delta times the number of them ({among}) is {expected:.2g}, above {NEARLY:g}.", reason)
    return level, (reason, f"Delta, the room left for a mishap, is {delta_text(delta)} for each {unit}.")
