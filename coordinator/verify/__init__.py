"""Do the claims of a run hold? All of it is recomputed from its ledger; nothing in the run is changed."""

from consilium.coordinator.verify.ledger import Finding, Recorded, Verdict, holds
from consilium.coordinator.verify.run import VerifiedRun, verify_run

__all__ = ["Finding", "Recorded", "Verdict", "VerifiedRun", "holds", "verify_run"]
