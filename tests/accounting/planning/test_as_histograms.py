"""The bound that takes no time: never below the one that is charged, for whatever may be released."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from consilium.accounting.accountant import Accountant
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.events.mechanisms import (
    ConfidentEvent,
    HistogramEvent,
    LNMaxEvent,
    StableEvent,
)
from consilium.accounting.guarantee import Kind
from consilium.accounting.planning.target import as_histograms
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit

STATED = {
    "asked": 30,
    "answered": 20,
    "unit": Unit.PARTY,
    "neighbouring": Neighbouring.REPLACE,
    "towards": Towards.STUDENT,
    "noise": Noise.DISCRETE,
}
EVENTS: list[ReleaseEvent] = [
    event
    for k, weight in ((1, 1), (2, 1), (1, 3))
    for event in (
        ConfidentEvent(threshold=50.0, sigma1=90.0, sigma2=40.0, teachers_per_party=k, weight=weight, **STATED),
        HistogramEvent(sigma=40.0, teachers_per_party=k, weight=weight, **{**STATED, "answered": 30}),
        LNMaxEvent(gamma=0.05, teachers_per_party=k, weight=weight, **{**STATED, "answered": 30}),
        StableEvent(threshold=125.0, sigma=24.0, teachers_per_party=k, weight=weight, **STATED),
    )
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: f"{event.TYPE}-{event.teachers_per_party}-{event.weight}")
def test_as_histograms_is_never_below_what_is_charged(event: ReleaseEvent) -> None:
    accountant = Accountant()
    accountant.commit(event)
    charged = accountant.guarantee(1e-5, Kind.WORST_CASE, numerical=False).epsilon
    assert charged * (1 - 1e-12) <= as_histograms([event], 1e-5) < math.inf
    assert as_histograms([event, event], 1e-5) > as_histograms([event], 1e-5)


def test_a_delta_that_is_used_up_leaves_no_bound() -> None:
    event = next(event for event in EVENTS if event.TYPE == "stable")
    assert 0 < event.added_delta() < 1e-5
    assert as_histograms([replace(event, threshold=1.0)], 1e-5) == math.inf
