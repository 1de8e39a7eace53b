"""What a mechanism releases under a federation's privacy and caps, as events."""

from __future__ import annotations

from dataclasses import replace

from consilium.accounting.events.release import ReleaseEvent
from consilium.coordinator.mechanisms import AnyMechanism
from consilium.coordinator.phases import Caps
from consilium.coordinator.privacy import Privacy


def event_of(
    mechanism: AnyMechanism, privacy: Privacy, teachers: int, weight: int, asked: int, answered: int
) -> ReleaseEvent:
    """Of so many queries, of which so many were answered. weight: the largest of any party."""
    event = mechanism.event(
        asked=asked,
        answered=answered,
        unit=privacy.unit,
        neighbouring=privacy.neighbouring,
        teachers_per_party=teachers,
    )
    return replace(event, weight=weight, candidates=privacy.candidates)


def closing_of(privacy: Privacy, event: ReleaseEvent) -> ReleaseEvent | None:
    """The charge of the sanitised epsilon, or None where none is planned."""
    return privacy.sanitised.plan().event(event) if privacy.sanitised else None


def promised_of(
    mechanism: AnyMechanism, privacy: Privacy, caps: Caps, teachers: int, weight: int
) -> list[ReleaseEvent]:
    """Everything that will ever be released in one phase, with its caps used up; the sanitised epsilon comes last."""
    closing = closing_of(privacy, event_of(mechanism, privacy, teachers, weight, 0, 0))
    full = event_of(mechanism, privacy, teachers, weight, caps.queries, caps.answers)
    return [full, *([closing] if closing else [])]
