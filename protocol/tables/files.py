"""A table's file by its name's end, and several files by a pattern."""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from consilium.protocol.errors import PathError
from consilium.protocol.rows.csv_files import CsvRule
from consilium.protocol.tables.csv_table import CsvTable
from consilium.protocol.tables.faults import Hints
from consilium.protocol.tables.lines import Lines
from consilium.protocol.tables.parquet_table import ParquetTable

if TYPE_CHECKING:
    import polars as pl


class TableFile(Protocol):
    """An open file. `names` of its columns, in order; one may be there twice.

    decimal_comma: whether numbers in its text have one.
    """

    names: tuple[str, ...]
    decimal_comma: bool

    def why_unreadable(self, place: int, dates: bool = False) -> str:
        """What is wrong with the type of the column at `place`, or nothing."""
        ...

    def read(self, places: Sequence[int], take: Callable[[int, pl.Series], None]) -> Lines:
        """Give each column at `places` to `take`, in one or more parts, with its index in `places`. Raises BadTable."""
        ...


def open_table(path: Path, rule: CsvRule, hints: Hints) -> TableFile:
    """Open one: Parquet by its name's end, every other one as CSV.

    Raises
    ------
    BadTable : it is of another kind, or has no columns. OSError
    """
    return ParquetTable(path) if path.suffix.lower() == ".parquet" else CsvTable(path, rule, hints)


def is_pattern(given: str) -> bool:
    """Whether it may stand for several files.

    >>> is_pattern("2024-*.csv"), is_pattern("a.csv")
    (True, False)
    """
    return glob.has_magic(given)


def files_of(given: str, folder: Path) -> tuple[Path, ...]:
    """A path, or all files that a pattern (`*`, `?`, `**`) has below `folder`, sorted by name.

    Raises
    ------
    PathError : there is none.
    """
    plain = folder / given
    if plain.exists() or not is_pattern(given):
        if not plain.exists():
            raise PathError(f"{plain} is not there", "Correct the path: it is relative to the file that names it")
        return (plain,)
    found = sorted(Path(name) for name in glob.glob(str(plain), recursive=True))
    found = [path for path in found if path.is_file()]
    if not found:
        raise PathError(f"no file is like {plain}", "Correct the pattern: it is relative to the file that names it")
    return tuple(found)
