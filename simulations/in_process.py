"""The student inside the coordinator's process, for the engines `local` and `ray`.

Registered as entry point `simulation` in group `consilium.in_process_student`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from consilium.coordinator.federation import Student
from consilium.protocol.label_source import Answers, LabelSource, LabelTerms, Progress, no_progress
from consilium.simulations.progress import EVENTS, recording
from consilium.simulations.workspace import Workspace
from consilium.student.run import run_student


def student(run_dir: Path) -> Student:
    """The student of the run that is laid out in `run_dir`; its results go there."""
    space = Workspace(run_dir)
    pool, spec, seed = space.student()

    def run(source: LabelSource) -> None:
        with recording(run_dir / EVENTS) as record:
            run_student(_Recorded(source), pool, spec, run_dir, seed, record)

    return run


class _Recorded:
    """A source whose own progress, the parties' votes, is in the event log already."""

    def __init__(self, source: LabelSource) -> None:
        self._source = source

    def describe(self) -> LabelTerms:
        return self._source.describe()

    def ask(
        self, queries: np.ndarray, progress: Progress = no_progress, probabilities: np.ndarray | None = None
    ) -> Answers:
        return self._source.ask(queries, probabilities=probabilities)

    def known(self, ids: Sequence[str]) -> np.ndarray:
        return self._source.known(ids)

    def finish(self) -> None:
        self._source.finish()
