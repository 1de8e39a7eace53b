"""Rows with owners and labels as a data set: of raw columns, which public rows make numbers of, or numbers already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
from consilium.simulations.datasets.base import Dataset, Source
from consilium.simulations.datasets.roles import JoinedRows, Piece, RowPart, RowSource, roles_of
from consilium.simulations.datasets.spec import MEMORY, SourceSpec

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, kw_only=True)
class TableSource(RowSource):
    """A `Source` of raw columns.

    frame: the columns that are features, as they were read. declared: what somebody says of them.
    """

    frame: pl.DataFrame = field(repr=False)
    declared: DeclaredColumns = field(repr=False)

    @classmethod
    def of_frame(
        cls, frame: pl.DataFrame, spec: SourceSpec, public: pl.DataFrame | None = None, test: pl.DataFrame | None = None
    ) -> TableSource:
        """The table that `spec` describes, of rows that are in memory.

        public: rows that are nobody's, with the columns of `frame`; owner, patient and time may be missing there. test:
        the same, to evaluate the student; left out, that is half of the public rows, by lot.

        Raises
        ------
        DataError, ConfigError : see `of_pieces`.
        """
        pieces = [Piece(frame, Lines.of_rows("the table", frame.height))]
        if public is not None:
            pieces.append(Piece(public, Lines.of_rows("the public rows", public.height), RowPart.QUERIES))
        if test is not None:
            pieces.append(Piece(test, Lines.of_rows("the test rows", test.height), RowPart.TEST))
        return cls.of_pieces(pieces, spec)

    @classmethod
    def of_pieces(cls, pieces: Sequence[Piece], spec: SourceSpec, faults: Faults | None = None) -> TableSource:
        """The table that `spec` describes; the first of the pieces is private and has all its columns.

        faults: notes there what is doubtful, and what is wrong where the columns can be judged all the same.

        Raises
        ------
        ConfigError : `spec` names no label, or one column twice. DataError : a column that it names is not there, has
            no value where it must have one, or is not usable; with file, row, column, value and what to do.
        """
        noted = Faults() if faults is None else faults
        roles = _roles(spec)
        _check_columns(pieces[0].frame, spec, roles, pieces[0].places)
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
            source = cls(**fields, frame=frame.drop([*roles, *spec.drop]), declared=spec.columns)
        if noted:
            infer(parts.frame.drop([*roles, *spec.drop]), spec.columns, parts.places, noted)
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

    def with_all_classes(self) -> TableSource:
        """The same, with the labels that occur as classes, whichever rows are public."""
        return replace(self, classes=self.values)

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
    roles = {role: getattr(spec, role) for role in ("label", "owner", "patient", "time") if getattr(spec, role)}
    options = "".join(f" --{role} {name}" for role, name in roles.items())
    return f"`consilium data check {spec.path}{options}` says more, and writes a scenario that reads it"


def _roles(spec: SourceSpec) -> list[str]:
    """Columns that are no features by what they are. Raises ConfigError."""
    if not spec.label:
        raise ConfigError("data.label is missing: nobody says which column is voted on", 'Set label = "COLUMN"')
    named = {key: getattr(spec, key) for key in ("label", "owner", "patient", "time") if getattr(spec, key)}
    for key, column in named.items():
        if twice := [other for other in named if other < key and named[other] == column]:
            raise ConfigError(f"data.{twice[0]} and data.{key} are both {column!r}", "Give each a column of its own")
        if column in spec.drop or column in spec.columns:
            other = "drop" if column in spec.drop else "columns"
            raise ConfigError(f"data.{key} is {column!r}, which data.{other} names too", "Name it once")
    if both := [column for column in spec.drop if column in spec.columns]:
        raise ConfigError(f"data.drop and data.columns both name {both[0]!r}", "Name it once")
    return list(named.values())


def _check_columns(frame: pl.DataFrame, spec: SourceSpec, roles: list[str], places: Lines) -> None:
    keys = {"label": spec.label, "owner": spec.owner, "patient": spec.patient, "time": spec.time}
    keys |= {f"drop ({column})": column for column in spec.drop}
    keys |= {f"columns ({column})": column for column in spec.columns}
    for key, column in keys.items():
        if column and column not in frame.columns:
            raise DataError(
                f"{places.whole} has no column {column!r}, which data.{key} names", meant(column, frame.columns)
            )
    if not set(frame.columns) - {*roles, *spec.drop}:
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


def raw_rows(source: Source, rows: np.ndarray) -> pl.DataFrame | None:
    """The raw features of the rows at these indices; None of a source that has none."""
    return source.frame[rows] if isinstance(source, TableSource) else None


@dataclass(frozen=True, kw_only=True)
class ArraySource(RowSource):
    """A `Source` of which only the classes may be open until public rows are known. x: float32 (rows, features)."""

    features: tuple[str, ...] = field(repr=False)
    x: np.ndarray = field(repr=False)

    @classmethod
    def of_parts(cls, x: np.ndarray, features: tuple[str, ...], parts: JoinedRows, spec: SourceSpec) -> ArraySource:
        """Rows `x` float32 of which `parts` has the columns that `spec` names. Raises DataError, ConfigError."""
        _, mask, fields = roles_of(parts, spec)
        return cls(**fields, features=features, x=x[mask])

    def dataset(self, public_rows: np.ndarray) -> Dataset:
        """See `Source`."""
        return self.as_numbers(self.features, self.x, *self.decided(public_rows))
