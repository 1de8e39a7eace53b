"""Reader of .parquet: the mapped columns and nothing else, numbers or text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from consilium.party.data.npz import absent_or_double, patient_of
from consilium.party.data.problems import Problem, Unreadable
from consilium.party.data.table import FileColumns
from consilium.protocol.rows.columns import Column, Wanted, from_numbers, from_text

if TYPE_CHECKING:
    import polars as pl


def read(path: Path, wanted: Sequence[Wanted], patient: str | None = None) -> FileColumns:
    """The columns that are wanted, and the texts of column `patient`.

    Raises
    ------
    Unreadable : no Parquet file. OSError
    """
    import polars as pl

    broken = Unreadable(Problem(str(path), "is not a readable Parquet file", "Write it again, without encryption"))
    with open(path, "rb"):  # raises what `read_rows` explains: not there, a folder, no rights
        pass
    try:
        kinds = pl.read_parquet_schema(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise broken from None
    problems: list[Problem] = []
    columns: list[Column | None] = [None] * len(wanted)
    for index, column in enumerate(wanted):
        if column.column not in kinds:
            problems.append(absent_or_double(column, list(kinds)))
            continue
        kind = kinds[column.column]
        if not _readable(kind):
            problems.append(_unreadable(column, kind))
            continue
        try:
            values = pl.read_parquet(path, columns=[column.column])[column.column]
            if kind.is_numeric() or kind == pl.Boolean:
                numbers = values.cast(pl.Float64).to_numpy()  # nulls become NaN
                columns[index] = from_numbers(numbers, column)
            else:
                columns[index] = from_text(values.cast(pl.String), column)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            raise broken from None
    if patient is None:
        return FileColumns(columns, problems)
    whose = patient_of(patient)
    if patient not in kinds:
        return FileColumns(columns, [*problems, absent_or_double(whose, list(kinds))])
    if not _readable(kinds[patient]):
        return FileColumns(columns, [*problems, _unreadable(whose, kinds[patient])])
    try:
        texts = pl.read_parquet(path, columns=[patient])[patient].cast(pl.String).fill_null("").str.strip_chars()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise broken from None
    return FileColumns(columns, problems, texts.to_list())


def _readable(kind: pl.DataType) -> bool:
    import polars as pl

    return kind.is_numeric() or kind in (pl.Boolean, pl.String, pl.Categorical, pl.Enum, pl.Null)


def _unreadable(column: Wanted, kind: pl.DataType) -> Problem:
    what = f"is of type {kind.base_type().__name__}, it must hold numbers or text"
    return Problem(column.where, what, "Write it as numbers: one value in each row")
