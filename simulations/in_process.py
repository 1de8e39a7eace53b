"""The student inside the coordinator's process, for the engines `local` and `ray`.

Registered as entry point `simulation` in group `consilium.in_process_student`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from consilium.protocol.labels.service import LabelSource
from consilium.simulations.workspace import Workspace
from consilium.student.run import run_student


def student(run_dir: Path) -> Callable[[LabelSource], None]:
    """The student of the run that is laid out in `run_dir`; its results go there."""
    space = Workspace(run_dir)
    pool, spec, seed = space.student()

    def run(source: LabelSource) -> None:
        run_student(source, pool, spec, run_dir, seed)

    return run
