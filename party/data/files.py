"""The file of a party's rows, or all that a pattern names."""

from __future__ import annotations

import hashlib
from pathlib import Path

from consilium.party.data.problems import Problem, Unreadable
from consilium.protocol.tables.files import is_pattern

SUFFIXES = (".csv", ".tsv", ".parquet", ".npz")


def data_files(path: Path) -> list[Path]:
    """The file itself, or those of its folder whose name is like a pattern (`*.csv`), sorted.

    Raises
    ------
    Unreadable : none is there, they are of several kinds, or of no known one.
    """
    if path.exists() or not is_pattern(path.name):
        found = [path]
    else:
        found = sorted(each for each in path.parent.glob(path.name) if each.is_file())
    if not found:
        raise Unreadable(Problem(str(path), "there is no file of such a name", "Check `data` in party.toml"))
    kinds = {each.suffix.lower() for each in found}
    if not kinds <= set(SUFFIXES):
        what = "is of no format that is known by its name"
        raise Unreadable(Problem(str(path), what, f"Use {', '.join(SUFFIXES)}"))
    if ".npz" in kinds and len(found) > 1:
        raise Unreadable(
            Problem(str(path), f"are {len(found)} files, and an .npz stands alone", "Use .csv or .parquet")
        )
    return found


def there(path: Path) -> bool:
    """Whether there is a file of this name, or one that is like the pattern."""
    return path.exists() or (is_pattern(path.name) and any(path.parent.glob(path.name)))


def digest_of(path: Path) -> str:
    """SHA-256, hex, of the file, or of the digests of several; empty where one cannot be read."""
    try:
        digests = []
        for each in data_files(path):
            with open(each, "rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    except (OSError, Unreadable):
        return ""  # loading it says what is wrong
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
