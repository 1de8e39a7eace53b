"""One event of each kind, and votes that they are charged for."""

from __future__ import annotations

import numpy as np

from consilium.accounting.events import (
    ConfidentEvent,
    DistributedEvent,
    DistributedTwoPhaseEvent,
    GNMaxEvent,
    HistogramEvent,
    ImmutableEvent,
    ImmutableGaussianEvent,
    InteractiveEvent,
    LNMaxEvent,
    StableEvent,
)
from consilium.accounting.sanitise.release import SanitisedPlan
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit

CONFIDENT = {"threshold": 60.0, "sigma1": 30.0, "sigma2": 10.0}
EXAMPLES = [
    (LNMaxEvent, {"gamma": 0.1}),
    (GNMaxEvent, {"sigma": 10.0}),
    (HistogramEvent, {"sigma": 10.0}),
    (ConfidentEvent, CONFIDENT),
    (InteractiveEvent, CONFIDENT),
    (DistributedEvent, {"sigma": 20.0, "noise_shares": 50}),
    (DistributedTwoPhaseEvent, {"sigma1": 40.0, "sigma2": 20.0, "noise_shares": 50}),
    (StableEvent, {"threshold": 55.0, "sigma": 8.0}),
    (ImmutableEvent, {"gamma": 0.1, "constant": 1000}),
    (ImmutableGaussianEvent, {"sigma": 10.0, "constant": 1000}),
]
VOTES = np.random.default_rng(5).multinomial(100, [0.75, 0.15, 0.1], size=40).astype(np.int64)


def common(
    asked=40,
    answered=40,
    unit=Unit.RECORD,
    k=1,
    towards=Towards.STUDENT,
    noise=Noise.DISCRETE,
    relation=Neighbouring.REPLACE,
):
    return {
        "asked": asked,
        "answered": answered,
        "unit": unit,
        "neighbouring": relation,
        "teachers_per_party": k,
        "towards": towards,
        "noise": noise,
    }


def confident(asked=40, answered=25, **kwargs):
    return ConfidentEvent(**common(asked, answered, **kwargs), **CONFIDENT)


MASK = np.arange(40) < 25
PLAN = SanitisedPlan(order=2.5, beta=0.1, sigma_ss=6.0)
