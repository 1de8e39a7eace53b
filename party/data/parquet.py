"""Reader of .parquet: the mapped columns and nothing else, numbers or text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from party.data.npz import absent_or_double
from party.data.problems import Problem, Unreadable
from protocol.columns import Column, Wanted, from_numbers, from_text


def read(path: Path, wanted: Sequence[Wanted]) -> tuple[list[Column | None], list[Problem]]:
    """The columns that are wanted, None where it cannot be read, and what is wrong with the file's form.

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
        if not (kind.is_numeric() or kind in (pl.Boolean, pl.String, pl.Categorical, pl.Enum, pl.Null)):
            what = f"is of type {kind.base_type().__name__}, it must hold numbers or text"
            problems.append(Problem(column.where, what, "Write it as numbers: one value in each row"))
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
    return columns, problems
