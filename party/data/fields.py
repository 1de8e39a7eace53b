"""What is read for each column of the schema, and the features that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from consilium.party.data.rules import DataRules, Missing
from consilium.protocol.rows.columns import Column, Wanted
from consilium.protocol.rows.encoding import ColumnEncoding, features_from
from consilium.protocol.rows.schema import Schema


@dataclass(frozen=True)
class RawField:
    """A raw column of the schema or, without `encoding`, one feature as it stands in the file.

    missing: what happens where there is no value.
    """

    wanted: Wanted
    encoding: ColumnEncoding | None
    missing: Missing

    @property
    def features(self) -> tuple[str, ...]:
        """Names of what it becomes, in the schema's order."""
        return (self.wanted.name,) if self.encoding is None else self.encoding.features

    def matrix(self, column: Column) -> np.ndarray:
        """Float (rows, features), raw, NaN where missing."""
        return column.values[:, None] if self.encoding is None else features_from(column, self.encoding)


def takes_columns(schema: Schema, rules: DataRules, names: Sequence[str]) -> bool:
    """Whether a file has the schema's raw columns, rather than its features. `names`: of the file's columns.

    The party's mapping decides; without one, what the file has: features, as older files do, only if it has them all.
    """
    raw = {column.column for column in schema.columns}
    if not raw:
        return False
    if rules.columns:
        return not any(name in schema.features for name in set(rules.columns) - raw)
    return raw <= set(names) or not set(schema.features) <= set(names)


def fields_of(schema: Schema, rules: DataRules, raw: bool) -> list[RawField]:
    """All of them, in the schema's order; `raw`: see `takes_columns`."""
    if not raw:
        return [RawField(rules.wanted(name), None, rules.missing_of(name)) for name in schema.features]
    return [
        RawField(
            rules.wanted(column.column, column.values),
            column,
            # a missing value that the schema has a feature for is a value like others, unless the column's rule objects
            "mean" if column.missing and not rules.says_of_missing(column.column) else rules.missing_of(column.column),
        )
        for column in schema.columns
    ]
