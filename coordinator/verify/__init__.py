"""Do the claims of a run hold? All of it is recomputed from its ledger; nothing in the run is changed.

findings    a verdict for each check; files of somebody who may have damaged or forged them
ledger      its structure, hash chain and counts
charges     what each release was charged, closing, what is claimed of them, and sums that were signed
run         a run folder, whoever made it: simulation or deployment, closed, crashed or serving; and students' labels
"""

from consilium.coordinator.verify.findings import Finding, Verdict, holds
from consilium.coordinator.verify.ledger import Recorded
from consilium.coordinator.verify.run import VerifiedRun, verify_run

__all__ = ["Finding", "Recorded", "Verdict", "VerifiedRun", "holds", "verify_run"]
