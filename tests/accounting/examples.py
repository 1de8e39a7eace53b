"""One mechanism of each kind, and votes that they are charged for."""

from __future__ import annotations

import numpy as np

from consilium.accounting import mechanisms
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.sanitise.release import SanitisedPlan
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit

CONFIDENT = mechanisms.Confident(threshold=60, sigma1=30, sigma2=10)
EXAMPLES = [
    mechanisms.LNMax(gamma=0.1),
    mechanisms.GNMax(sigma=10),
    mechanisms.Difference(sigma=10),
    mechanisms.Histogram(sigma=10),
    CONFIDENT,
    mechanisms.Interactive(threshold=60, sigma1=30, sigma2=10),
    mechanisms.Distributed(sigma=20, noise_shares=50),
    mechanisms.DistributedTwoPhase(sigma1=40, sigma2=20, noise_shares=50),
    mechanisms.Immutable(gamma=0.1, constant=1000),
    mechanisms.ImmutableGaussian(sigma=10, constant=1000),
]
VOTES = np.random.default_rng(5).multinomial(100, [0.75, 0.15, 0.1], size=40).astype(np.int64)
MASK = np.arange(40) < 25
PLAN = SanitisedPlan(order=2.5, beta=0.1, sigma_ss=6.0)


def votes_for(mechanism, votes=VOTES):
    """Votes int64 (queries, 3), of as many classes as it takes."""
    return votes if mechanism.classes is None else np.stack((votes[:, 0], votes[:, 1:].sum(axis=1)), axis=1)


def stated(asked=40, answered=40, unit=Unit.RECORD, k=1, towards=Towards.STUDENT, noise=Noise.DISCRETE):
    """All that an event states besides its mechanism."""
    return {
        "asked": asked,
        "answered": answered,
        "unit": unit,
        "neighbouring": Neighbouring.REPLACE,
        "teachers_per_party": k,
        "towards": towards,
        "noise": noise,
    }


def event_of(mechanism, *counts, **claim):
    return ReleaseEvent(mechanism=mechanism, **stated(*counts, **claim))


def confident(asked=40, answered=25, **claim):
    return event_of(CONFIDENT, asked, answered, **claim)
