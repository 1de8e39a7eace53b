"""Published data sets that are too large, or not ours, to ship: their folder, files, and arrays of coded words."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

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


def read_arrays(path: Path, source: str) -> dict[str, np.ndarray]:
    """All arrays of an .npz file.

    Raises
    ------
    DataError : it is no such file, or damaged; says where to get it (`source`).
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read {path}: {error}", f"Get it anew from {source}") from None


def same_length(path: Path, arrays: Mapping[str, np.ndarray], names: Iterable[str]) -> int:
    """The number of rows that all of the named columns have; DataError if one is missing or of another length."""
    names = tuple(names)
    if missing := [name for name in names if name not in arrays]:
        raise DataError(f"{path} has no array {missing[0]}", "Get the file anew")
    shapes = {name: arrays[name].shape for name in names}
    if len(set(shapes.values())) != 1 or len(shapes[names[0]]) != 1:
        raise DataError(f"{path}: arrays of different lengths: {shapes}", "Get the file anew")
    return shapes[names[0]][0]


def read_words(path: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, list[str]]:
    """The words of the coded columns, from `vocab_json`: column name -> word of each code."""
    try:
        words = json.loads(str(arrays["vocab_json"]))
        return {str(name): [str(word) for word in known] for name, known in words.items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        raise DataError(f"{path} has no readable vocab_json", "Get the file anew") from None


def grouped(path: Path, column: str, codes: np.ndarray, words: list[str], groups: Mapping[str, str]) -> np.ndarray:
    """Words of coded values (n,), each replaced by its group in the code book `groups`, as str (n,).

    Raises
    ------
    DataError : a code has no word, or a word that occurs is not in the code book.
    """
    if len(codes) and not 0 <= codes.min() <= codes.max() < len(words):
        raise DataError(f"{path}: {column} has a code without a word", "Get the file anew")
    if unknown := [words[code] for code in np.unique(codes) if words[code] not in groups]:
        raise DataError(f"{path}: {column} has the value {unknown[0]!r}, which is not in the code book")
    return np.array([groups.get(word, "") for word in words])[codes]


def one_hot(column: str, values: np.ndarray, categories: Iterable[str]) -> dict[str, np.ndarray]:
    """Columns "column=category" -> float32 (n,), 1 where `values` is that category."""
    return {f"{column}={category}": (values == category).astype(np.float32) for category in categories}
