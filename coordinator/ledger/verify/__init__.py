"""Do the claims of a run hold? Everything is recomputed from its ledger; nothing in the run is changed.

findings  a verdict for each check, and what makes one
files     JSON, event logs and tables of somebody who may have damaged or forged them
recorded  the ledger: structure, chain, counts
charges   caps, events, evidence and closing of that ledger
second    of verified votes, what the second aggregator signed
claims    epsilons that are claimed, against the ledger's
run       the coordinator's run folder, whoever made it: simulation or kit, closed, crashed or serving
student   a student's folder against that ledger
place     the run of a path
"""

from consilium.coordinator.ledger.verify.findings import (
    Absent,
    Checks,
    Contradiction,
    Damaged,
    Finding,
    Unchecked,
    Unfinished,
    Verdict,
    holds,
)
from consilium.coordinator.ledger.verify.place import RunPlace, find_run
from consilium.coordinator.ledger.verify.recorded import Recorded
from consilium.coordinator.ledger.verify.run import VerifiedRun, verify_run
from consilium.coordinator.ledger.verify.student import verify_student

__all__ = [
    "Absent",
    "Checks",
    "Contradiction",
    "Damaged",
    "Finding",
    "Recorded",
    "RunPlace",
    "Unchecked",
    "Unfinished",
    "Verdict",
    "VerifiedRun",
    "find_run",
    "holds",
    "verify_run",
    "verify_student",
]
