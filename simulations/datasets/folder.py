"""Where the data sets lie that are too large, or not ours, to ship."""

from __future__ import annotations

import os
from pathlib import Path

from consilium.protocol.errors import DataError

VARIABLE = "CONSILIUM_DATA"


def data_folder(path: str = "") -> Path:
    """The folder of the data sets: `path`, else $CONSILIUM_DATA. There is no other default: nobody else knows where a
    user keeps them.

    Raises
    ------
    DataError : none is named, or it is no folder.
    """
    named = path or os.environ.get(VARIABLE, "")
    action = (
        f"Name it with data.path (--set data.path=FOLDER) or the variable {VARIABLE}; docs/scenarios.md says what lies"
        " in it"
    )
    if not named:
        raise DataError("this data set is not in the package, and no folder of data sets is named", action)
    if not Path(named).is_dir():
        where = "data.path" if path else VARIABLE
        raise DataError(f"no folder of data sets: {where} is {named}, which is no folder", action)
    return Path(named)


def data_file(folder: Path, name: str, source: str) -> Path:
    """The file of that name in `folder`; DataError that says where to get it (`source`) if it is not there."""
    path = folder / name
    if not path.is_file():
        raise DataError(f"{path} is not there", f"Get it from {source}, or set data.path or {VARIABLE}")
    return path
