"""One frozen event for every kind of release, and the way back from JSON.

release     what all events share, and what can be asked of each: its steps, its threshold check, noise of the parties
mechanisms  an event for each mechanism, and the way from JSON to an event

Each class states the source of its bound.
"""

from consilium.accounting.events.mechanisms import (
    EVENTS,
    ConfidentEvent,
    DistributedEvent,
    DistributedTwoPhaseEvent,
    GNMaxEvent,
    HistogramEvent,
    ImmutableEvent,
    ImmutableGaussianEvent,
    InteractiveEvent,
    LNMaxEvent,
    SanitisedEvent,
    StableEvent,
    event_from_json,
)
from consilium.accounting.events.release import Comparison, Evidence, PartyNoise, ReleaseEvent, Step

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
    "StableEvent",
    "Step",
    "event_from_json",
]
