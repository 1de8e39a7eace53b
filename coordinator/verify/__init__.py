"""Do the claims of a run hold? Everything is recomputed from its ledger; nothing in the run is changed.

files     a verdict for each check; JSON, event logs and tables of somebody who may have damaged or forged them
recorded  the ledger: structure, chain, counts
charges   query budget, events, evidence and closing of that ledger; what is claimed against it, and what was signed
run       the coordinator's run folder, whoever made it: simulation or kit, closed, crashed or serving
student   a student's folder against that ledger
"""

from consilium.coordinator.verify.files import (
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
from consilium.coordinator.verify.recorded import Recorded
from consilium.coordinator.verify.run import RunPlace, VerifiedRun, find_run, verify_run
from consilium.coordinator.verify.student import verify_student

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
