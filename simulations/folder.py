"""The folder of a run: its manifest, which says what was asked and how the run ended, its sums, and its summary.

A run that is killed says "running" for ever: it is not finished, and has no sums.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import traceback
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from consilium.coordinator.ledger import Ledger, stored_config
from consilium.coordinator.verify.ledger import Damaged, Unfinished
from consilium.protocol.errors import (
    ConfigError,
    ConsiliumError,
    DataError,
    FailedAfterRelease,
    LedgerError,
    OutputExists,
    PathError,
)
from consilium.protocol.files import replace_private
from consilium.simulations.interruption import Interrupted

FORMAT = 2
MANIFEST, SUMMARY = "manifest.json", "summary.json"
PRIVATE = "private"
"""What exists only because this is a simulation: exact votes, what a report may not show."""
WORK = "private/work"
"""Private rows and keys, while an engine needs them in files."""
LEDGER, LABELS = "ledger.db", "labels.parquet"


def make_run_dir(path: Path) -> Path:
    """Create the output folder. Raises OutputExists: it is there already. ConfigError: it cannot be made."""
    try:
        path.mkdir(parents=True, mode=0o700)  # summary and ledger hold functions of the votes
        (path / PRIVATE).mkdir(mode=0o700)
    except FileExistsError:
        raise OutputExists(f"output folder {path} exists already", "Choose another with --out, or remove it") from None
    except OSError as error:
        raise ConfigError(f"cannot make output folder {path}: {error.strerror}", "Choose another with --out") from None
    return path.resolve()


@contextmanager
def working_in(run_dir: Path, manifest: Mapping[str, Any]) -> Iterator[None]:
    """The run's status is "running" while the context is open, then "complete", "interrupted" or "failed" and why. What
    an engine put into `WORK` goes however it ends. The sums of the files are written last of all. Raises
    FailedAfterRelease: what was raised inside, where something had been charged by then."""

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
    reason = str(error)
    if not isinstance(error, ConsiliumError):
        frames = traceback.extract_tb(error.__traceback__)
        where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        reason = f"{type(error).__name__}{where}"
    what = (
        f"{reason.rstrip('.')}. {queries} queries had been released and charged by then: the answers are in"
        f" {run_dir / LABELS}, the charge in {run_dir / LEDGER}"
    )
    return FailedAfterRelease(what, "Another run releases anew, and its charge comes on top")


SUMS = "SHA256SUMS"
"""The sums of a finished run's files, with which an audit finds what was damaged; `sha256sum -c` reads them too."""
NO_RESULT, PASSING = ("private/work/", "sessions/"), (SUMS, ".lock", ".part")
"""Begins and ends of the names of files that have no sum."""


def write_sums(run_dir: Path) -> None:
    """Write it, last of all."""
    names = (path.relative_to(run_dir).as_posix() for path in run_dir.rglob("*") if path.is_file())
    kept = [name for name in names if not name.startswith(NO_RESULT) and not name.endswith(PASSING)]
    _write(run_dir, {name: _sum(run_dir / name) for name in kept})


def renew_sum(run_dir: Path, name: str) -> None:
    """Write the sum of one file anew, of a report that was drawn again; nothing where the run has no such file."""
    if (run_dir / SUMS).exists():
        _write(run_dir, {**_read(run_dir), name: _sum(run_dir / name)})


def check_sums(run_dir: Path, complete: bool) -> str:
    """Compare every file with its sum. Raises Damaged: files are missing or changed, or the sums of a run that ended
    are. Unfinished: it has not ended."""
    if not (run_dir / SUMS).exists():
        raise Damaged(f"{SUMS} is missing") if complete else Unfinished(f"{SUMS} is written when the run ends")
    written = _read(run_dir)
    missing = sorted(name for name in written if not (run_dir / name).is_file())
    changed = sorted(name for name in written if name not in missing and _sum(run_dir / name) != written[name])
    faults = {"missing": missing, "changed": changed}
    if missing or changed:
        raise Damaged("; ".join(f"{kind}: {', '.join(names)}" for kind, names in faults.items() if names))
    return f"{len(written)} files as they were when the run ended"


def _read(run_dir: Path) -> dict[str, str]:
    try:
        pairs = [line.split("  ", 1) for line in (run_dir / SUMS).read_text(encoding="utf-8").splitlines()]
        sums = {name: value for value, name in pairs}
    except (OSError, ValueError):
        sums = {}
    if not sums:
        raise Damaged(f"{SUMS} is no list of sums")
    return sums


def _write(run_dir: Path, sums: dict[str, str]) -> None:
    replace_private(run_dir / SUMS, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_finished(run: Path) -> None:
    """Raise PathError or DataError if no finished simulation lies there."""
    if not run.is_dir():
        raise PathError(f"{run} is no folder", "Give the folder of a run")
    if not (run / SUMMARY).is_file():
        raise DataError(f"{run} holds no finished run: {SUMMARY} is not there", "Give the folder of a finished run")


def read_summary(run: Path) -> dict[str, Any]:
    """What `consilium run --format json` printed; it holds the secret data-dependent epsilon. Raises PathError,
    DataError: no finished run lies there, or its summary is damaged."""
    check_finished(run)
    try:
        summary = json.loads((run / SUMMARY).read_text(encoding="utf-8"))
        if not {"privacy", "student", "baselines", "queries", "worth"} <= summary.keys():
            raise ValueError
    except OSError as error:
        raise PathError(f"cannot read {run / SUMMARY}: {error.strerror}", "Was the folder removed?") from None
    except (ValueError, AttributeError, RecursionError):
        raise DataError(f"{run / SUMMARY} is damaged", "Run: consilium audit") from None
    return summary
