"""The game behind differential privacy, played: lower bounds on epsilon from draws, against what is claimed."""

from consilium.coordinator.distinguish.audit import GameSetup, MechanismAudit, audit_mechanism

__all__ = ["GameSetup", "MechanismAudit", "audit_mechanism"]
