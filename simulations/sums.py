"""`SHA256SUMS` of a run folder: what its files were when the run ended. `sha256sum -c SHA256SUMS` reads it too.

Whoever edits a file on purpose can write it anew: it finds damage and careless hands. What a run claims about privacy
is checked against the ledger, whatever stands here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from coordinator.verify import Absent, Contradiction, Damaged, Unfinished
from protocol.deploy.files import replace_text

FILE = "SHA256SUMS"
LEFT_OUT = ("private/work/", "sessions/")
"""Folders of what is no result."""


def write_sums(run_dir: Path) -> None:
    """Write it, last of all. Reports are left out: they can be drawn again, and are compared by that."""
    replace_text(run_dir / FILE, "".join(f"{_sum(run_dir / name)}  {name}\n" for name in _names(run_dir)))


def check_sums(run_dir: Path, complete: bool) -> str:
    """Compare every file with what is written.

    Raises
    ------
    Damaged : files are missing or changed. Contradiction : the run ended, but does not say so. Absent : no such file.
    """
    path = run_dir / FILE
    if not path.exists():
        if complete:
            raise Absent(f"no {FILE}: an older version, or a crash at the very end")
        raise Unfinished(f"{FILE} is written when the run ends")
    if not complete:
        raise Contradiction(f"{FILE} is written when a run ends, but the manifest says that this one did not")
    try:
        lines = [line.split("  ", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        raise Damaged(f"{FILE} cannot be read") from None
    if not lines or any(len(line) != 2 for line in lines):
        raise Damaged(f"{FILE} is no list of sums")
    written = {name: value for value, name in lines}
    missing = sorted(set(written) - set(_names(run_dir)))
    changed = sorted(name for name in set(written) - set(missing) if _sum(run_dir / name) != written[name])
    told = {"missing": missing, "changed": changed}
    if missing or changed:
        raise Damaged("; ".join(f"{what}: {', '.join(names)}" for what, names in told.items() if names))
    return f"{len(written)} files as they were when the run ended"


def _names(run_dir: Path) -> list[str]:
    names = (path.relative_to(run_dir).as_posix() for path in run_dir.rglob("*") if path.is_file())
    return sorted(name for name in names if not name.startswith(LEFT_OUT) and not _passing(name))


def _passing(name: str) -> bool:
    report = "/" not in name and name.startswith("report") and name.endswith(".html")
    return name in (FILE, "lock") or report or name.endswith((".lock", ".part"))


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
