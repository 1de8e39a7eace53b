"""What rows are besides their features: whose, of which patient, when, with which label, public or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from consilium.data.encoding import note_missing, times_of
from consilium.data.files import Lines
from consilium.data.remedy import SHOWN, Faults, TableFault
from consilium.data.table import below
from consilium.data.texts import in_order, spelled_twice, texts_of
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.messages import MOST_CLASSES as MOST_DECLARED
from consilium.protocol.schema import MOST_LETTERS
from consilium.simulations.datasets.base import Public, PublicSpec, Source, SourceSpec

if TYPE_CHECKING:
    import polars as pl


class RowPart(IntEnum):
    """What rows are by the file that they are of: a party's, public, or public and held out for evaluation."""

    PRIVATE = 0
    QUERIES = 1
    TEST = 2


def parts_of(private: str, spec: SourceSpec) -> list[tuple[str, RowPart]]:
    """What names the parties' rows, and what `spec` says of public ones of their own file."""
    parts = [(private, RowPart.PRIVATE)]
    if spec.public is not None and spec.public.by == "file":
        parts.append((spec.public.file, RowPart.QUERIES))
        parts += [(spec.public.test, RowPart.TEST)] if spec.public.test else []
    return parts


class Piece(NamedTuple):
    """Rows of one part. The first piece of a table has all its columns."""

    frame: pl.DataFrame
    places: Lines
    part: RowPart = RowPart.PRIVATE


@dataclass(frozen=True)
class JoinedRows:
    """part: uint8 (rows,) of `RowPart`, of each row of `frame`. left_out: rows that were there, by why they are not."""

    frame: pl.DataFrame = field(repr=False)
    part: np.ndarray = field(repr=False)
    places: Lines = field(repr=False)
    left_out: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, pieces: Sequence[Piece], optional: Collection[str] = ()) -> JoinedRows:
        """All pieces. optional: columns that public pieces may lack. Raises DataError: a public piece lacks another
        column, or a piece has no row."""
        for piece in pieces:
            if not piece.frame.height:
                raise DataError(f"{piece.places.whole} has no rows", "Export the data again")
        first, *others = pieces
        frames = [first.frame, *(_aligned(piece, first, optional) for piece in others)]
        part = np.repeat([np.uint8(piece.part) for piece in pieces], [piece.frame.height for piece in pieces])
        return cls(below(frames), part, Lines.joined([piece.places for piece in pieces]))

    @property
    def private(self) -> np.ndarray:
        """bool (rows,): of no public file."""
        return self.part == RowPart.PRIVATE

    def rows(self, part: RowPart) -> np.ndarray:
        """Indices int64 of the rows of a part."""
        return np.flatnonzero(self.part == part)

    def left(self, mask: np.ndarray, why: str) -> JoinedRows:
        """The rows that `mask` bool (rows,) keeps. why: the others are not kept."""
        left_out = {**self.left_out, why: int(np.count_nonzero(~mask))}
        return JoinedRows(self.frame.filter(mask), self.part[mask], self.places.left(mask), left_out)

    def without_copies(self) -> JoinedRows:
        import polars as pl

        whole = self.frame.with_columns(pl.Series("\0part", self.part))
        first = whole.select(pl.struct(pl.all()).is_first_distinct()).to_series().to_numpy()
        return self.left(first, "that equal another one in every column")

    def copies(self, of_patients: bool) -> list[TableFault]:
        """What to say of rows that are equal in every column. of_patients: whether a column says whose they are."""
        count = self.frame.height - self.without_copies().frame.height
        what = f"{self.places.whole}: {count} rows equal another one in every column: a copy counts its patient twice"
        unless = "" if of_patients else ", unless two people are alike in all of it"
        action = f'Remove them, or set duplicates = "drop"{unless}'
        return [TableFault(what, action, keys={"duplicates": "drop"} if of_patients else {})] if count else []

    def with_nulls(self, missing: Collection[str]) -> JoinedRows:
        """The same rows with nothing where one of these texts stands, alone in its column or beside numbers."""
        import polars as pl

        changed = []
        for name in self.frame.columns:
            texts = texts_of(self.frame[name])
            if texts.is_in(list(missing)).any():
                values = self.frame[name]
                changed.append(pl.select(pl.when(~texts.is_in(list(missing))).then(values).alias(name)).to_series())
        return replace(self, frame=self.frame.with_columns(changed))


def _aligned(piece: Piece, first: Piece, optional: Collection[str]) -> pl.DataFrame:
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


MOST_CLASSES = 100  # a label with more different values is an identifier, or a measurement


