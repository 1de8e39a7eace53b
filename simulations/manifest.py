"""The manifest of a run's folder: what was asked, and how the run ended.

A run that is killed says "running" for ever: it is not finished, and has no sums.
"""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from consilium.coordinator.ledger import Ledger, stored_config
from consilium.protocol.errors import ConsiliumError, FailedAfterRelease, LedgerError
from consilium.protocol.files import replace_private
from consilium.simulations.checksums import write_sums
from consilium.simulations.interruption import Interrupted

FORMAT = 2
MANIFEST = "manifest.json"
PRIVATE = "private"
"""What exists only because this is a simulation: exact votes, what a report may not show."""
WORK = "private/work"
"""Private rows and keys, while an engine needs them in files."""
LEDGER, LABELS = "ledger.db", "labels.parquet"


@contextmanager
def working_in(run_dir: Path, manifest: Mapping[str, Any]) -> Iterator[None]:
    """The run's status is "running" while the context is open, then "complete", "interrupted" or "failed" and why.

    What an engine put into `WORK` goes however it ends. The sums of the files are written last of all.

    Raises
    ------
    FailedAfterRelease : what was raised inside, where something had been charged by then.
    """

    def state(status: str) -> None:
        replace_private(run_dir / MANIFEST, json.dumps({**manifest, "status": status}, indent=2) + "\n")

    try:
        state("running")
    except OSError:
        shutil.rmtree(run_dir, ignore_errors=True)
        raise
    try:
        try:
            yield
        finally:
            shutil.rmtree(run_dir / WORK, ignore_errors=True)
    except (Interrupted, KeyboardInterrupt):
        state("interrupted")
        raise
    except Exception as error:
        state(f"failed: {error if isinstance(error, ConsiliumError) else type(error).__name__}")
        if queries := charged_queries(run_dir):
            raise _after_release(error, run_dir, queries) from error
        raise
    state("complete")
    write_sums(run_dir)


def charged_queries(run_dir: Path) -> int:
    """How many queries the ledger of a run has charged; 0 where it has no ledger that can be read."""
    path = run_dir / LEDGER
    try:
        with closing(Ledger(path, stored_config(path)[0], "", read_only=True)) as ledger:
            return ledger.spent()[0]
    except LedgerError:
        return 0


def _after_release(error: Exception, run_dir: Path, queries: int) -> FailedAfterRelease:
    """The text of an error that nobody foresaw is left out: it may quote a row."""
    if isinstance(error, ConsiliumError):
        reason = str(error)
    else:
        frames = traceback.extract_tb(error.__traceback__)
        where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        reason = f"{type(error).__name__}{where}"
    what = (
        f"{reason.rstrip('.')}. {queries} queries had been released and charged by then: the answers are in"
        f" {run_dir / LABELS}, the charge in {run_dir / LEDGER}"
    )
    return FailedAfterRelease(what, "Another run releases anew, and its charge comes on top")
