"""The way back from an event's JSON, in which ledgers keep it and parties are told it.

``ReleaseEvent.to_json`` is the way there.
"""

from __future__ import annotations

import math
from dataclasses import fields

from consilium.accounting.errors import EventError
from consilium.accounting.events.distributed import DistributedEvent, DistributedTwoPhaseEvent
from consilium.accounting.events.gaussian import ConfidentEvent, GNMaxEvent, HistogramEvent, InteractiveEvent
from consilium.accounting.events.immutable import ImmutableEvent, ImmutableGaussianEvent
from consilium.accounting.events.laplace import LNMaxEvent
from consilium.accounting.events.release import LEFT_OUT, ReleaseEvent
from consilium.accounting.events.sanitised import SanitisedEvent
from consilium.accounting.events.stable import SparseVectorEvent, StableEvent

EVENTS: dict[str, type[ReleaseEvent]] = {
    cls.TYPE: cls
    for cls in (
        LNMaxEvent,
        GNMaxEvent,
        HistogramEvent,
        ConfidentEvent,
        InteractiveEvent,
        DistributedEvent,
        DistributedTwoPhaseEvent,
        StableEvent,
        SparseVectorEvent,
        ImmutableEvent,
        ImmutableGaussianEvent,
        SanitisedEvent,
    )
}
"""Every event type by the name that stands in its JSON."""


def event_from_json(data: object) -> ReleaseEvent:
    """Read an event back. Unknown types, versions and keys are refused, and so are missing ones.

    Raises
    ------
    EventError : the JSON is not exactly what ``to_json`` of a known event writes.
    """
    if not isinstance(data, dict):
        raise EventError(f"an event is a JSON object, got {type(data).__name__}.")
    kind, version = data.get("type"), data.get("version")
    cls = EVENTS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise EventError(f"unknown event type {kind!r}; known: {', '.join(sorted(EVENTS))}. Update this program.")
    if isinstance(version, bool) or version != cls.VERSION:
        raise EventError(f"event {kind!r} has version {version!r}, this program reads {cls.VERSION}. Update it.")
    values = {key: value for key, value in data.items() if key not in ("type", "version")}
    known = {field.name for field in fields(cls)}
    unknown, missing = sorted(map(str, set(values) - known)), sorted(known - set(values) - set(LEFT_OUT))
    if unknown or missing:
        raise EventError(f"event {kind!r} has unknown keys {unknown} and lacks {missing}.")
    for name, value in values.items():
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if not plain or (isinstance(value, float) and not math.isfinite(value)):
            raise EventError(f"event {kind!r}: {name} is not a plain finite value.")
    return cls(**values)
