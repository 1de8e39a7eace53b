"""A party's data file with some of its rows, in any order: what a neighbouring party would have."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from consilium.party.data import DataRules, npz, table_files
from consilium.party.data.problems import Unreadable
from consilium.protocol.errors import DataError
from consilium.protocol.rows.columns import Wanted


class RowFile(Protocol):
    """`count` rows; `patients` (count,) says whose they are, or is None where the file does not."""

    count: int
    patients: list[str] | None

    def write(self, path: Path, order: Sequence[int]) -> None:
        """A new file of the same form with these rows, which may repeat."""
        ...


class _Npz:
    def __init__(self, path: Path, rules: DataRules) -> None:
        self.patients = npz.read(path, [], _LABEL, rules.patient.column).patients
        with np.load(path, allow_pickle=False) as file:
            self._arrays = {name: file[name] for name in file.files}
        self.count = len(self._arrays["y"])
        self._of_rows = {"x", "y", rules.patient.column}

    def write(self, path: Path, order: Sequence[int]) -> None:
        rows = np.array(order, dtype=np.int64)
        np.savez(path, **{name: v[rows] if name in self._of_rows else v for name, v in self._arrays.items()})


class _Csv:
    def __init__(self, path: Path, rules: DataRules) -> None:
        self._rule = rules.csv
        self.patients = table_files.read([path], [], None, rules.csv, rules.patient.column).patients
        with open(path, encoding=rules.csv.encoding, newline="") as file:
            lines = [line for line in csv.reader(file, delimiter=rules.csv.separator, strict=True) if line]
        self._header, self._rows = lines[0], lines[1:]
        self.count = len(self._rows)

    def write(self, path: Path, order: Sequence[int]) -> None:
        with open(path, "w", encoding=self._rule.encoding, newline="") as file:
            writer = csv.writer(file, delimiter=self._rule.separator)
            writer.writerows([self._header, *(self._rows[row] for row in order)])


class _Parquet:
    def __init__(self, path: Path, rules: DataRules) -> None:
        import polars as pl

        self.patients = table_files.read([path], [], None, rules.csv, rules.patient.column).patients
        self._frame = pl.read_parquet(path)
        self.count = self._frame.height

    def write(self, path: Path, order: Sequence[int]) -> None:
        self._frame[list(order)].write_parquet(path)


_LABEL = Wanted("label", "y")
_READERS = {".npz": _Npz, ".csv": _Csv, ".parquet": _Parquet}


def open_rows(path: Path, rules: DataRules) -> RowFile:
    """The file's rows.

    Raises
    ------
    DataError : it cannot be read; `consilium party check` says more.
    """
    try:
        found = _READERS[path.suffix.lower()](path, rules)
    except (Unreadable, OSError, KeyError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {type(error).__name__}", "See `consilium party check`") from None
    if rules.patient.column is not None and found.patients is None:
        raise DataError(f"{path} has no column {rules.patient.column!r}", "Correct [patient] in party.toml")
    return found
