"""The federation's schema: columns, the features that they become with their public statistics, and classes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, FiniteFloat, model_validator

from consilium.protocol.digests import canonical_digest
from consilium.protocol.images import LEAST_SIDE, Representation, image_shape, represent, width
from consilium.protocol.models import Frozen

MOST_LETTERS = 100
Name = Annotated[str, Field(min_length=1, max_length=MOST_LETTERS)]
Kind = Literal["number", "category"]
MOST_VALUES = 100
"""Of a category: a column with more different texts is an identifier or free text."""
MISSING = " missing"


class ColumnEncoding(Frozen):
    """A column of raw values. `values`: of a category, in the order of its features; of a number none.

    missing: one more feature, 1 where the value is missing. offset: taken from each number, which float32 would round.

    >>> ColumnEncoding(column="sex", kind="category", values=("female", "male")).features
    ('sex=male',)
    """

    column: Name
    kind: Kind
    values: tuple[Name, ...] = Field(default=(), max_length=MOST_VALUES)
    missing: bool = False
    offset: FiniteFloat = 0.0

    @model_validator(mode="after")
    def _values_are_of_a_category(self) -> ColumnEncoding:
        if (self.kind == "category") != bool(self.values):
            raise ValueError(f"column {self.column!r}: a category has values, and a number has none")
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"column {self.column!r} has the same value twice")
        return self

    @property
    def shown(self) -> tuple[str, ...]:
        """The values that are a feature."""
        return self.values[1:] if len(self.values) == 2 else self.values

    @property
    def features(self) -> tuple[str, ...]:
        features = (self.column,) if self.kind == "number" else tuple(f"{self.column}={value}" for value in self.shown)
        return (*features, f"{self.column}{MISSING}") if self.missing else features


def features_of(columns: Sequence[ColumnEncoding]) -> tuple[str, ...]:
    """Names of all features, in order.

    >>> features_of([ColumnEncoding(column="age", kind="number", missing=True)])
    ('age', 'age missing')
    """
    return tuple(name for column in columns for name in column.features)


class Range(Frozen):
    """The values that a feature may have, both ends included; `whole`: no fractions."""

    feature: Name
    low: FiniteFloat
    high: FiniteFloat
    whole: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low > self.high:
            raise ValueError(f"range of {self.feature}: low {self.low:g} is above high {self.high:g}")
        return self


class Schema(Frozen):
    """What every row means. `center` and `scale` (features,) are statistics of public rows only, with which every node
    standardises: no statistic of private rows is ever needed outside the party. ranges: of some features or none, let a
    party find wrong units and codes in its own file. representation: what models see instead of the standardised
    features; one of images takes center 0 and scale 1 (`of_images`). columns: which features the raw columns of a table
    become; without them, features are read as they stand."""

    features: tuple[Name, ...] = Field(min_length=1)
    classes: tuple[Name, ...] = Field(min_length=2)
    center: tuple[float, ...]
    scale: tuple[float, ...]
    ranges: tuple[Range, ...] = ()
    representation: Representation = "none"
    columns: tuple[ColumnEncoding, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Schema:
        for name, values in (("center", self.center), ("scale", self.scale)):
            if len(values) != len(self.features):
                raise ValueError(f"{name} has {len(values)} numbers for {len(self.features)} features")
            if not np.all(np.isfinite(values)):
                raise ValueError(f"{name} has a number that is not finite")
        if min(self.scale) <= 0:
            raise ValueError("every scale must be positive")
        width(self.representation, len(self.features))  # refuses what it does not take
        if self.columns and features_of(self.columns) != self.features:
            raise ValueError("features are not those that columns give")
        ranged = tuple(allowed.feature for allowed in self.ranges)
        if unknown := set(ranged) - set(self.features):
            raise ValueError(f"ranges name {sorted(unknown)}, which are no features")
        for name, values in (("features", self.features), ("classes", self.classes), ("ranges", ranged)):
            if len(set(values)) != len(values):
                raise ValueError(f"{name} has the same name twice")
        return self

    @property
    def columns_read(self) -> tuple[str, ...]:
        return tuple(column.column for column in self.columns) or self.features

    @classmethod
    def from_public_rows(cls, features: tuple[str, ...], classes: tuple[str, ...], rows: np.ndarray) -> Schema:
        """Schema with the mean and standard deviation of public `rows` (n, features); constant columns get scale 1."""
        scale = tuple(float(value) if value > 0 else 1.0 for value in rows.std(axis=0))
        return cls(features=features, classes=classes, center=tuple(rows.mean(axis=0).tolist()), scale=scale)

    @classmethod
    def of_table(cls, columns: tuple[ColumnEncoding, ...], classes: tuple[str, ...], rows: np.ndarray) -> Schema:
        """Schema of raw columns with the statistics of public `rows` float32 (n, features), as `encode` gives them.
        Missing values (NaN) count in neither. Means are rounded to float32, so that a value that is filled in with one
        (`filled`) is exactly 0 when standardised, in whichever file it stood."""
        known = ~np.isnan(rows)
        count = np.maximum(known.sum(axis=0), 1)
        values = np.where(known, rows, 0).astype(np.float64)
        center = (values.sum(axis=0) / count).astype(np.float32).astype(np.float64)
        scale = np.sqrt((np.where(known, values - center, 0) ** 2).sum(axis=0) / count)
        return cls(
            features=features_of(columns),
            classes=classes,
            center=tuple(center.tolist()),
            scale=tuple(float(value) if value > 0 else 1.0 for value in scale),
            columns=columns,
        )

    @classmethod
    def of_images(cls, features: tuple[str, ...], classes: tuple[str, ...], representation: Representation) -> Schema:
        zeros, ones = (0.0,) * len(features), (1.0,) * len(features)
        return cls(features=features, classes=classes, center=zeros, scale=ones, representation=representation)

    @cached_property
    def table(self) -> tuple[ColumnEncoding, ...]:
        """Its columns; a schema that has features alone has a column of numbers for each."""
        return self.columns or tuple(ColumnEncoding(column=name, kind="number") for name in self.features)

    def filled(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, features) of any float type with the public mean where a value is missing, of the same type."""
        return np.where(np.isnan(rows), np.asarray(self.center, dtype=rows.dtype), rows)

    def inputs(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, features) of any float type -> what models are trained on, float (n, inputs)."""
        return represent(self.representation, self.standardise(rows))

    def standardise(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, features) of any float type -> float64 (n, features), centred and scaled."""
        return (rows.astype(np.float64) - np.asarray(self.center)) / np.asarray(self.scale)

    def digest(self) -> str:
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return canonical_digest(self.model_dump(mode="json"))


def of_images(schema: Schema) -> bool:
    """Whether rows of `schema` are images, or what a representation makes of images."""
    return schema.representation != "none" or not why_no_images(schema)


def why_no_images(schema: Schema) -> str:
    """Why the rows of `schema` are no images for a network; empty if they are. Only center 0 and one scale leave an
    image as it is: standardised pixel by pixel, a pixel that is nearly always black would outweigh all others."""
    if schema.representation != "none":
        return f"representation {schema.representation!r} gives no images"
    if image_shape(len(schema.features)) is None:
        return f"{len(schema.features)} features are no square image of {LEAST_SIDE}x{LEAST_SIDE} or more"
    if any(schema.center) or len(set(schema.scale)) > 1:
        return "the pixels are standardised one by one"
    return ""
