"""The sums of a finished run's files, with which an audit finds what somebody changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from consilium.coordinator.verify import Contradiction, Damaged, Unfinished
from consilium.protocol.files import replace_private

FILE = "SHA256SUMS"
LEFT_OUT = ("private/work/", "sessions/")
"""Folders of what is no result."""
PASSING = (FILE, ".lock", ".part")
"""Ends of the names of files that are none either."""
LISTED = ("coordinator.json", "events.jsonl", "labels.parquet", "ledger.db", "manifest.json", "metrics.parquet")
LISTED += ("private/report.json", "student/MODEL_CARD.md", "student/model.safetensors", "student/plan.json")
LISTED += ("student/student.json", "summary.json")
"""Files that every finished simulation has."""


def write_sums(run_dir: Path) -> None:
    """Write it, last of all."""
    _write(run_dir, {name: _sum(run_dir / name) for name in _names(run_dir)})


def renew_sum(run_dir: Path, name: str) -> None:
    """Write the sum of one file anew, of a report that was drawn again; nothing where the run has no such file."""
    if (run_dir / FILE).exists():
        _write(run_dir, {**_read(run_dir), name: _sum(run_dir / name)})


def check_sums(run_dir: Path, complete: bool) -> str:
    """Compare every file with what is written. A report that `consilium report` draws again has its sum renewed.

    Raises
    ------
    Damaged : files are missing or changed, or of a run that ended its sums. Contradiction : the run ended, but does not
        say so. Unfinished : it has not ended.
    """
    if not (run_dir / FILE).exists():
        if complete:
            raise Damaged(f"{FILE} is missing, and the manifest says that the run ended")
        raise Unfinished(f"{FILE} is written when the run ends")
    if not complete:
        raise Contradiction(f"{FILE} is written when a run ends, but the manifest says that this one did not")
    written = _read(run_dir)
    if not written.keys() >= set(LISTED):
        raise Damaged(f"{FILE} lacks {', '.join(sorted(set(LISTED) - set(written)))}")
    missing = sorted(set(written) - set(_names(run_dir)))
    changed = sorted(name for name in set(written) - set(missing) if _sum(run_dir / name) != written[name])
    faults = {"missing": missing, "changed": changed}
    if missing or changed:
        raise Damaged("; ".join(f"{kind}: {', '.join(names)}" for kind, names in faults.items() if names))
    return f"{len(written)} files as they were when the run ended"


def _read(run_dir: Path) -> dict[str, str]:
    try:
        lines = [line.split("  ", 1) for line in (run_dir / FILE).read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        raise Damaged(f"{FILE} cannot be read") from None
    if not lines or any(len(line) != 2 for line in lines):
        raise Damaged(f"{FILE} is no list of sums")
    return {name: value for value, name in lines}


def _write(run_dir: Path, sums: dict[str, str]) -> None:
    replace_private(run_dir / FILE, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def _names(run_dir: Path) -> list[str]:
    names = (path.relative_to(run_dir).as_posix() for path in run_dir.rglob("*") if path.is_file())
    return sorted(name for name in names if not (name.startswith(LEFT_OUT) or name.endswith(PASSING)))


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
