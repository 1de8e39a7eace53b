"""The data file against the federation's schema: rows that fit, or everything that is wrong at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.party.data import checks, csv_file, identities, npz, parquet
from consilium.party.data.problems import DataReport, Problem, Unreadable
from consilium.party.data.rules import DataRules
from consilium.party.data.table import FileColumns
from consilium.protocol.rows.columns import ValueState, Wanted
from consilium.protocol.rows.representation import represent
from consilium.protocol.rows.schema import Schema

log = logging.getLogger("consilium.party")

SUFFIXES = (".csv", ".parquet", ".npz")
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
    rows, report = read_rows(path, schema, rules or DataRules())
    if rows is None:
        raise report.refusal()
    for problem in report.doubts:
        log.warning("taken all the same: %s", problem)
    return rows


def read_rows(path: Path, schema: Schema, rules: DataRules) -> tuple[Rows | None, DataReport]:
    """The rows, or None where the report has problems; it has all of them. Never raises for what a file holds."""
    index = {name: float(position) for position, name in enumerate(schema.classes)}
    named = rules.label.classes or {name: name for name in schema.classes}
    label = Wanted(
        "label",
        "y" if path.suffix.lower() == ".npz" else rules.label.column,
        {text: index[name] for text, name in named.items() if name in index},
        rules.label.missing_codes,
    )
    features = [
        Wanted(name, rules.column_of(name), rules.codes_of(name), rules.missing_codes_of(name))
        for name in schema.features
    ]
    problems = checks.mapping(features, label, set(named.values()) - set(index), rules)
    # a feature that the party's mapping leaves out is not even looked for
    wanted = [item for item in features if not rules.columns or item.name in rules.columns]
    try:
        table = _read(path, [*wanted, label], rules)
    except Unreadable as error:
        return None, DataReport((*problems, error.problem))
    except MemoryError:
        problem = Problem(str(path), "does not fit into memory", "Use .parquet or .csv: only mapped columns are read")
        return None, DataReport((*problems, problem))
    except OSError as error:
        problem = Problem(str(path), f"cannot be read: {error.strerror}", "Check `data` in party.toml, and its rights")
        return None, DataReport((*problems, problem))
    return _fit(table, [*wanted, label], schema, rules, [*problems, *table.problems])


def _read(path: Path, wanted: Sequence[Wanted], rules: DataRules) -> FileColumns:
    match path.suffix.lower():
        case ".npz":
            return npz.read(path, wanted, rules.patient.column)
        case ".csv":
            return csv_file.read(path, wanted, rules.csv, rules.patient.column)
        case ".parquet":
            return parquet.read(path, wanted, rules.patient.column)
    raise Unreadable(Problem(str(path), "is of no format that is known by its name", f"Use {', '.join(SUFFIXES)}"))


def _fit(
    table: FileColumns, wanted: Sequence[Wanted], schema: Schema, rules: DataRules, problems: list[Problem]
) -> tuple[Rows | None, DataReport]:
    *features, label = wanted
    columns = table.columns
    answers = columns.pop()
    total = max((len(column.states) for column in (answers, *columns) if column is not None), default=0)
    ranges = {allowed.feature: allowed for allowed in schema.ranges}
    keep = np.ones(total, dtype=bool)
    x = np.zeros((total, len(features)))
    filled: dict[str, int] = {}
    doubts: list[Problem] = []
    for index, feature in enumerate(features):
        column, columns[index] = columns[index], None  # let go of it once it is in x
        if column is None:
            continue
        problems += checks.faults(feature, column)
        allowed = ranges.get(feature.name)
        if allowed is not None:
            doubts += checks.outside(feature, column, allowed)
        x[:, index] = column.values
        absent = column.states == ValueState.MISSING
        match rules.missing_of(feature.name):
            case "drop-row":
                keep &= ~absent
            case "mean":
                filled[feature.name] = int(np.count_nonzero(absent))
            case "refuse" if absent.any():
                problems.append(checks.missing(feature, column, 'missing = "drop-row" or "mean"'))
    if answers is not None:
        problems += checks.label_faults(label, answers)
        absent = answers.states == ValueState.MISSING
        if rules.label.missing == "drop-row":
            keep &= ~absent
        elif absent.any():
            problems.append(checks.missing(label, answers, 'missing = "drop-row" in [label]'))
    nobody = np.isin(table.patients or [], ["", *rules.missing.codes])
    if nobody.any():
        problems.append(checks.no_patient(rules.patient.column or "", int(nobody.sum()), total))
    if problems or answers is None:
        return None, DataReport((*problems, *doubts), rows=total)
    if not keep.all():
        x = x[keep]
    y = answers.values[keep].astype(np.int64)
    if not len(y):
        problems.append(checks.no_rows(total))
    elif not rules.allow_one_class and (y == y[0]).all():
        doubts.append(checks.one_class(label, len(schema.classes)))
    counts = np.bincount(y, minlength=len(schema.classes))
    report = DataReport(
        (*problems, *doubts) if problems else (),
        tuple(doubts),
        rows=total,
        used=len(y),
        filled={name: count for name, count in filled.items() if count},
        classes={name: int(count) for name, count in zip(schema.classes, counts, strict=True)},
    )
    if problems:
        return None, report
    if table.patients is None:
        whose = identities.of_rows(x, y)
    else:
        whose = identities.of_patients([table.patients[index] for index in np.flatnonzero(keep)])
    _standardise(x, features, schema, rules.keep_missing)
    return Rows(x, y, whose), report


def _standardise(x: np.ndarray, features: Sequence[Wanted], schema: Schema, keep_missing: bool) -> None:
    """Raw values (n, features), NaN where missing, to what is trained on, in place and row by row for itself.

    Values beyond the schema's ranges move to the nearest end; a missing one becomes 0, the mean of the public rows,
    unless it is kept for the teacher.
    """
    ranges = {allowed.feature: allowed for allowed in schema.ranges}
    for index, feature in enumerate(features):
        position, allowed = schema.features.index(feature.name), ranges.get(feature.name)
        low, high = (allowed.low, allowed.high) if allowed else (-np.inf, np.inf)
        with np.errstate(over="ignore"):
            values = (np.clip(x[:, index], low, high) - schema.center[position]) / schema.scale[position]
        values = np.clip(values, -FURTHEST, FURTHEST)
        x[:, index] = values if keep_missing else np.nan_to_num(values)
