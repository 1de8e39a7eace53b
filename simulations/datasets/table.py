"""Rows with owners and labels as a data set: of raw columns, which public rows make numbers of, or numbers already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from consilium.data.cells import ValueState
from consilium.data.encoding import DeclaredColumns, Doubt, encode, infer, note_odd
from consilium.data.files import Lines
from consilium.data.remedy import Faults, TableFault
from consilium.data.texts import codes_among, written
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.schema import ColumnEncoding, features_of
from consilium.simulations.datasets.base import MEMORY, Dataset, SourceSpec
from consilium.simulations.datasets.roles import JoinedRows, Piece, RowPart, RowSource, roles_of

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, kw_only=True)
class TableSource(RowSource):
    """A `Source` of raw columns. frame: the columns that are features, as they were read. declared: what somebody says
    of them."""

    frame: pl.DataFrame = field(repr=False)
    declared: DeclaredColumns = field(repr=False)

    @classmethod
    def of_frame(cls, frame: pl.DataFrame, spec: SourceSpec, public: pl.DataFrame | None = None) -> TableSource:
        """The table that `spec` describes, of rows that are in memory. public: rows that are nobody's, with the columns
        of `frame`; owner, patient and time may be missing there. Half of them, by lot, evaluate the student. Raises
        DataError, ConfigError: see `of_pieces`."""
        pieces = [Piece(frame, Lines.of_rows("the table", frame.height))]
        if public is not None:
            pieces.append(Piece(public, Lines.of_rows("the public rows", public.height), RowPart.QUERIES))
        return cls.of_pieces(pieces, spec)

    @classmethod
    def of_pieces(cls, pieces: Sequence[Piece], spec: SourceSpec, faults: Faults | None = None) -> TableSource:
        """The table that `spec` describes; the first of the pieces is private and has all its columns. faults: notes
        there what is doubtful, and what is wrong where the columns can be judged all the same. Raises ConfigError:
        `spec` names no label, or one column twice. DataError: a column that it names is not there, has no value where
        it must have one, or is not usable; with file, row, column, value and what to do."""
        noted = Faults() if faults is None else faults
        _check_columns(pieces[0].frame, spec, pieces[0].places)
        no_features = [*spec.roles.values(), *spec.drop]
        parts = JoinedRows.of(pieces, optional={spec.owner, spec.patient, spec.time, *spec.drop})
        if spec.missing:
            parts = parts.with_nulls(spec.missing)
        if spec.duplicates == "drop":
            parts = parts.without_copies()
        elif faults is not None:
            faults.doubts += parts.copies(bool(spec.patient))
        source = None
        with noted.noting():
            frame, _, fields = roles_of(parts, spec, noted)
            source = cls(**fields, frame=frame.drop(no_features), declared=spec.columns)
        if noted:
            infer(parts.frame.drop(no_features), spec.columns, parts.places, noted)
        if source is None or (noted and faults is None):
            raise noted.error(parts.places.whole, cure=True, python=spec.set == MEMORY, more=how_to_check(spec))
        return source

    def dataset(self, public_rows: np.ndarray) -> Dataset:
        """All rows by the categories of those at these indices; a missing value is NaN still. See `Source`."""
        faults, columns, x = Faults(), (), np.zeros(0)
        classes, y = self.values, self.y
        with faults.noting():
            classes, y = self.decided(public_rows)
        with faults.noting():
            columns = infer(self.frame[public_rows], self.declared, self.places.left(public_rows))
            x, doubts = encode(self.frame, columns)
            self._note_private(columns, doubts, faults)
        if not faults:
            return self.as_numbers(features_of(columns), x, classes, y, columns)
        whole = Faults()
        infer(self.frame, self.declared, self.places, whole)  # the same words whichever rows are public
        known = {fault.column for fault in whole if isinstance(fault, TableFault)}
        whole += [fault for fault in faults if getattr(fault, "column", "") not in known]
        raise whole.error(self.places.whole, cure=True, python=self.name == MEMORY)

    def _note_private(self, columns: Sequence[ColumnEncoding], doubts: Sequence[Doubt], faults: Faults) -> None:
        """Note what other rows have in a column that is one of numbers by the public ones."""
        import polars as pl

        for column in columns:
            name, texts = column.column, written(self.frame[column.column])
            inferred = column.kind == "number" and name not in self.declared
            if inferred and self.frame[name].dtype == pl.String and (codes := codes_among(texts)):
                where = self.places.first(np.flatnonzero(texts.is_in(codes).fill_null(False).to_numpy()))
                what = f"{where}: {name} is {codes[0]!r}, a code by its form, where public rows have numbers"
                action = 'Declare the column a "category", or a "number", under data.columns'
                faults.append(TableFault(what, action, name, {"columns": {name: "category"}}))
        for doubt in doubts:
            if doubt.state != ValueState.UNKNOWN_CATEGORY:
                wrong = np.isin(np.arange(self.frame.height), doubt.rows)
                note_odd(written(self.frame[doubt.column]), wrong, self.places, faults)


def how_to_check(spec: SourceSpec) -> str:
    """Which command says more of a table in a file."""
    if spec.set != "table":
        return ""
    options = "".join(f" --{role} {name}" for role, name in spec.roles.items())
    return f"`consilium data check {spec.path}{options}` says more, and writes a scenario that reads it"


def _check_columns(frame: pl.DataFrame, spec: SourceSpec, places: Lines) -> None:
    """Raise ConfigError where `spec` names a column twice, or no label; DataError where one that it names is not there,
    or none is a feature."""
    if not spec.label:
        raise ConfigError("data.label is missing: nobody says which column is voted on", 'Set label = "COLUMN"')
    keys = list(spec.roles.items())
    keys += [(f"{key} ({column})", column) for key in ("drop", "columns") for column in getattr(spec, key)]
    for place, (key, column) in enumerate(keys):
        if twice := [other for other, name in keys[:place] if name == column]:
            first, second = (name.partition(" ")[0] for name in (twice[0], key))
            raise ConfigError(f"data.{first} and data.{second} both name {column!r}", "Give each a column of its own")
        if column not in frame.columns:
            what = f"{places.whole} has no column {column!r}, which data.{key} names"
            raise DataError(what, meant(column, frame.columns))
    if not set(frame.columns) - {*spec.roles.values(), *spec.drop}:
        raise DataError(f"{places.whole} has no column that is a feature", meant("", frame.columns))


def meant(name: str, columns: list[str]) -> str:
    """What to do about a column that is not there.

    >>> meant("hopsital", ["age", "hospital"])
    "Did you mean 'hospital'? It has age, hospital"
    """
    small = {column.casefold(): column for column in columns}
    near = [small[text] for text in get_close_matches(name.casefold(), small, 2)]
    more = f" and {len(columns) - 20} more" if len(columns) > 20 else ""
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    return f"{hint}It has {', '.join(columns[:20])}{more}"


@dataclass(frozen=True, kw_only=True)
class ArraySource(RowSource):
    """A `Source` of which only the classes may be open until public rows are known. x: float32 (rows, features)."""

    features: tuple[str, ...] = field(repr=False)
    x: np.ndarray = field(repr=False)

    def dataset(self, public_rows: np.ndarray) -> Dataset:
        return self.as_numbers(self.features, self.x, *self.decided(public_rows))
