"""How many parties there must be before anything is asked: the same number at provisioning, enrolment and in doctor."""

from __future__ import annotations

from consilium.coordinator.config import Federation
from consilium.protocol.secagg.roster import Roster


def least_together(federation: Federation, least_sum: int) -> int:
    """`least_parties` where so many must be in a sum, 0 for clear votes."""
    needed = max(phase.mechanism.votes_needed for phase in federation.phases)
    most_votes = federation.teachers_per_party * federation.most_weight
    return max(federation.minimum_parties, least_sum, -(-needed // most_votes))


def least_parties(federation: Federation, roster: Roster | None) -> int:
    """The federation's minimum; as many as a secure sum needs; and as many as can pass every threshold at all.

    roster: of secure and distributed votes, None for clear ones.
    """
    return least_together(federation, 0 if roster is None else roster.u_min)
