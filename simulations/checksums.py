"""The sums of a finished run's files, with which an audit finds what was damaged; `sha256sum -c` reads them too."""

from __future__ import annotations

import hashlib
from pathlib import Path

from consilium.coordinator.verify.findings import Damaged, Unfinished
from consilium.protocol.files import replace_private

FILE = "SHA256SUMS"
LEFT_OUT = ("private/work/", "sessions/")
"""Folders of what is no result."""
PASSING = (FILE, ".lock", ".part")
"""Ends of the names of files that are none either."""


def write_sums(run_dir: Path) -> None:
    """Write it, last of all."""
    names = (path.relative_to(run_dir).as_posix() for path in run_dir.rglob("*") if path.is_file())
    kept = [name for name in names if not name.startswith(LEFT_OUT) and not name.endswith(PASSING)]
    _write(run_dir, {name: _sum(run_dir / name) for name in kept})


def renew_sum(run_dir: Path, name: str) -> None:
    """Write the sum of one file anew, of a report that was drawn again; nothing where the run has no such file."""
    if (run_dir / FILE).exists():
        _write(run_dir, {**_read(run_dir), name: _sum(run_dir / name)})


def check_sums(run_dir: Path, complete: bool) -> str:
    """Compare every file with its sum.

    Raises
    ------
    Damaged : files are missing or changed, or the sums of a run that ended are. Unfinished : it has not ended.
    """
    if not (run_dir / FILE).exists():
        raise Damaged(f"{FILE} is missing") if complete else Unfinished(f"{FILE} is written when the run ends")
    written = _read(run_dir)
    missing = sorted(name for name in written if not (run_dir / name).is_file())
    changed = sorted(name for name in written if name not in missing and _sum(run_dir / name) != written[name])
    faults = {"missing": missing, "changed": changed}
    if missing or changed:
        raise Damaged("; ".join(f"{kind}: {', '.join(names)}" for kind, names in faults.items() if names))
    return f"{len(written)} files as they were when the run ended"


def _read(run_dir: Path) -> dict[str, str]:
    try:
        pairs = [line.split("  ", 1) for line in (run_dir / FILE).read_text(encoding="utf-8").splitlines()]
        sums = {name: value for value, name in pairs}
    except (OSError, ValueError):
        sums = {}
    if not sums:
        raise Damaged(f"{FILE} is no list of sums")
    return sums


def _write(run_dir: Path, sums: dict[str, str]) -> None:
    replace_private(run_dir / FILE, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