def labels_of(
    texts: pl.Series, classes: Sequence[str], values: Mapping[str, str], places: Lines, column: str
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Indices int64 (rows,) and what they point at, the classes or else the texts that occur, from texts (rows,), none
    of which is missing. classes: declared, in order, or none. values: the class that a text stands for; empty, it is
    its own. Raises DataError: a label that is no class, one class only, a measurement or an identifier."""
    for key, declared in (("data.label_values", list(values)), ("data.classes", list(classes))):
        unknown = np.flatnonzero(~texts.is_in(declared)) if declared else np.zeros(0, dtype=np.int64)
        if len(unknown):
            raise DataError(
                f"{places.first(unknown)}: {column} is {texts[int(unknown[0])]!r}, which {key} does not have:"
                f" {declared[:10]}",
                "Correct the rows, name the label there, or say under data.label_values which class it means",
            )
        if key == "data.label_values" and values:
            texts = texts.replace_strict(dict(values), return_dtype=texts.dtype)
    known = list(classes) or _classes_of(texts, places, column)
    if not all(1 <= len(name) <= MOST_LETTERS for name in known) or not len({*known}) == len(known) <= MOST_DECLARED:
        what = f"{column}: classes need different names of 1 to {MOST_LETTERS} letters, {MOST_DECLARED} at most"
        raise DataError(f"{places.whole}: {what}", "Name them so, there or in data.classes and data.label_values")
    codes = texts.replace_strict(known, list(range(len(known)))).to_numpy().astype(np.int64)
    return codes, tuple(known)


def _classes_of(texts: pl.Series, places: Lines, column: str) -> list[str]:
    known = sorted(texts.unique().to_list(), key=in_order)
    if len(known) == 1:
        raise DataError(
            f"{places.whole}: {column} is {known[0]!r} in all {len(texts)} rows: there is nothing to vote on",
            "Choose another column with data.label, or declare data.classes",
        )
    broken = [value for wrong, value, _ in map(in_order, known) if not wrong and value != round(value)]
    if broken or len(known) > MOST_CLASSES:
        occurring = f"{places.whole}: {column} has {len(known)} different values, such as {known[0]!r} and {known[1]!r}"
        kind = "numbers with fractions are no classes" if broken else f"at most {MOST_CLASSES} are classes"
        raise DataError(f"{occurring}; {kind}", "Choose another column with data.label, or write classes into it")
    return known


def moments_of(series: pl.Series, places: Lines) -> np.ndarray:
    """float64 (rows,), NaN where missing: of ISO dates the days since 1970-01-01, else the numbers. Raises DataError: a
    value is neither; says in which row."""
    try:
        return times_of(texts_of(series))
    except DataError as error:
        raise DataError(f"{places.whole}: {error.what}", error.action) from None


def public_by_time(series: pl.Series, rule: PublicSpec, places: Lines) -> np.ndarray:
    """Rows at or after `rule.after`, or before `rule.before`, bool (rows,). series: ISO dates, or numbers. Raises
    ConfigError: the bound is neither, or a number where the column has dates. DataError: a row has no time, or what is
    none; or all rows would be public, or none."""
    import polars as pl

    key, bound = ("after", rule.after) if rule.after is not None else ("before", rule.before)
    moments = moments_of(series, places)
    if len(empty := np.flatnonzero(np.isnan(moments))):
        what = f"{places.first(empty)}: {series.name} has no value, and data.time is that column"
        raise DataError(what, "Complete the rows")
    bounds = pl.Series([bound])
    try:
        limit = times_of(bounds)[0]
    except DataError:
        what = f"data.public.{key} is {bound!r}: neither a date nor a number"
        raise ConfigError(what, "Write it as 2024-12-31") from None
    numbers, number = (not each.cast(float, strict=False).null_count() for each in (texts_of(series), bounds))
    if numbers != number:
        kinds = "a date, and {} has numbers" if numbers else "a number, and {} has dates"
        raise ConfigError(f"data.public.{key} is {bound!r}, {kinds.format(series.name)}", "Write it as they are")
    rows = moments >= limit if key == "after" else moments < limit
    if rows.all() or not rows.any():
        extent = "every row is" if rows.all() else "no row is"
        raise DataError(f"{places.whole}: {extent} public with data.public.{key} {bound!r}", "Choose another moment")
    return rows


@dataclass(frozen=True, kw_only=True)
class RowSource(Source):
    """A `Source` of a user's rows, which all have a label. label: the column of labels. values: what `y` points at, the
    texts that occur, or `classes` where these are declared. places: where rows stand, for messages."""

    label: str
    values: tuple[str, ...]
    places: Lines = field(repr=False)

    def decided(self, public_rows: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
        """Classes, and indices int64 (rows,): those that are declared, else those of the public rows, in order. Raises
        DataError: the public rows have one class only, or another row has a label that is none of theirs."""
        if self.classes:
            return self.classes, self.y
        known = np.unique(self.y[public_rows])
        names = tuple(self.values[code] for code in known)
        action = f"Declare data.classes (for example {list(self.values[:5])}), or make more rows public"
        if len(names) < 2:
            raise DataError(f"{self.places.whole}: the public rows all have {self.label} = {''.join(names)!r}", action)
        outside = np.flatnonzero(~np.isin(self.y, known))
        if len(outside):
            label = self.values[self.y[outside[0]]]
            what = f"{self.places.first(outside)}: {self.label} is {label!r}, which no public row has"
            raise DataError(what, action)
        return names, np.searchsorted(known, self.y).astype(np.int64)


def roles_of(
    parts: JoinedRows, spec: SourceSpec, doubts: Faults | None = None
) -> tuple[pl.DataFrame, np.ndarray, dict[str, Any]]:
    """Columns of the rows that have a label; which of all rows they are, bool; the fields of their `RowSource`. All
    columns that `spec` names are there. doubts: notes there what is only doubtful. Raises DataError: rows have no
    label, owner or patient, or they are not usable."""
    doubts, faults = Faults() if doubts is None else doubts, Faults()
    labels = texts_of(parts.frame[spec.label])
    note_missing(labels.drop_nulls().unique(maintain_order=True), labels, parts.places, doubts)
    unlabelled = labels.is_null().to_numpy()
    if unlabelled.all():
        raise DataError(f"{parts.places.whole}: no row has a label", "Choose another column with data.label")
    if unlabelled.any() and spec.unlabelled == "refuse":
        what = f"{parts.places.first(np.flatnonzero(unlabelled))}: {spec.label} has no value"
        action = 'Complete the rows, or set data.unlabelled = "drop" to leave them out'
        faults.append(TableFault(what, action, spec.label, {"unlabelled": "drop"}))
    if unlabelled.any():
        parts, labels = parts.left(~unlabelled, "without a label"), labels.filter(~unlabelled)
    fields: dict[str, Any] = {
        "name": spec.set,
        "title": spec.title or parts.places.whole,
        "attribution": spec.attribution,
        "owner_label": spec.owner_label or spec.owner or "party",
        "classes": spec.classes,
        "label": spec.label,
        "owner": np.zeros(len(labels), dtype=np.int64),
        "places": parts.places,
        "left_out": parts.left_out,
    }
    with faults.noting():
        fields["y"], fields["values"] = labels_of(labels, spec.classes, spec.label_values, parts.places, spec.label)
        _note_spelled(spec.label, labels, parts.places, doubts)
    with faults.noting():
        if spec.owner:
            fields["owner"], fields["owner_names"] = _ids(parts, spec.owner, "owner", nobody=True)
            _note_spelled(spec.owner, texts_of(parts.frame[spec.owner]), parts.places, doubts)
    with faults.noting():
        if spec.patient:
            fields["patient"], _ = _ids(parts, spec.patient, "patient", nobody=False)
    with faults.noting():
        if spec.time:
            fields["time"] = moments_of(parts.frame[spec.time], parts.places)
        if not parts.private.all():
            fields["public"] = Public(parts.rows(RowPart.QUERIES), parts.rows(RowPart.TEST))
        elif spec.public is not None and spec.public.by == "time":
            rows = public_by_time(parts.frame[spec.time], spec.public, parts.places)
            fields["public"] = Public(np.flatnonzero(rows), np.zeros(0, dtype=np.int64))
    faults.check(parts.places.whole)
    return parts.frame, ~unlabelled, fields


def _note_spelled(column: str, texts: pl.Series, places: Lines, doubts: Faults) -> None:
    """Note names that are another one but for case, blanks, invisible signs and zeros: an owner then votes twice."""
    counts = texts.drop_nulls().rename("name").value_counts(sort=True)
    if twice := spelled_twice(counts["name"].to_list()):
        where = places.first(np.flatnonzero(texts.is_in(list(twice)).fill_null(False).to_numpy()))
        pairs = "; ".join(f"{name!r} and {first!r}" for name, first in list(twice.items())[:SHOWN])
        what = f"{where}: names in {column!r} differ in case, blanks, invisible signs or zeros alone: {pairs}"
        action = "Write each in one way, or say so under values of cells"
        doubts.doubts.append(TableFault(what, action, column, {"cells": {column: {"values": twice}}}))


def _ids(parts: JoinedRows, column: str, role: str, nobody: bool) -> tuple[np.ndarray, tuple[str, ...]]:
    """Ids int64 (rows,) of a column's texts, and the text of each id. nobody: whether rows of public files that name
    none have one id together; else each is by itself."""
    texts = texts_of(parts.frame[column])
    empty = texts.is_null().to_numpy()
    bad = np.flatnonzero(empty & parts.private)
    if len(bad):
        raise DataError(
            f"{parts.places.first(bad)}: {column} has no value, and data.{role} is that column",
            "Complete the rows, or leave them out of the file: nobody knows whose they are",
        )
    names = sorted(texts.drop_nulls().unique().to_list(), key=in_order)
    places = {name: code for code, name in enumerate(names)}
    ids = np.array([-1 if text is None else places[text] for text in texts], dtype=np.int64)
    alone = 1 if nobody else int(empty.sum())
    ids[empty] = len(names) + (0 if nobody else np.arange(alone))
    return ids, (*names, *(["public"] * alone if empty.any() else []))
