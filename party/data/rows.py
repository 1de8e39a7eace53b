"""The data file against the federation's schema: rows that fit, or everything that is wrong at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.party.data import checks, identities, npz, table_files
from consilium.party.data.fields import RawField, fields_of, takes_columns
from consilium.party.data.files import data_files
from consilium.party.data.problems import DataReport, Problem, Unreadable
from consilium.party.data.rules import DataRules
from consilium.party.data.table import FileColumns
from consilium.protocol.rows.columns import Column, ValueState, Wanted
from consilium.protocol.rows.representation import represent
from consilium.protocol.rows.schema import Schema
from consilium.protocol.tables.lines import Lines

remarks = logging.getLogger("consilium.party.remarks")
"""What is odd about a party's rows, for whoever looks after them: nobody in a simulation, which switches it off."""

FURTHEST = 1e9
"""Standardised values beyond it are moved there: their squares are still numbers, and an estimator that fails on larger
ones would tell whoever chose the scale how large they are."""


@dataclass(frozen=True)
class Rows:
    """Private rows: `x` float64 (n, features) standardised, `y` int64 (n,) indices into the federation's classes.

    identities: uint8 (n, 32), whose each row is, see `party.data.identities`.
    """

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    identities: np.ndarray = field(default_factory=lambda: np.zeros((0, 32), dtype=np.uint8), repr=False)

    def represented(self, schema: Schema, parts: Sequence[np.ndarray]) -> Rows:
        """The same rows as teachers see them: `x` float (n, inputs).

        Shard by shard (`parts` of row indices, which cover all): what a transform gives for a row may depend in its
        last bits on the rows that it is computed with, and a teacher must see nothing of other shards.
        """
        if schema.representation == "none":
            return self
        each = [represent(schema.representation, self.x[part]) for part in parts if len(part)]
        x = np.empty((len(self.y), each[0].shape[1]), dtype=each[0].dtype)
        for part in parts:
            if len(part):
                x[part] = each.pop(0)
        return Rows(x, self.y, self.identities)


def load_rows(path: Path, schema: Schema, rules: DataRules | None = None) -> Rows:
    """Read a party's data file and standardise it with the schema's public statistics.

    Columns and classes are matched by name, after the party's own mapping, so a file may hold more, in another order.
    Without `rules` the file has the federation's names and no missing value.

    Values outside the schema's ranges are moved to the nearest end and never refused: a coordinator that chooses the
    range and sees the refusal could ask its way to the largest value of every column. Nor are rows refused that all
    have one class, and one row is enough: who takes part must not tell what its labels are. `party check` shows both.

    Raises
    ------
    Refused : SCHEMA where the file is sound and does not fit, DATA otherwise. What is wrong in detail stays here.
    """
    rows, report = read_rows(path, schema, rules or DataRules(), remarked=remarks.isEnabledFor(logging.WARNING))
    if rows is None:
        raise report.refusal()
    for problem in (*report.doubts, *report.remarks):
        remarks.warning("taken all the same: %s", problem)
    return rows


def read_rows(path: Path, schema: Schema, rules: DataRules, remarked: bool = True) -> tuple[Rows | None, DataReport]:
    """The rows, or None where the report has problems; it has all of them. Never raises for what a file holds.

    remarked: what is only odd is looked for too, which costs as much as reading the rows.
    """
    index = {name: float(position) for position, name in enumerate(schema.classes)}
    named = rules.label.classes or {name: name for name in schema.classes}
    label = Wanted(
        "label",
        "y" if path.suffix.lower() == ".npz" else rules.label.column.strip(),
        {text: index[name] for text, name in named.items() if name in index},
        rules.label.missing_codes,
    )
    problems: list[Problem] = []
    try:
        paths = data_files(path)
        fields = fields_of(schema, rules, _takes_columns(paths, schema, rules))
        problems += checks.mapping(fields, label, set(named.values()) - set(index), rules)
        # what the party's mapping leaves out is not even looked for
        fields = [field for field in fields if not rules.columns or field.wanted.name in rules.columns]
        table = _read(paths, [field.wanted for field in fields], label, rules)
    except Unreadable as error:
        return None, DataReport((*problems, error.problem))
    except MemoryError:
        problem = Problem(str(path), "does not fit into memory", "Use .parquet or .csv: only mapped columns are read")
        return None, DataReport((*problems, problem))
    except OSError as error:
        problem = Problem(str(path), f"cannot be read: {error.strerror}", "Check `data` in party.toml, and its rights")
        return None, DataReport((*problems, problem))
    return _fit(table, fields, label, schema, rules, [*problems, *table.problems], remarked)


def _takes_columns(paths: Sequence[Path], schema: Schema, rules: DataRules) -> bool:
    if not schema.columns or paths[0].suffix.lower() == ".npz":
        return False  # an .npz holds numbers, and so features
    return takes_columns(schema, rules, table_files.names_of(paths, rules.csv) if not rules.columns else ())


