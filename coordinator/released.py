"""What a mechanism releases under a federation's privacy and caps, as events: towards the student, and, where the noise
is in the sums, towards the nodes that see these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from consilium.accounting.curves.discrete import NO_SLACK
from consilium.accounting.events import DistributedEvent, DistributedTwoPhaseEvent
from consilium.accounting.events.release import ReleaseEvent
from consilium.accounting.units import Towards
from consilium.coordinator.mechanisms import AnyMechanism
from consilium.coordinator.mechanisms.shares import BY_MASKED_PARTIES, BY_TWO_AGGREGATORS, SumNoise
from consilium.coordinator.privacy import Privacy
from consilium.protocol.parties.messages import VotesMode

PARTS: Mapping[VotesMode, float] = {"distributed": BY_MASKED_PARTIES, "verified": BY_TWO_AGGREGATORS}
"""By how votes are collected, the part of a mechanism's noise that the sure givers add."""


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


def sum_noises(mechanism: AnyMechanism, votes: VotesMode, shares: int, colluders: int) -> tuple[SumNoise, ...]:
    """The noise in the sums of each round of a mechanism that says nothing of it itself.

    shares: givers that are sure to be honest and in a sum. colluders: parties that may work with the coordinator, who
    give no noise to verified votes.
    """
    if mechanism.noise_by_parties or votes not in PARTS:
        return ()
    bad = 0 if votes == "verified" else colluders
    sigmas = [mechanism.sums_sigma(1), mechanism.sums_sigma(2)]
    return tuple(SumNoise(sigma, PARTS[votes], shares, bad) for sigma in sigmas if sigma is not None)


def with_slack(event: ReleaseEvent, mechanism: AnyMechanism, noises: Sequence[SumNoise]) -> ReleaseEvent:
    """The student's event, with what noise costs on top that is a sum of shares, where labels or counts have it.

    Raises
    ------
    NoiseError : see `SumNoise.slack`.
    """
    if not noises or not mechanism.tops_up(len(noises)):
        return event  # its own noise comes on top, in one piece
    slack = noises[-1].slack
    return replace(event, slack=slack) if slack > NO_SLACK else event


def towards_nodes(event: ReleaseEvent, noises: Sequence[SumNoise]) -> ReleaseEvent:
    """What nodes are held to for the queries of a student's event: the noisy sums themselves, of each round.

    The coordinator, who sees them, knows its own top-up, so that the givers' noise alone counts. Of two aggregators
    each knows its own, and the other's counts.
    """
    if not noises:
        return event
    fields = ("asked", "answered", "unit", "neighbouring", "teachers_per_party", "noise", "weight", "candidates")
    common = {name: getattr(event, name) for name in fields}
    common |= {"towards": Towards.COORDINATOR, "noise_shares": noises[0].shares}
    sigmas = [noise.drawn.sigma for noise in noises]
    if len(sigmas) == 1:
        return DistributedEvent(sigma=sigmas[0], **common)
    return DistributedTwoPhaseEvent(sigma1=sigmas[0], sigma2=sigmas[1], **common)
