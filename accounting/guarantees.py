"""A guarantee that says everything a reader must know, so that no epsilon is ever quoted alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from enum import StrEnum

from consilium.accounting.checks import check_count, check_delta
from consilium.accounting.errors import AccountingError, UnitError
from consilium.accounting.units import Neighbouring, Towards, Unit, votes_moved

MOST_DELTA = 1e-3
"""Above it a guarantee says in words what may happen with that probability."""
_MANY = 1e9
"""From here on an epsilon is printed with an exponent."""


def rounded_up(epsilon: float) -> str:
    """An epsilon with four digits, never below the shortest number that is the same double: what is printed must not
    promise more than what was computed."""
    if not math.isfinite(epsilon):
        return str(epsilon)
    exact = Decimal(repr(float(epsilon)))
    if epsilon >= _MANY:
        return f"{Context(prec=5, rounding=ROUND_CEILING).plus(exact):.4e}"
    return str(exact.quantize(Decimal("0.0001"), ROUND_CEILING))


class Kind(StrEnum):
    """Where an epsilon comes from, which decides whether anyone may see it."""

    WORST_CASE = "worst_case"
    """Holds for every data set; depends on numbers that were fixed before the run."""
    REALISED = "realised"
    """What was spent at the released counts. They are chosen after the fact, so it is secret and no guarantee."""
    DATA_DEPENDENT = "data_dependent"
    """Computed from the votes, so it is itself private."""
    SANITISED = "sanitised"
    """A data-dependent value released with noise, the cost of which is included."""


_KIND_TEXT = {
    Kind.WORST_CASE: "worst case over all data",
    Kind.REALISED: "spent at the released counts, chosen after the fact",
    Kind.DATA_DEPENDENT: "data-dependent, at the data at hand",
    Kind.SANITISED: "data-dependent, released with noise (an estimate, not a ceiling)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """An (epsilon, delta) statement, of both directions, with its unit, neighbouring relation and audience.

    epsilon, delta : the bound; epsilon may be +inf, which means that there is none.
    order : Renyi order that gave it; NaN when it did not come from a Renyi curve. Not compared: NaN equals nothing.
    unit, neighbouring, teachers_per_party : whose data may change, and how.
    towards : who sees the releases. kind : where the number comes from. method : which bounds and conversion were used.

    Raises AccountingError, DeltaError, UnitError: a field that cannot be part of a guarantee.
    """

    epsilon: float
    delta: float
    order: float = field(compare=False)
    unit: Unit
    neighbouring: Neighbouring
    teachers_per_party: int
    towards: Towards
    kind: Kind
    method: str

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise AccountingError(f"epsilon must be at least 0, got {self.epsilon}. Recompute it.")
        check_delta(self.delta)
        check_count(self.teachers_per_party, "teachers_per_party", 1, UnitError)

    @property
    def publishable(self) -> bool:
        """False for what the votes decide, and at realised counts: publish the epsilon of the query budget instead,
        which was promised before they were known."""
        return self.kind in (Kind.WORST_CASE, Kind.SANITISED)

    @property
    def relation(self) -> str:
        """The neighbouring relation in words."""
        k = self.teachers_per_party
        done = "replaced" if self.neighbouring is Neighbouring.REPLACE else "added or removed"
        if self.unit is Unit.PARTY:
            votes = "its one teacher's vote per query" if k == 1 else f"the votes of its {k} teachers"
            changed = "change" + "s" * (k == 1) if self.neighbouring is Neighbouring.REPLACE else "counted or not"
            moves = f"{votes} {changed}"
            return f"a whole party, {done} ({moves})"
        what = "a record" if self.unit is Unit.RECORD else "a patient with all records at one party"
        moved = votes_moved(self.unit, k, self.neighbouring)
        if moved == 1:
            moves = "one teacher's vote per query changes"
        else:
            moves = f"the votes of {moved} of {k} teachers change: its own and that of who takes its place"
        also = "; with one teacher per party this is also the guarantee of a whole party" if k == 1 else ""
        return f"{what}, {done} ({moves}){also}"

    def __str__(self) -> str:
        realised = " but what the query budget guarantees" if self.kind is Kind.REALISED else ""
        what = "may be published" if self.publishable else f"SECRET, do not publish{realised}"
        order = "" if math.isnan(self.order) else f", order {self.order:g}"
        fails = ""
        if self.delta > MOST_DELTA:
            fails = (
                f"\nA delta of {self.delta:g} is large: whole rows may leave with about that probability. Usual is less"
                " than one in the number of patients."
            )
        return (
            f"epsilon {rounded_up(self.epsilon)} at delta {self.delta:g} towards the {self.towards};"
            f" {_KIND_TEXT[self.kind]}; {what}.\nUnit: {self.relation}; both directions; {self.method}{order}.{fails}"
        )

    def __repr__(self) -> str:
        shown = rounded_up(self.epsilon) if self.publishable else "<secret>"
        return f"Guarantee(epsilon={shown}, delta={self.delta:g}, unit={self.unit}, kind={self.kind})"

    def to_json(self) -> dict[str, object]:
        """Plain values for strict JSON, as `protocol.strict_json`: None for a missing order, and for an infinite
        epsilon, which "infinite" lists."""
        unbounded = math.isinf(self.epsilon)
        return {
            "epsilon": None if unbounded else self.epsilon,
            "delta": self.delta,
            "order": None if math.isnan(self.order) else self.order,
            "unit": self.unit.value,
            "neighbouring": self.neighbouring.value,
            "relation": self.relation,
            "teachers_per_party": self.teachers_per_party,
            "towards": self.towards.value,
            "kind": self.kind.value,
            "method": self.method,
            "publishable": self.publishable,
            **({"infinite": ["epsilon"]} if unbounded else {}),
        }