def _read(paths: Sequence[Path], features: Sequence[Wanted], label: Wanted, rules: DataRules) -> FileColumns:
    if paths[0].suffix.lower() == ".npz":
        return npz.read(paths[0], features, label, rules.patient.column)
    return table_files.read(paths, features, label, rules.csv, rules.patient.column)


def _fit(
    table: FileColumns,
    fields: Sequence[RawField],
    label: Wanted,
    schema: Schema,
    rules: DataRules,
    problems: list[Problem],
    remarked: bool,
) -> tuple[Rows | None, DataReport]:
    columns, lines = table.columns, table.lines
    answers = columns.pop()
    total = len(lines)
    ranges = {allowed.feature: allowed for allowed in schema.ranges}
    keep = np.ones(total, dtype=bool)
    x = np.zeros((total, sum(len(item.features) for item in fields)))
    raw = np.zeros((total, len(fields))) if any(item.encoding for item in fields) else x
    filled: dict[str, int] = {}
    doubts: list[Problem] = []
    remarks: list[Problem] = []
    start = 0
    for index, item in enumerate(fields):
        column, columns[index] = columns[index], None  # let go of it once it is in x
        end = start + len(item.features)
        if column is None:
            start = end
            continue
        wanted = item.wanted
        problems += checks.faults(wanted, column, lines)
        allowed = ranges.get(wanted.name)
        outside = [] if allowed is None else checks.outside(wanted, column, lines, allowed)
        doubts += outside
        remarks += _remarks(item, column, lines, schema) if remarked and not outside else []
        x[:, start:end] = item.matrix(column)
        if raw is not x:
            raw[:, index] = column.values if column.keys is None else column.keys
        start = end
        if not column.states.any():
            continue
        absent = column.states == ValueState.MISSING
        match item.missing:
            case "drop-row":
                keep &= ~absent
            case "mean":
                filled[wanted.name] = int(np.count_nonzero(absent))
            case "refuse" if absent.any():
                problems.append(checks.missing(wanted, column, lines, 'missing = "drop-row" or "mean"'))
    if answers is not None:
        problems += checks.label_faults(label, answers, lines)
        absent = answers.states == ValueState.MISSING
        if rules.label.missing == "drop-row":
            keep &= ~absent
        elif absent.any():
            problems.append(checks.missing(label, answers, lines, 'missing = "drop-row" in [label]'))
    nobody = np.isin(table.patients or [], ["", *rules.missing.codes])
    if nobody.any():
        problems.append(checks.no_patient(rules.patient.column or "", np.flatnonzero(nobody), lines))
    if problems or answers is None:
        return None, DataReport((*problems, *doubts), remarks=tuple(remarks), rows=total)
    if not keep.all():
        x, raw = x[keep], None if raw is x else raw[keep]
    elif raw is x:
        raw = None
    y = answers.values[keep].astype(np.int64)
    if not len(y):
        problems.append(checks.no_rows(total))
    elif not rules.allow_one_class and (y == y[0]).all():
        doubts.append(checks.one_class(label, len(schema.classes)))
    counts = np.bincount(y, minlength=len(schema.classes))
    report = DataReport(
        (*problems, *doubts) if problems else (),
        tuple(doubts),
        tuple(remarks),
        rows=total,
        used=len(y),
        filled={name: count for name, count in filled.items() if count},
        classes={name: int(count) for name, count in zip(schema.classes, counts, strict=True)},
    )
    if problems:
        return None, report
    if table.patients is None:
        whose = identities.of_rows(x if raw is None else raw, y)
    else:
        whose = identities.of_patients([table.patients[index] for index in np.flatnonzero(keep)])
    _standardise(x, schema, rules.keep_missing)
    return Rows(x, y, whose), report


def _remarks(item: RawField, column: Column, lines: Lines, schema: Schema) -> list[Problem]:
    wanted = item.wanted
    if wanted.known:
        return [*checks.unknown_names(wanted), *checks.unknown_category(wanted, column, lines)]
    if schema.columns and wanted.name not in {column.column for column in schema.columns if column.kind == "number"}:
        return []  # a value that is encoded already has no unit
    place = schema.features.index(wanted.name)
    return checks.another_unit(wanted, column, schema.center[place], schema.scale[place])


def _standardise(x: np.ndarray, schema: Schema, keep_missing: bool) -> None:
    """Raw values (n, features), NaN where missing, to what is trained on, in place and row by row for itself.

    Values beyond the schema's ranges move to the nearest end; a missing one becomes 0, the mean of the public rows,
    unless it is kept for the teacher.
    """
    ranges = {allowed.feature: allowed for allowed in schema.ranges}
    allowed = [ranges.get(feature) for feature in schema.features]
    low = [-np.inf if each is None else each.low for each in allowed]
    high = [np.inf if each is None else each.high for each in allowed]
    np.clip(x, low, high, out=x)
    with np.errstate(over="ignore"):
        x -= np.asarray(schema.center)
        x /= np.asarray(schema.scale)
    np.clip(x, -FURTHEST, FURTHEST, out=x)
    if not keep_missing:
        np.nan_to_num(x, copy=False)
