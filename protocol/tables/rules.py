"""What somebody says of the cells of a column: the meaning of texts, another unit, what stands for "missing"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, FiniteFloat, SerializerFunctionWrapHandler, model_serializer, model_validator

from consilium.protocol.models import Frozen
from consilium.protocol.rows.columns import Wanted
from consilium.protocol.rows.csv_files import CsvRule

_BOUND = re.compile(r"^\s*(([<>≤≥]=?|=<|=>)\s*[+-]?\d+([.,]\d+)?|[+-]?\d+([.,]\d+)?\s*\+)\s*$")


class CellRule(Frozen):
    """Of one column. All of it is said of the file's own texts and units.

    codes: a number for a text. other: what a text means that codes does not have: "number", what it says, or "error".
        Left out, it is "number" where codes has a bound (`> 89`, `<0.1`, `90+`), which stands beside numbers, else
        "error". values: of a category, the public name for the file's text; other texts are names already.
    factor, offset: to the federation's unit: number * factor + offset, of codes too. missing_codes: texts that mean
        "missing".
    """

    codes: dict[str, FiniteFloat] | None = Field(default=None, min_length=1)
    other: Literal["number", "error"] | None = None
    values: dict[str, str] | None = Field(default=None, min_length=1)
    factor: FiniteFloat = 1.0
    offset: FiniteFloat = 0.0
    missing_codes: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _numbers_or_categories(self) -> CellRule:
        if self.values is not None and (self.codes is not None or self.changes_unit):
            raise ValueError("values are of a category, and codes, factor and offset of numbers: give one or the other")
        if self.other is not None and self.codes is None:
            raise ValueError("other says what stands beside codes, and there are none")
        if self.factor == 0:
            raise ValueError("factor 0 makes all values one: leave the column out instead")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A rule that needs none of what came later keeps its form, and so teachers of it are not trained anew."""
        later = {"other": None, "values": None, "factor": 1.0, "offset": 0.0}
        return {key: value for key, value in write(self).items() if key not in later or value != later[key]}

    @property
    def changes_unit(self) -> bool:
        """Whether numbers are in another unit."""
        return (self.factor, self.offset) != (1.0, 0.0)

    @property
    def numbers_beside_codes(self) -> bool:
        """Whether a text that codes does not have is read as a number."""
        if self.other is None:
            return any(_BOUND.match(code) for code in self.codes or ())
        return self.other == "number"

    def wanted(self, name: str, column: str, missing: Sequence[str], known: Sequence[str] = ()) -> Wanted:
        """What to read of `column` for `name`. missing: texts, unless the rule has its own. known: of a category."""
        own = self.missing_codes
        return Wanted(
            name=name,
            column=column.strip(),
            codes=self.codes,
            missing=tuple(missing) if own is None else own,
            numbers_too=self.numbers_beside_codes,
            factor=self.factor,
            offset=self.offset,
            known=tuple(known),
            renamed=self.values or {},
        )


class TableRule(Frozen):
    """How a whole table is read. `columns`: rules of some; all others are taken as they stand.

    only: columns to read; all where there are none. drop: columns to leave out. missing: texts that mean "missing".
    """

    csv: CsvRule = CsvRule()
    columns: dict[str, CellRule] = Field(default_factory=dict)
    only: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
