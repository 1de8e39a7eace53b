"""The settings of one division share caches, and never the cost of something else."""

from __future__ import annotations

import functools
import gc
from dataclasses import fields, replace
from typing import Any

import pytest

from consilium.accounting.events import ReleaseEvent
from consilium.accounting.mechanisms import Histogram
from consilium.accounting.target import worst_case
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit

EVENT = ReleaseEvent(
    mechanism=Histogram(90), asked=300, answered=300, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE,
    teachers_per_party=2, towards=Towards.STUDENT, noise=Noise.DISCRETE,
)  # fmt: skip
CHANGES: dict[str, dict[str, Any]] = {
    "asked": {"asked": 301, "answered": 301},
    "answered": {"asked": 200, "answered": 200},
    "unit": {"unit": Unit.PARTY},
    "neighbouring": {"neighbouring": Neighbouring.ADD_OR_REMOVE},
    "teachers_per_party": {"teachers_per_party": 3},
    "towards": {"towards": Towards.COORDINATOR},
    "noise": {"noise": Noise.CONTINUOUS},
    "slack": {"slack": 1e-6},
    "mechanism": {"mechanism": Histogram(90.00001)},
    "delta": {},
}
OTHER_COST = ("asked", "answered", "neighbouring", "slack", "mechanism", "delta")


@pytest.mark.parametrize("name", CHANGES)
def test_no_cost_is_that_of_another_event(name: str) -> None:
    """What is kept of the event before changes nothing of this one, to the last digit."""
    assert CHANGES.keys() == {*(field.name for field in fields(EVENT)), "delta"}
    changed, delta = replace(EVENT, **CHANGES[name]), 2e-5 if name == "delta" else 1e-5
    first, warm = worst_case([EVENT], 1e-5), worst_case([changed], delta)
    for kept in gc.get_objects():
        if isinstance(kept, functools._lru_cache_wrapper) and kept.__module__.startswith("consilium.accounting"):
            kept.cache_clear()
    assert worst_case([changed], delta) == warm
    assert (warm.epsilon != first.epsilon) or name not in OTHER_COST
