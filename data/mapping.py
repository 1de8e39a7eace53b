"""What party.toml says about the data file: which column is which, what to do with missing values, and what is wrong
with that. The names that a file has are in no message: the first line of one without a header is a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from consilium.data.cells import CellRule, Wanted
from consilium.data.files import CsvRule, Role
from consilium.data.remedy import quoted
from consilium.protocol.models import Frozen
from consilium.protocol.refusals import Rule
from consilium.protocol.schema import ColumnEncoding, Schema

Missing = Literal["refuse", "drop-row", "mean"]
"""A value that is missing: is an error, drops its row, or becomes the mean of the schema's public rows."""
ColumnName = Annotated[str, Field(min_length=1, max_length=1000)]


class ColumnRule(CellRule):
    """One column of the schema, or one feature. Without `column` it has that name in the file. column: its name in the
    file. missing, missing_codes: as in `[missing]`, for this column instead."""

    column: ColumnName | None = None
    missing: Missing | None = None


def _short_form(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


Columns = dict[str, Annotated[ColumnRule, BeforeValidator(_short_form)]]
"""By column of the schema, or by feature: a column's name, or a `ColumnRule`."""


class LabelRule(Frozen):
    """The `[label]` table. column: of .csv and .parquet files; an .npz has its labels in `y`. classes: the federation's
    class for each text that may occur; without it, the file holds the federation's names. missing: a label is never
    filled in. allow_one_class: rows of one class only are right; without it `party rows` takes them for a wrong
    mapping. No run refuses them."""

    column: ColumnName = "label"
    classes: dict[str, str] | None = Field(default=None, min_length=1)
    missing: Literal["refuse", "drop-row"] = "refuse"
    missing_codes: tuple[str, ...] = ()
    allow_one_class: bool = False


class MissingRule(Frozen):
    """The `[missing]` table, for all features. Empty fields, nulls and NaN are missing, and so is text in `codes`."""

    rule: Missing = "refuse"
    codes: tuple[str, ...] = ()


class PatientRule(Frozen):
    """The `[patient]` table: whose a row is. column: of .csv and .parquet files; of an .npz the name of an array
    (rows,). rows_are_patients: no patient has two rows, as the party says: nothing can check it."""

    column: ColumnName | None = None
    rows_are_patients: bool = False

    @model_validator(mode="after")
    def _one_of_both(self) -> PatientRule:
        if self.column is not None and self.rows_are_patients:
            raise ValueError("column names the patients, so rows_are_patients must be left out")
        return self

    @property
    def known(self) -> bool:
        """Whether all rows of one patient are in one shard."""
        return self.column is not None or self.rows_are_patients


class DataRules(Frozen):
    """All of them. The defaults are a file with the federation's own names and no missing value. Where `columns` is
    there at all, what it does not name is not read, whatever the coordinator asks for. lacks: columns of the federation
    that the party maps to nothing. They are never read, and missing in every row; as that is said, `missing` is "mean"
    for them. `allow_one_class` is that of `[label]`, or true where the party serves simulations. `keep_missing`: a
    value that would become the mean stays NaN; it follows from the teacher, and so is in no digest of the rules."""

    columns: Columns = Field(default_factory=dict)
    label: LabelRule = LabelRule()
    missing: MissingRule = MissingRule()
    csv: CsvRule = CsvRule()
    patient: PatientRule = PatientRule()
    lacks: tuple[ColumnName, ...] = ()
    allow_one_class: bool = False
    keep_missing: bool = Field(default=False, exclude=True)

    def fields(self, schema: Schema, arrays: bool) -> list[FileField]:
        """How all that a schema asks for is read, in its order: its raw columns, or its features, which arrays have."""
        columns = [column for column in schema.table if column.column in self.lacks]
        nothing = {name for column in columns for name in (column.column, *column.features)}
        if arrays or not schema.columns:
            return [self._field(name, None, name in nothing) for name in schema.features]
        return [self._field(column.column, column, column.column in nothing) for column in schema.columns]

    def _field(self, name: str, encoding: ColumnEncoding | None, nothing: bool) -> FileField:
        rule = self.columns.get(name, ColumnRule())
        known, center = ((), 0.0) if encoding is None else (encoding.values, encoding.offset)
        # a missing value that the schema has a feature for is a value like others, unless the column's rule objects
        taken = encoding is not None and encoding.missing and rule.missing is None
        missing = "mean" if taken or nothing else rule.missing or self.missing.rule
        column = (rule.column or name).strip()
        return FileField(name, column, rule, self.missing.codes, center, known, encoding, missing, nothing)


@dataclass(frozen=True)
class FileField(Wanted):
    """A raw column of the schema or, without `encoding`, one feature as it stands in the file. if_missing: what happens
    where there is no value. nothing: the party maps it to nothing, and no row has one: "mean"."""

    encoding: ColumnEncoding | None = None
    if_missing: Missing = "refuse"
    nothing: bool = False

    @property
    def width(self) -> int:
        return 1 if self.encoding is None else len(self.encoding.features)


@dataclass(frozen=True)
class Problem:
    """One line: `where` (a column or the file), what is wrong, what to do, and the rule that the coordinator learns.

    >>> str(Problem("age (column 'AgeY')", "3 of 40 rows have no value", "Fill them"))
    "age (column 'AgeY'): 3 of 40 rows have no value. Fill them"
    """

    where: str
    fault: str
    action: str = ""
    rule: Rule = Rule.DATA

    def __str__(self) -> str:
        return f"{self.where}: {self.fault}" + (f". {self.action}" if self.action else "")


_ACTIONS: dict[Role, tuple[str, Rule]] = {
    "[columns]": (
        'Say under [columns] which one it is: "{name}" = "name in the file"; if you have none, lacks = ["{name}"]',
        Rule.SCHEMA,
    ),
    "[label]": ('Say under [label] which one it is: column = "name in the file"', Rule.SCHEMA),
    "[patient]": ("Say under [patient] column which one it is", Rule.DATA),
}


def absent_or_double(wanted: Wanted, names: Sequence[str], role: Role) -> Problem:
    """What to tell of it. The names that the file has are not quoted: they may be a row."""
    if wanted.column in names:
        fault = f"the file has {names.count(wanted.column)} columns of this name"
        return Problem(wanted.where, fault, "Rename all but one: which is meant cannot be known")
    action, rule = _ACTIONS[role]
    if any(_plain(name) == _plain(wanted.column) for name in names):
        action = "It has one that differs only in capitals, spaces, - or _: write the name as it stands in the file"
        rule = Rule.SCHEMA
    return Problem(wanted.where, "the file has no such column", action.format(name=wanted.name), rule)


def _plain(name: str) -> str:
    return " ".join(name.replace("_", " ").replace("-", " ").lower().split())


MOST_NAMES = 8


def lacks(schema: Schema, rules: DataRules) -> list[Problem]:
    """Faults of what the mapping says the party has not."""
    columns = {column.column for column in schema.table}
    problems = [
        Problem("lacks", f"{name!r} is no column of the federation", "federation.json names them", Rule.SCHEMA)
        for name in rules.lacks
        if name not in columns
    ]
    if columns <= set(rules.lacks):
        problems.append(Problem("lacks", "names every column", "Name those alone that there are not", Rule.SCHEMA))
    return problems


def mapping_faults(fields: Sequence[FileField], label: Wanted, foreign: set[str], rules: DataRules) -> list[Problem]:
    """Faults of the mapping itself. `foreign`: classes that it names and the federation has not."""
    problems: list[Problem] = []

    def note(where: str, fault: str, action: str, rule: Rule = Rule.DATA) -> None:
        problems.append(Problem(where, fault, action, rule))

    by_column: dict[str, list[str]] = {}
    for item in fields:
        if item.nothing:
            continue
        by_column.setdefault(item.column, []).append(item.name)
        if rules.columns and item.name not in rules.columns:
            action = f'Only what [columns] names is read: add "{item.name}"; if you have none, lacks = ["{item.name}"]'
            note(item.name, "the federation asks for it, [columns] does not name it", action, Rule.SCHEMA)
        if item.known and item.rule.of_numbers:
            action = f"Give values: the federation's are {quoted(item.known, MOST_NAMES)}"
            note(item.where, "is a category, and codes, factor and offset are of numbers", action, Rule.SCHEMA)
        if item.rule.values and not item.known:
            action = "Give codes: a number for each text"
            note(item.where, "is a number, and values are of a category", action, Rule.SCHEMA)
    for column, names in by_column.items():
        where = ", ".join(names)
        if column == label.column:
            note(where, "is the label's column: a teacher would read the answer", "Correct [columns] or [label]")
        if len(names) > 1:
            note(where, f"are all column {column!r}", "Give each feature its own column in [columns]")
        if column == rules.patient.column:
            fault = "is the column of [patient]: who a row belongs to is no feature"
            note(where, fault, "Correct [columns] or [patient]")
    if label.column == rules.patient.column:
        note(label.where, "is the column of [patient] and that of [label]", "Correct one of them")
    if foreign:
        fault = f"[label] classes names {sorted(foreign)}, no class of the federation"
        note(label.where, fault, "Use the federation's names on the right-hand side", Rule.SCHEMA)
    return problems
