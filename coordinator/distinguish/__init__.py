"""Empirical audits of mechanisms: lower bounds on epsilon from draws alone, against what is claimed.

pairs    neighbouring vote databases, and the worst of them for each mechanism
game     many runs under both, against what is claimed
regions  how runs are told apart: chosen on some draws, measured on others; from counts to a lower bound on epsilon
audit    all of it together, as text and JSON
"""

from consilium.coordinator.distinguish.audit import GameSetup, MechanismAudit, PairResult, audit_mechanism
from consilium.coordinator.distinguish.game import Claims, EventClaims, PaperClaims, UserClaims, build_mechanism
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
