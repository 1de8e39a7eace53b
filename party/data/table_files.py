"""Reader of .csv and .parquet, one file or several that a pattern names: the mapped columns and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from consilium.party.data.absent import absent_or_double, patient_of
from consilium.party.data.problems import Problem, Unreadable
from consilium.party.data.table import FileColumns
from consilium.protocol.rows.columns import Column, Wanted
from consilium.protocol.rows.csv_files import CsvRule
from consilium.protocol.tables.cells import read_cells
from consilium.protocol.tables.csv_table import TornRows
from consilium.protocol.tables.faults import BadTable, in_file
from consilium.protocol.tables.files import TableFile, open_table
from consilium.protocol.tables.lines import Lines

if TYPE_CHECKING:
    import polars as pl

HINTS = in_file("csv")


def names_of(paths: Sequence[Path], rule: CsvRule) -> tuple[str, ...]:
    """Names of the columns of the first file. Raises Unreadable, OSError."""
    return _open(paths[0], rule).names


def read(
    paths: Sequence[Path], features: Sequence[Wanted], label: Wanted | None, rule: CsvRule, patient: str | None
) -> FileColumns:
    """The columns that are wanted, the label last if there is one, and the texts of column `patient`.

    Raises
    ------
    Unreadable : a file is no table. OSError
    """
    parts = [_read(path, features, label, rule, patient) for path in paths]
    if len(parts) == 1:
        return parts[0]
    columns: list[Column | None] = []
    for of_column in zip(*(part.columns for part in parts), strict=True):
        there = [column for column in of_column if column is not None]
        columns.append(Column.joined(there) if len(there) == len(parts) else None)
    whose = [part.patients for part in parts if part.patients is not None]
    return FileColumns(
        columns,
        [
            Problem(f"{path.name}, {problem.where}", problem.what, problem.action, problem.rule)
            for path, part in zip(paths, parts, strict=True)
            for problem in part.problems
        ],
        [name for names in whose for name in names] if len(whose) == len(parts) else None,
        Lines.joined([part.lines for part in parts]),
    )


def _open(path: Path, rule: CsvRule) -> TableFile:
    try:
        return open_table(path, rule, HINTS)
    except BadTable as error:
        raise _unreadable(error) from None


def _unreadable(error: BadTable) -> Unreadable:
    return Unreadable(Problem(str(error.path), error.fault, error.action))


def _read(
    path: Path, features: Sequence[Wanted], label: Wanted | None, rule: CsvRule, patient: str | None
) -> FileColumns:
    import polars as pl

    file = _open(path, rule)
    whose = None if patient is None else patient_of(patient.strip())
    asked = [(wanted, "[columns]") for wanted in features]
    asked += [(wanted, table) for wanted, table in ((label, "[label]"), (whose, "[patient]")) if wanted is not None]
    problems, found = [], {}
    for index, (wanted, table) in enumerate(asked):
        if file.names.count(wanted.column) != 1:
            problems.append(absent_or_double(wanted, file.names, table))
        elif fault := file.why_unreadable(file.names.index(wanted.column)):
            problems.append(Problem(wanted.where, fault, "Write it as numbers: one value in each row"))
        else:
            found[index] = file.names.index(wanted.column)
    parts: dict[int, list[Column]] = {index: [] for index in found}
    patients: list[str] = []
    order = list(found)

    def take(place: int, cells: pl.Series) -> None:
        wanted = asked[order[place]][0]
        if wanted is whose:
            patients.extend(cells.cast(pl.String).fill_null("").str.strip_chars().to_list())
        else:
            parts[order[place]].append(read_cells(cells, wanted, file.decimal_comma))

    try:
        lines = file.read(list(found.values()), take)
    except TornRows as error:
        problems.append(Problem(str(path), error.fault, error.action))
        lines = error.lines
    except BadTable as error:
        raise _unreadable(error) from None
    columns: list[Column | None] = []
    for index in range(len(asked) - (whose is not None)):
        part = parts.pop(index, [])
        columns.append(Column.joined(part) if part else None)
        part.clear()  # half of the memory, where files are large
    known = whose is not None and len(asked) - 1 in found
    return FileColumns(columns, problems, patients if known else None, lines)
