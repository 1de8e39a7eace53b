"""What is wrong with a column, as lines for the party: one function for each kind of fault."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consilium.party.data.problems import Problem
from consilium.party.data.rules import DataRules
from consilium.protocol.parties.refusals import Rule
from consilium.protocol.rows.columns import Column, ValueState, Wanted
from consilium.protocol.rows.schema import Range

FAULTS = {
    ValueState.NOT_A_NUMBER: (
        "hold text that is no number",
        "Map it with codes, or, if it stands for a missing value, name it in missing_codes",
    ),
    ValueState.DECIMAL_COMMA: (
        "have a decimal comma",
        "Export with a decimal point, or set decimal_comma = true in [csv]",
    ),
    ValueState.DECIMAL_POINT: (
        "have a point although decimal_comma is set: it may separate thousands",
        "Export without thousands separators",
    ),
    ValueState.UNKNOWN_CODE: ("hold a value that codes does not have", "Add it to codes, or to missing_codes"),
    ValueState.INFINITE: ("are infinite", "Correct them, or empty them"),
}


def mapping(features: Sequence[Wanted], label: Wanted, foreign: set[str], rules: DataRules) -> list[Problem]:
    """Faults of the mapping itself. `foreign`: classes that it names and the federation has not."""
    problems = []
    by_column: dict[str, list[str]] = {}
    for wanted in features:
        by_column.setdefault(wanted.column, []).append(wanted.name)
        if rules.columns and wanted.name not in rules.columns:
            action = f'Where [columns] is there, only what it names is read: add "{wanted.name}", or do not take part'
            problems.append(
                Problem(wanted.name, "the federation asks for it, [columns] does not name it", action, Rule.SCHEMA)
            )
    for column, names in by_column.items():
        if column == label.column:
            what = "is the label's column: a teacher would read the answer"
            problems.append(Problem(", ".join(names), what, "Correct [columns] or [label]"))
        if len(names) > 1:
            what = f"are all column {column!r}"
            problems.append(Problem(", ".join(names), what, "Give each feature its own column in [columns]"))
        if column == rules.patient.column:
            what = "is the column of [patient]: who a row belongs to is no feature"
            problems.append(Problem(", ".join(names), what, "Correct [columns] or [patient]"))
    if label.column == rules.patient.column:
        what = "is the column of [patient] and that of [label]"
        problems.append(Problem(label.where, what, "Correct one of them"))
    if foreign:
        what = f"[label] classes names {sorted(foreign)}, no class of the federation"
        problems.append(Problem(label.where, what, "Use the federation's names on the right-hand side", Rule.SCHEMA))
    return problems


def faults(wanted: Wanted, column: Column) -> list[Problem]:
    """Values of a feature that are no numbers."""
    counts = {state: column.count(state) for state in FAULTS}
    return [
        Problem(wanted.where, f"{_of(count, column)} {FAULTS[state][0]}", FAULTS[state][1])
        for state, count in counts.items()
        if count
    ]


def label_faults(label: Wanted, column: Column) -> list[Problem]:
    """Labels that are no class. They are not quoted: a label is private."""
    count = column.count(ValueState.UNKNOWN_CODE)
    if not count:
        return []
    action = "Map the file's values under [label] classes, or name those to leave out in missing_codes"
    return [Problem(label.where, f"{_of(count, column)} have a label that is no class", action, Rule.SCHEMA)]


def missing(wanted: Wanted, column: Column, how: str) -> Problem:
    """Missing values that no rule allows."""
    return Problem(
        wanted.where, f"{_of(column.count(ValueState.MISSING), column)} have no value", f"Fill them, or set {how}"
    )


def no_patient(column: str, count: int, total: int) -> Problem:
    """Rows of which nobody knows whose they are."""
    action = "Complete them, or leave these rows out: they can be in no patient's shard"
    return Problem(f"patient (column {column!r})", f"{count} of {total} rows name no patient", action)


def outside(wanted: Wanted, column: Column, allowed: Range) -> list[Problem]:
    """Values that the schema's range does not have. Compared in float32, as queries travel: 0.1 is not above 0.1."""
    with np.errstate(over="ignore"):
        values = column.values[column.states == ValueState.GOOD].astype(np.float32)
    count = int(np.count_nonzero((values < np.float32(allowed.low)) | (values > np.float32(allowed.high))))
    broken = int(np.count_nonzero(values != np.rint(values))) if allowed.whole else 0
    problems = []
    if count:
        what = f"{_of(count, column)} are outside {allowed.low:g} to {allowed.high:g}, which the schema allows"
        action = "Look for another unit, or for a number that stands for a missing value (missing_codes)"
        problems.append(Problem(wanted.where, what, action, Rule.SCHEMA))
    if broken:
        what = f"{_of(broken, column)} are no whole numbers, which the schema asks for"
        problems.append(Problem(wanted.where, what, "Look for another column or coding", Rule.SCHEMA))
    return problems


def one_class(label: Wanted, classes: int) -> Problem:
    """All rows used have the same label."""
    action = "Correct [label] classes; if the data are so, set allow_one_class = true there"
    return Problem(label.where, f"all rows that are left have the same of {classes} classes", action)


def no_rows(total: int) -> Problem:
    """Nothing to train on."""
    if not total:
        return Problem("rows", "there are none", "Export the data again")
    action = 'Rows with a missing value are dropped: consider missing = "mean" for the columns that miss most'
    return Problem("rows", f"none is left of {total}", action)


def _of(count: int, column: Column) -> str:
    return f"{count} of {len(column.states)} rows"
