"""A Parquet file: the columns that are asked for and nothing else, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilium.protocol.tables.faults import BadTable
from consilium.protocol.tables.lines import Lines

if TYPE_CHECKING:
    import polars as pl


class ParquetTable:
    """`names`: of the columns.

    Raises
    ------
    BadTable : no Parquet file. OSError
    """

    decimal_comma = False

    def __init__(self, path: Path) -> None:
        import polars as pl

        self._path = path
        with open(path, "rb"):  # the system's own error: not there, a folder, no rights
            pass
        try:
            self._kinds = pl.read_parquet_schema(path)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            raise self._broken() from None
        self.names = tuple(self._kinds)

    def why_unreadable(self, place: int, dates: bool = False) -> str:
        """What is wrong with the type of a column, or nothing. dates: whether they are taken, as text."""
        import polars as pl

        kind = self._kinds[self.names[place]]
        plain = kind.is_numeric() or kind in (pl.Boolean, pl.String, pl.Categorical, pl.Enum, pl.Null)
        if plain or (dates and kind in (pl.Date, pl.Datetime)):
            return ""
        return f"is of type {kind.base_type().__name__}, it must hold numbers or text"

    def read(self, places: Sequence[int], take: Callable[[int, pl.Series], None]) -> Lines:
        """Give the columns at `places` to `take`, with the column's index in `places`.

        Raises
        ------
        BadTable : the file is damaged. OSError
        """
        import polars as pl

        try:
            for index, place in enumerate(places):
                take(index, pl.read_parquet(self._path, columns=[self.names[place]]).to_series())
            rows = pl.scan_parquet(self._path).select(pl.len()).collect().item()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            raise self._broken() from None
        return Lines(((self._path.name, "row", np.arange(1, rows + 1)),))

    def _broken(self) -> BadTable:
        return BadTable(self._path, "is not a readable Parquet file", "Write it again, without encryption")
