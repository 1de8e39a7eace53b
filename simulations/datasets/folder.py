"""Where the data sets lie that are too large, or not ours, to ship."""

from __future__ import annotations

import os
from pathlib import Path

from consilium.protocol.errors import DataError

VARIABLE = "CONSILIUM_DATA"
BESIDE = Path("..") / "shared" / "data"


def data_folder(path: str = "") -> Path:
    """The folder of the data sets: `path`, else $CONSILIUM_DATA, else `../shared/data` beside the working folder or
    beside the project.

    Raises
    ------
    DataError : none of them is a folder.
    """
    named = path or os.environ.get(VARIABLE, "")
    root = Path(__file__).resolve().parents[2]
    for folder in [Path(named)] if named else [BESIDE, root / BESIDE]:
        if folder.is_dir():
            return folder
    tried = named or f"{BESIDE} beside the working folder or the project"
    raise DataError(f"no folder of data sets: {tried} is not there", f"Set data.path or the variable {VARIABLE}")


def data_file(folder: Path, name: str, source: str) -> Path:
    """The file of that name in `folder`; DataError that says where to get it (`source`) if it is not there."""
    path = folder / name
    if not path.is_file():
        raise DataError(f"{path} is not there", f"Get it from {source}, or set data.path or {VARIABLE}")
    return path
