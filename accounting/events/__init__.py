"""One frozen event for every kind of release, and the way back from JSON.

release     what all events share, and what can be asked of each
parts       the pieces of a release that an event tells of: steps, threshold check, noise of the parties
gaussian    GNMax, alone, after a check on agreement, and against a student's predictions; the noisy histogram
laplace     LNMax
stable      the exact plurality where it is stable
distributed histograms with noise of the parties
immutable   the mechanisms that have no worst case
sanitised   a data-dependent epsilon, published with noise
codec       from JSON to an event

Each class states the source of its bound.
"""

from consilium.accounting.events.codec import EVENTS, event_from_json
from consilium.accounting.events.distributed import DistributedEvent, DistributedTwoPhaseEvent
from consilium.accounting.events.gaussian import ConfidentEvent, GNMaxEvent, HistogramEvent, InteractiveEvent
from consilium.accounting.events.immutable import ImmutableEvent, ImmutableGaussianEvent
from consilium.accounting.events.laplace import LNMaxEvent
from consilium.accounting.events.parts import Comparison, Evidence, PartyNoise, Step
from consilium.accounting.events.release import ReleaseEvent
from consilium.accounting.events.sanitised import SanitisedEvent
from consilium.accounting.events.stable import SparseVectorEvent, StableEvent

__all__ = [
    "EVENTS",
    "Comparison",
    "ConfidentEvent",
    "DistributedEvent",
    "DistributedTwoPhaseEvent",
    "Evidence",
    "GNMaxEvent",
    "HistogramEvent",
    "ImmutableEvent",
    "ImmutableGaussianEvent",
    "InteractiveEvent",
    "LNMaxEvent",
    "PartyNoise",
    "ReleaseEvent",
    "SanitisedEvent",
    "SparseVectorEvent",
    "StableEvent",
    "Step",
    "event_from_json",
]
