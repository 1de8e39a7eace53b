"""The game behind differential privacy, played: lower bounds on epsilon from draws, against what is claimed.

bounds   from counts of games to what they prove
game     a mechanism's draws in two worlds, and their likelihood ratio
audit    the worst votes for each mechanism, and its claim
"""

from consilium.coordinator.distinguish.audit import GameSetup, MechanismAudit, audit_mechanism

__all__ = ["GameSetup", "MechanismAudit", "audit_mechanism"]
