"""What is wrong with a party's data, for its own eyes: names of columns, counts, and what to do.

Neither a value nor a name that was read from the file is ever part of it: the first line of a file without a header is
a row. None of it travels either: the coordinator learns only `data` or `schema`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from consilium.data.cells import Column, ValueState, Wanted
from consilium.data.distances import FAR, SHIFTED, compared
from consilium.data.files import Lines, Role
from consilium.data.mapping import DataRules, RawField
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import Range, Schema


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


@dataclass(frozen=True)
class DataReport:
    """What `party dry-run` shows. Counts of private rows: they are not covered by the guarantee, and are not in `repr`.

    `problems`: why there are no rows to use. `doubts`: what training takes, and mostly is a mistake: values
    that it moves to the schema's range, rows of one class only. `remarks`: what may well be right, and is worth a look:
    values far from the public ones, a category that no public row has.
    `filled`: missing values by feature that became the public mean. `classes`: rows used, by class.
    """

    problems: tuple[Problem, ...] = ()
    doubts: tuple[Problem, ...] = ()
    remarks: tuple[Problem, ...] = ()
    rows: int = field(default=0, repr=False)
    used: int = field(default=0, repr=False)
    filled: dict[str, int] = field(default_factory=dict, repr=False)
    classes: dict[str, int] = field(default_factory=dict, repr=False)

    def refusal(self) -> Refused:
        """What a request that needs these rows is answered; the detail is for the party's own log."""
        rules = {problem.rule for problem in self.problems}
        rule = Rule.SCHEMA if rules == {Rule.SCHEMA} else Rule.DATA
        return Refused(rule, detail="; ".join(str(problem) for problem in self.problems))


COLUMNS: Role = "[columns]"
LABEL: Role = "[label]"
PATIENT: Role = "[patient]"
ACTIONS: dict[Role, tuple[str, Rule]] = {
    COLUMNS: (
        'Say under [columns] which one it is: "{name}" = "name in the file"; if you have none, lacks = ["{name}"]',
        Rule.SCHEMA,
    ),
    LABEL: ('Say under [label] which one it is: column = "name in the file"', Rule.SCHEMA),
    PATIENT: ("Say under [patient] column which one it is", Rule.DATA),
}
"""By the table of party.toml that names the column."""


def absent_or_double(wanted: Wanted, names: Sequence[str], role: Role) -> Problem:
    """What to tell of it. The names that the file has are not quoted: they may be a row."""
    if wanted.column in names:
        fault = f"the file has {names.count(wanted.column)} columns of this name"
        return Problem(wanted.where, fault, "Rename all but one: which is meant cannot be known")
    action, rule = ACTIONS[role]
    if any(_plain(name) == _plain(wanted.column) for name in names):
        action = "It has one that differs only in capitals, spaces, - or _: write the name as it stands in the file"
        rule = Rule.SCHEMA
    return Problem(wanted.where, "the file has no such column", action.format(name=wanted.name), rule)


def _plain(name: str) -> str:
    return " ".join(name.replace("_", " ").replace("-", " ").lower().split())


MANY = 0.05
"""Share of a column's rows that are far from the public mean, from which on another unit is suspected."""
MOST_NAMES = 8

FAULTS = {
    ValueState.NOT_A_NUMBER: (
        "hold text that is no number",
        'Map it with codes: beside a bound as in codes = { "> 89" = 90 } other cells stay numbers. Or, if it means a'
        " missing value, name it in missing_codes",
    ),
    ValueState.DECIMAL_COMMA: (
        "have a decimal comma",
        "Export with a decimal point, and without marks of thousands; if all commas are decimal ones, set"
        " decimal_comma = true in [csv]",
    ),
    ValueState.DECIMAL_POINT: (
        "have a point although decimal_comma is set: it may separate thousands",
        "Export without thousands separators",
    ),
    ValueState.UNKNOWN_CODE: ("hold a value that codes does not have", "Add it to codes, or to missing_codes"),
    ValueState.NUMBER_BESIDE_CODES: (
        "hold a value that codes does not have, and that is a number",
        'If codes stand beside numbers ("> 89" beside 34), set other = "number"; else add it to codes',
    ),
    ValueState.INFINITE: ("are infinite", "Correct them, or empty them"),
}


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


