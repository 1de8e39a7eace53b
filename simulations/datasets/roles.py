"""What rows are besides their features: whose, of which patient, with which label, public or not."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.data.cells import texts_of
from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.datasets.base import Public
from consilium.simulations.datasets.labels import LabelColumn, in_order, labels_of
from consilium.simulations.datasets.moments import moments_of, public_by_time
from consilium.simulations.datasets.parts import JoinedRows, Part
from consilium.simulations.datasets.spec import SourceSpec


@dataclass(frozen=True)
class RowRoles:
    """Of the rows that have a label. parts: these rows. kept: bool, which of all rows they are. The others as in
    `Source`."""

    parts: JoinedRows
    kept: np.ndarray = field(repr=False)
    labels: LabelColumn = field(repr=False)
    owner: np.ndarray = field(repr=False)
    owner_names: tuple[str, ...] | None = field(repr=False)
    patient: np.ndarray | None = field(repr=False)
    time: np.ndarray | None = field(repr=False)
    public: Public | None = field(repr=False)

    @classmethod
    def of(cls, parts: JoinedRows, spec: SourceSpec) -> RowRoles:
        """By the columns that `spec` names, all of which are there.

        Raises
        ------
        DataError : a row has no label, owner, patient or time, or they are not usable. ConfigError : a bound of time.
        """
        labels = texts_of(parts.frame[spec.label])
        unlabelled = labels.is_null().to_numpy()
        if unlabelled.any() and spec.unlabelled == "refuse":
            raise DataError(
                f"{parts.places.told(np.flatnonzero(unlabelled))}: {spec.label} has no value",
                'Complete the rows, or set data.unlabelled = "drop" to leave them out',
            )
        if unlabelled.all():
            raise DataError(f"{parts.places.whole}: no row has a label", "Choose another column with data.label")
        if unlabelled.any():
            parts, labels = parts.left(~unlabelled), labels.filter(~unlabelled)
        owner, owner_names = np.zeros(len(labels), dtype=np.int64), None
        if spec.owner:
            owner, owner_names = _ids(parts, spec.owner, "owner", nobody=True)
        return cls(
            parts=parts,
            kept=~unlabelled,
            labels=labels_of(labels, spec.classes, spec.label_values, parts.places, spec.label),
            owner=owner,
            owner_names=owner_names,
            patient=_ids(parts, spec.patient, "patient", nobody=False)[0] if spec.patient else None,
            time=moments_of(parts.frame[spec.time], parts.places) if spec.time else None,
            public=_public(parts, spec),
        )


def _ids(parts: JoinedRows, column: str, role: str, nobody: bool) -> tuple[np.ndarray, tuple[str, ...]]:
    """Ids int64 (rows,) of a column's texts, and the text of each id.

    nobody: whether rows of public files that name none have one id together; else each is by itself.
    """
    texts = texts_of(parts.frame[column])
    empty = texts.is_null().to_numpy()
    bad = np.flatnonzero(empty & parts.private)
    if len(bad):
        raise DataError(
            f"{parts.places.told(bad)}: {column} has no value, and data.{role} is that column",
            "Complete the rows, or leave them out of the file: nobody knows whose they are",
        )
    names = sorted(texts.drop_nulls().unique().to_list(), key=in_order)
    places = {name: at for at, name in enumerate(names)}
    ids = np.array([-1 if text is None else places[text] for text in texts], dtype=np.int64)
    alone = 1 if nobody else int(empty.sum())
    ids[empty] = len(names) + (0 if nobody else np.arange(alone))
    return ids, (*names, *(["public"] * alone if empty.any() else []))


def _public(parts: JoinedRows, spec: SourceSpec) -> Public | None:
    """Rows of files of their own, or by their time; None where owners or a lot decide."""
    if not parts.private.all():
        return Public(parts.rows(Part.QUERIES), parts.rows(Part.TEST))
    rule = spec.public
    if rule is None or rule.by != "time":
        return None
    if not spec.time:
        raise ConfigError('data.public by = "time" needs a column of times', 'Set data.time = "COLUMN"')
    rows = public_by_time(parts.frame[spec.time], rule, parts.places)
    return Public(np.flatnonzero(rows), np.zeros(0, dtype=np.int64))
