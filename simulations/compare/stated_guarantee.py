"""What a method guarantees, as far as two methods may be compared by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from consilium.accounting.guarantee import Guarantee
from consilium.accounting.units import Neighbouring, Unit


@dataclass(frozen=True)
class StatedGuarantee:
    """`epsilon` at `delta`, finite and above 0, for each `unit` under the relation, towards whoever gets the result."""

    epsilon: float
    delta: float
    unit: Unit
    neighbouring: Neighbouring

    @classmethod
    def of(cls, guarantee: Guarantee) -> StatedGuarantee | None:
        """None where there is no finite epsilon, and so no guarantee."""
        if not math.isfinite(guarantee.epsilon):
            return None
        return cls(guarantee.epsilon, guarantee.delta, guarantee.unit, guarantee.neighbouring)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": self.unit.value,
            "neighbouring": self.neighbouring.value,
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> StatedGuarantee:
        """The inverse of `to_json`."""
        return cls(value["epsilon"], value["delta"], Unit(value["unit"]), Neighbouring(value["neighbouring"]))
