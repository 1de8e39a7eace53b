"""The arguments of `Council.fit` as tables with named columns: features, label, owner, patient; and what is public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from consilium.protocol.rows.encoding import texts_of
from consilium.simulations.council.errors import BadInput, WrongType
from consilium.simulations.council.frames import Frame, Values, frame_of, has_names, series_of, values_of

PublicRows = Frame | Values | None
"""Names of owners, or a frame of rows."""

LEAST_ROWS = 4
"""Two public rows, one to ask and one to judge the student, and one of each of two parties."""
LEAST_OWNERS = 3
"""Two parties, and one that is public where no public rows are given."""


@dataclass(frozen=True)
class Given:
    """frame: the rows, features first. public: public rows that belong to nobody, with the same columns, or None.

    label, owner, patient: names of columns; None where nobody said. features: the others. named: whether the rows came
    with names. classes: declared ones as text, none where the public rows decide. meant: text of a label -> the label
    as the caller wrote it. public_owners: names of owners who are public, none where a lot decides.
    """

    frame: pl.DataFrame = field(repr=False)
    public: pl.DataFrame | None = field(repr=False)
    label: str
    owner: str | None
    patient: str | None
    features: tuple[str, ...]
    named: bool
    classes: tuple[str, ...]
    meant: dict[str, Any] = field(repr=False)
    public_owners: tuple[str, ...]

    @classmethod
    def of(
        cls,
        rows: Frame,
        y: str | Values,
        owners: str | Values | None,
        patients: str | Values | None,
        public: PublicRows,
        classes: Sequence[Any] | None,
    ) -> Given:
        """All arguments, brought together.

        Raises
        ------
        BadInput, WrongType : what is wrong with which of them.
        """
        if y is None:
            raise BadInput("Council requires y to be passed, but the target y is None", "Give labels, or their column")
        named, frame = has_names(rows), frame_of(rows)
        if frame.height < LEAST_ROWS:
            what = f"Council needs at least {LEAST_ROWS} rows, public and private ones, and n_samples={frame.height}"
            raise BadInput(what, "Give more rows")
        more = frame_of(public) if _is_frame(public) else None
        columns = _Columns(frame, named, alone=more is None)
        label = columns.name("y", "y", y)
        owner = None if owners is None else columns.name("owners", "owner", owners)
        patient = None if patients is None else columns.name("patients", "patient", patients)
        others = [name for name in (label, owner, patient) if name is not None]
        if len(set(others)) < len(others):
            raise BadInput("y, owners and patients name the same column twice", "Give different columns")
        whole, features = columns.frame, [name for name in frame.columns if name not in others]
        if not features:
            raise BadInput("0 feature(s) (no column is left) while a minimum of 1 is required", "Give more columns")
        if more is not None and (missing := [name for name in (*features, label) if name not in more.columns]):
            action = "They need the same features, and the label: half of them judge the student"
            raise BadInput(f"the public rows have no column {missing[0]!r}", action)
        for what, name in (("owners", owner), ("patients", patient)):
            if name is not None and (count := texts_of(whole[name]).null_count()):
                raise BadInput(f"{what}: {count} rows have none", "Leave those rows out, or name them")
        if owner is not None and (count := whole[owner].n_unique()) < (few := LEAST_OWNERS - (more is not None)):
            what = f"owners: {count} different ones, at least {few} are needed: two that vote"
            raise BadInput(what if more is not None else f"{what}, and one that is public", "Give rows of more owners")
        targets = [whole[label], *([] if more is None else [more[label]])]
        meant = _meant(targets, None if isinstance(y, str) else y, classes)
        declared = () if classes is None else tuple(_texts("classes", list(classes)))
        return cls(
            frame=whole.select(*features, *others),
            public=None if more is None else more.select(name for name in whole.columns if name in more.columns),
            label=label,
            owner=owner,
            patient=patient,
            features=tuple(features),
            named=named,
            classes=declared,
            meant=meant,
            public_owners=() if more is not None else _public_owners(public),
        )


class _Columns:
    """The caller's rows, to which columns may be added that were given as arrays."""

    def __init__(self, frame: pl.DataFrame, named: bool, alone: bool) -> None:
        self.frame = frame
        self._named = named
        self._alone = alone

    def name(self, what: str, wanted: str, given: str | Values) -> str:
        """The name of a column that is no feature; an array becomes one, called `wanted` as far as that is free."""
        if isinstance(given, str):
            if given not in self.frame.columns or not self._named:
                raise BadInput(f"{what}: the rows have no column {given!r}", f"They have {_few(self.frame.columns)}")
            return given
        if not self._alone:
            raise BadInput(
                f"{what} is an array, and the public rows are a frame of their own, whose {what} nobody knows",
                f"Make {what} a column of both frames, and give its name",
            )
        while wanted in self.frame.columns:
            wanted += "_"
        values = values_of(given, what, self.frame.height)
        self.frame = self.frame.with_columns(_as_column(wanted, values))
        return wanted


def _as_column(name: str, values: list[Any]) -> pl.Series:
    """Whole numbers stay whole, so that they are written as people write them."""
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values if value is not None):
        return pl.Series(name, values, dtype=pl.Int64)
    return series_of(name, values)


def _is_frame(public: PublicRows) -> bool:
    return has_names(public) or (isinstance(public, np.ndarray) and public.ndim == 2)


def _public_owners(public: PublicRows) -> tuple[str, ...]:
    """Names of owners."""
    if public is None:
        return ()
    if isinstance(public, str | bool | int | float | np.number):
        action = "Give a list of owners, or a frame of public rows; a share is the parameter public_share"
        raise WrongType(f"public is {public!r}", action)
    return tuple(_texts("public", values_of(public, "public", len(public))))


def _texts(what: str, values: list[Any]) -> list[str]:
    found = texts_of(_as_column(what, values))
    if found.null_count() or found.n_unique() < len(found):
        raise BadInput(f"{what} has the same name twice, or none", "Name each once")
    return found.to_list()


def _meant(targets: Sequence[pl.Series], typed: Values | None, classes: Sequence[Any] | None) -> dict[str, Any]:
    """Text of each label -> the label itself. typed: an array that gave them."""
    from sklearn.utils.multiclass import check_classification_targets

    target = pl.concat(targets, how="vertical") if len(targets) > 1 else targets[0]
    values = target.to_list()
    if count := sum(value is None or value != value for value in values):
        raise BadInput(f"y contains NaN: {count} rows have no label", "Leave those rows out")
    array = np.asarray(values)
    try:
        check_classification_targets(array.astype(object) if array.dtype.kind in "US" else array)
    except ValueError as error:
        raise BadInput(str(error), "Give labels of classes") from None
    said = _plain(typed) if typed is not None else values
    known = list(dict.fromkeys([*said, *([] if classes is None else classes)]))
    names = texts_of(_as_column("labels", known)).to_list()
    if len(set(names)) < len(names):
        raise BadInput("two labels are written alike", "Give labels that differ in more than spaces and case")
    return dict(zip(names, known, strict=True))


def _plain(typed: Values) -> list[Any]:
    """Labels as they were given, numpy's own numbers among them."""
    array = np.asarray(typed)
    return list(array.reshape(-1)) if array.dtype.kind in "biuf" else values_of(typed, "y", len(typed))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
