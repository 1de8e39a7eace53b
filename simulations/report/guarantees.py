"""What a run guarantees, and what it spent, as a page shows them: each with a title that a reader understands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from consilium.accounting.guarantees import Guarantee, Kind
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.privacy import NODES
from consilium.protocol.errors import DataError
from consilium.protocol.messages import CollectionMode
from consilium.protocol.strict_json import number
from consilium.sums.modes import MODES

GUARANTEE, SPENT = "guarantee", "spent"
TITLES = {
    GUARANTEE: "The guarantee",
    NODES: "The nodes’ guarantee",
    SPENT: "Spent at the released counts",
    "data_dependent": "Spent at these very votes",
    "sanitised": "Estimate released with noise",
    "guarantee_record": "For a record",
    "guarantee_patient": "For a patient",
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
    """All of them by name, the one that was fixed before the run first.

    Raises
    ------
    DataError : a field is missing, or is nothing that a guarantee can have. A blank could pass for zero.
    """
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
        except KeyError as error:
            raise DataError(f"guarantee {name!r} has no {error.args[0]}", "Run the scenario again") from None
        except (TypeError, ValueError) as error:
            raise DataError(f"guarantee {name!r} is malformed: {error}", "Run the scenario again") from None
    return found
