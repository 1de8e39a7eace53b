"""Empirical audits of mechanisms: lower bounds on epsilon from draws alone, against what is claimed.

pairs, candidates   neighbouring vote databases, and the worst of them for each mechanism
game                many runs under both
statistics, regions how they are told apart; chosen on some draws, measured on others
bounds              from counts to a lower bound on epsilon, with confidence
claims              what is claimed
build               a mechanism from what a person types
audit               all of it together
report              the outcome as text and JSON
"""

from consilium.coordinator.distinguish.audit import GameSetup, MechanismAudit, PairResult, audit_mechanism
from consilium.coordinator.distinguish.build import build_mechanism
from consilium.coordinator.distinguish.claims import Claims, EventClaims, PaperClaims, UserClaims
from consilium.coordinator.distinguish.pairs import Pair, pair

__all__ = [
    "Claims",
    "EventClaims",
    "GameSetup",
    "MechanismAudit",
    "Pair",
    "PairResult",
    "PaperClaims",
    "UserClaims",
    "audit_mechanism",
    "build_mechanism",
    "pair",
]
