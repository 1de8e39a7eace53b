"""The rows of a table, private ones and those of public files of their own, one below the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consilium.data.cells import texts_of
from consilium.protocol.errors import DataError
from consilium.simulations.datasets.places import Places

if TYPE_CHECKING:
    import polars as pl


class Part(IntEnum):
    """What rows are by the file that they are of: a party's, public, or public and held out for evaluation."""

    PRIVATE = 0
    QUERIES = 1
    TEST = 2


class Piece(NamedTuple):
    """Rows of one part. The first piece of a table has all its columns."""

    frame: pl.DataFrame
    places: Places
    part: Part = Part.PRIVATE


@dataclass(frozen=True)
class JoinedRows:
    """part: uint8 (rows,) of `Part`, of each row of `frame`."""

    frame: pl.DataFrame = field(repr=False)
    part: np.ndarray = field(repr=False)
    places: Places = field(repr=False)

    @classmethod
    def of(cls, pieces: Sequence[Piece], optional: Collection[str] = ()) -> JoinedRows:
        """All pieces. optional: columns that public pieces may lack.

        Raises
        ------
        DataError : a public piece lacks another column, or a piece has no row.
        """
        import polars as pl

        for piece in pieces:
            if not piece.frame.height:
                raise DataError(f"{piece.places.whole} has no rows", "Export the data again")
        first, *others = pieces
        frames = [first.frame, *(_aligned(piece, first, optional) for piece in others)]
        mixed = [name for name in first.frame.columns if len({frame[name].dtype for frame in frames}) > 1]
        as_text = [frame.with_columns([texts_of(frame[name]).alias(name) for name in mixed]) for frame in frames]
        part = np.repeat([np.uint8(piece.part) for piece in pieces], [piece.frame.height for piece in pieces])
        return cls(pl.concat(as_text), part, Places.joined([piece.places for piece in pieces]))

    @property
    def private(self) -> np.ndarray:
        """bool (rows,): of no public file."""
        return self.part == Part.PRIVATE

    def rows(self, part: Part) -> np.ndarray:
        """Indices int64 of the rows of a part."""
        return np.flatnonzero(self.part == part)

    def left(self, kept: np.ndarray) -> JoinedRows:
        """The rows that `kept` bool (rows,) keeps."""
        return JoinedRows(self.frame.filter(kept), self.part[kept], self.places.left(kept))

    def with_nulls(self, missing: Collection[str]) -> JoinedRows:
        """The same rows with nothing where one of these texts stands, alone in its column or beside numbers."""
        import polars as pl

        changed = []
        for name in self.frame.columns:
            texts = texts_of(self.frame[name])
            if texts.is_in(list(missing)).any():
                changed.append(pl.select(pl.when(~texts.is_in(list(missing))).then(texts).alias(name)).to_series())
        return replace(self, frame=self.frame.with_columns(changed))


def _aligned(piece: Piece, first: Piece, optional: Collection[str]) -> pl.DataFrame:
    """The piece with the columns of the first, in its order."""
    import polars as pl

    names = first.frame.columns
    absent = [name for name in names if name not in piece.frame.columns]
    if needed := [name for name in absent if name not in optional]:
        raise DataError(
            f"{piece.places.whole} has no column {needed[0]!r}, which {first.places.whole} has",
            "Public rows need the columns of the others, but for owner, patient, time and what data.drop names",
        )
    empty = [pl.lit(None, dtype=first.frame[name].dtype).alias(name) for name in absent]
    return piece.frame.with_columns(empty).select(names)