def mapping(fields: Sequence[RawField], label: Wanted, foreign: set[str], rules: DataRules) -> list[Problem]:
    """Faults of the mapping itself. `foreign`: classes that it names and the federation has not."""
    problems = []
    by_column: dict[str, list[str]] = {}
    for item in fields:
        wanted = item.wanted
        if item.nothing:
            continue
        by_column.setdefault(wanted.column, []).append(wanted.name)
        if rules.columns and wanted.name not in rules.columns:
            action = (
                f'Only what [columns] names is read: add "{wanted.name}"; if you have none, lacks = ["{wanted.name}"]'
            )
            problems.append(
                Problem(wanted.name, "the federation asks for it, [columns] does not name it", action, Rule.SCHEMA)
            )
        if wanted.known and (wanted.codes is not None or wanted.changes_unit):
            fault = "is a category, and codes, factor and offset are of numbers"
            action = f"Give values: the federation's are {_quoted(wanted.known)}"
            problems.append(Problem(wanted.where, fault, action, Rule.SCHEMA))
        if wanted.renamed and not wanted.known:
            fault = "is a number, and values are of a category"
            problems.append(Problem(wanted.where, fault, "Give codes: a number for each text", Rule.SCHEMA))
    for column, names in by_column.items():
        if column == label.column:
            fault = "is the label's column: a teacher would read the answer"
            problems.append(Problem(", ".join(names), fault, "Correct [columns] or [label]"))
        if len(names) > 1:
            fault = f"are all column {column!r}"
            problems.append(Problem(", ".join(names), fault, "Give each feature its own column in [columns]"))
        if column == rules.patient.column:
            fault = "is the column of [patient]: who a row belongs to is no feature"
            problems.append(Problem(", ".join(names), fault, "Correct [columns] or [patient]"))
    if label.column == rules.patient.column:
        fault = "is the column of [patient] and that of [label]"
        problems.append(Problem(label.where, fault, "Correct one of them"))
    if foreign:
        fault = f"[label] classes names {sorted(foreign)}, no class of the federation"
        problems.append(Problem(label.where, fault, "Use the federation's names on the right-hand side", Rule.SCHEMA))
    return problems


def unknown_names(wanted: Wanted) -> list[Problem]:
    """Names on the right-hand side of `values` that no public row has."""
    strange = sorted(set(wanted.renamed.values()) - set(wanted.known))
    if not wanted.known or not strange:
        return []
    fault = f"values names {_quoted(strange)}, which no public row has: it counts as none of the known ones"
    return [Problem(wanted.where, fault, f"The federation's are {_quoted(wanted.known)}")]


def faults(wanted: Wanted, column: Column, lines: Lines) -> list[Problem]:
    """Values of a feature that are no numbers."""
    if not column.states.any():  # all are good; of 5,000 parties with 784 columns each, this is what takes the time
        return []
    rows = {state: column.rows(state) for state in FAULTS}
    return [
        Problem(wanted.where, counted(lines, rows[state], FAULTS[state][0]), FAULTS[state][1])
        for state in FAULTS
        if len(rows[state])
    ]


def unknown_category(wanted: Wanted, column: Column, lines: Lines) -> list[Problem]:
    """Values that no public row has. They are taken: what a party has decides nothing about whether it takes part."""
    rows = column.rows(ValueState.UNKNOWN_CATEGORY)
    if not len(rows):
        return []
    fault = counted(lines, rows, "hold a value that no public row has") + ": it counts as none of the known ones"
    action = f"If they mean one of {_quoted(wanted.known)}, say so under values; if they are missing, in missing_codes"
    return [Problem(wanted.where, fault, action)]


def label_faults(label: Wanted, column: Column, lines: Lines) -> list[Problem]:
    """Labels that are no class. They are not quoted: a label is private."""
    states = (ValueState.UNKNOWN_CODE, ValueState.NUMBER_BESIDE_CODES)
    rows = np.flatnonzero(np.isin(column.states, states))
    if not len(rows):
        return []
    action = "Map the file's values under [label] classes, or name those to leave out in missing_codes"
    return [Problem(label.where, counted(lines, rows, "have a label that is no class"), action, Rule.SCHEMA)]


def another_unit(wanted: Wanted, column: Column, center: float, scale: float) -> list[Problem]:
    """Values that are far from the public rows, many of them or on average."""
    values = column.values[column.states == ValueState.GOOD]
    if not len(values):
        return []
    oddness = compared(values, center, scale)
    share = float(oddness.far.mean())
    if share >= MANY:
        fault = f"{share:.0%} of the rows are more than {FAR:g} deviations from the public mean"
    elif oddness.shift > SHIFTED:
        fault = f"its mean is {oddness.shift:.1f} deviations from that of the public rows"
    else:
        return []
    action = "Another unit? Set factor (and offset) for it in [columns]. Or a number that stands for a missing value"
    return [Problem(wanted.where, fault, action)]


def outside(wanted: Wanted, column: Column, lines: Lines, allowed: Range) -> list[Problem]:
    """Values that the schema's range does not have. Compared in float32, as queries travel: 0.1 is not above 0.1."""
    with np.errstate(over="ignore"):
        values = column.values.astype(np.float32)  # NaN, where they are not good, is neither below nor above
    beyond = np.flatnonzero((values < np.float32(allowed.low)) | (values > np.float32(allowed.high)))
    broken = np.flatnonzero((values != np.rint(values)) & ~np.isnan(values)) if allowed.whole else beyond[:0]
    problems = []
    if len(beyond):
        fault = counted(lines, beyond, f"are outside {allowed.low:g} to {allowed.high:g}, which the schema allows")
        action = "Look for another unit (factor), or for a number that stands for a missing value (missing_codes)"
        problems.append(Problem(wanted.where, fault, action, Rule.SCHEMA))
    if len(broken):
        fault = counted(lines, broken, "are no whole numbers, which the schema asks for")
        problems.append(Problem(wanted.where, fault, "Look for another column or coding", Rule.SCHEMA))
    return problems


def counted(lines: Lines, rows: np.ndarray, fault: str) -> str:
    """How many rows of all, what they are, and where the first one is."""
    return f"{len(rows)} of {len(lines)} rows {fault} (first: {lines.place(int(rows[0]))})"


def _quoted(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(repr(name) for name in names[:MOST_NAMES]) + more
