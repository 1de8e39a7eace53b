"""Guarantees in words, of all and of each party: an epsilon never appears without its meaning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from consilium.accounting.guarantees import Kind
from consilium.coordinator.privacy import NODES
from consilium.protocol.errors import DataError
from consilium.protocol.messages import CollectionMode
from consilium.protocol.strict_json import number
from consilium.report.disclosure import Disclosure, epsilon_text
from consilium.report.words import delta_text
from consilium.simulations.report.data import ReportData
from consilium.sums.modes import MODES

GUARANTEE, SPENT = "guarantee", "spent"
_NAMES = {
    GUARANTEE: "The guarantee",
    NODES: "The nodes’ guarantee",
    SPENT: "Spent at the released counts",
    "data_dependent": "Spent at these very votes",
    "sanitised": "Estimate released with noise",
    "student": "The student’s guarantee",
    "guarantee_record": "For a record",
    "guarantee_patient": "For a patient",
    "guarantee_party": "For a whole party",
}
_KINDS = {
    Kind.WORST_CASE: "Worst case: holds for all data",
    Kind.REALISED: "At the released counts, chosen after the fact: publish the guarantee",
    Kind.DATA_DEPENDENT: "Data-dependent",
    Kind.SANITISED: "Sanitised: data-dependent, released with noise; an estimate, not a ceiling",
}


@dataclass(frozen=True)
class GuaranteeRow:
    """One guarantee in words. `epsilon` is +inf where there is none.

    publishable: whether it is a promise that may be shown to anybody. secret: whether nobody else may see it.
    """

    name: str
    title: str
    epsilon: float
    delta: float
    epsilon_text: str
    delta_text: str
    unit: str
    relation: str
    neighbouring: str
    towards: str
    kind: str
    publishable: bool
    secret: bool
    direction: str
    method: str
    order: str
    teachers_per_party: int

    @classmethod
    def from_json(cls, name: str, values: dict[str, Any]) -> GuaranteeRow:
        """`values` as `accounting.guarantees.Guarantee.to_json` gives them.

        Raises
        ------
        DataError : a field is missing, or is no number or word that a guarantee can have. A blank could pass for zero.
        """
        try:
            kind, order = Kind(values["kind"]), values["order"]
            epsilon, delta = number(values, "epsilon"), float(values["delta"])
            if math.isnan(epsilon) or epsilon < 0:
                raise ValueError(f"epsilon {epsilon}")
            return cls(
                name=name,
                title=_NAMES.get(name, name.replace("_", " ")),
                epsilon=epsilon,
                delta=delta,
                epsilon_text=epsilon_text(epsilon),
                delta_text=delta_text(delta),
                unit=values["unit"],
                relation=values["relation"],
                neighbouring=values["neighbouring"],
                towards=values["towards"],
                kind=_KINDS[kind],
                publishable=values["publishable"] and kind in (Kind.WORST_CASE, Kind.SANITISED),
                secret=kind in (Kind.REALISED, Kind.DATA_DEPENDENT),
                direction=values["direction"],
                method=values["method"],
                order="–" if order is None else f"{order:g}",
                teachers_per_party=values["teachers_per_party"],
            )
        except KeyError as error:
            raise DataError(f"guarantee {name!r} has no {error.args[0]}", "Run the scenario again") from None
        except (TypeError, ValueError) as error:
            raise DataError(f"guarantee {name!r} is malformed: {error}", "Run the scenario again") from None


def disclosure_of(data: ReportData) -> Disclosure:
    """What the run of a report disclosed, and to whom."""
    return Disclosure(data.release, data.collection)


def shown_guarantees(privacy: dict[str, Any], collection: CollectionMode) -> dict[str, Any]:
    """What the coordinator states, as a report shows it.

    Where sums come with noise in them nothing depends on the data, and there are two audiences: the coordinator, who
    sees noisy histograms, and the student, who sees what is released. With noise of the coordinator's own there is one.
    """
    left_out = {"student", "data_dependent"} if collection in MODES else {"student"}
    return {name: claim for name, claim in privacy.items() if name not in left_out}


def guarantee_rows(guarantees: dict[str, dict[str, Any]]) -> dict[str, GuaranteeRow]:
    """All guarantees by name, the one that was fixed before the run first.

    Raises
    ------
    DataError : one of them is none.
    """
    names = [name for name in _NAMES if name in guarantees] + [name for name in guarantees if name not in _NAMES]
    return {name: GuaranteeRow.from_json(name, guarantees[name]) for name in names}
