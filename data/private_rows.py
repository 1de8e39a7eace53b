"""A party's data file against the federation's schema: rows that fit, or everything that is wrong at once."""

from __future__ import annotations

import hashlib
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from consilium.data.cells import (
    Column,
    ValueState,
    Wanted,
    cell_faults,
    classes_of,
    counted,
    far_from_public,
    outside,
    read_cells,
)
from consilium.data.encoding import features_from
from consilium.data.files import ArrayTable, BadTable, Role, TableFile, open_arrays, open_table
from consilium.data.mapping import MOST_NAMES, DataRules, FileField, Problem, absent_or_double, lacks, mapping_faults
from consilium.data.remedy import quoted
from consilium.data.texts import texts_of
from consilium.protocol.images import represent
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import Schema

if TYPE_CHECKING:
    import polars as pl

remarks = logging.getLogger("consilium.party.remarks")
"""What is odd about a party's rows, for whoever looks after them: nobody in a simulation, which switches it off."""
SUFFIXES = (".csv", ".tsv", ".parquet", ".npz")
FURTHEST = 1e9
"""Standardised values beyond it are moved there: their squares are still numbers, and an estimator that fails on larger
ones would tell whoever chose the scale how large they are."""
ROWS_AT_ONCE = 1024
"""Rows that are copied at once: all of a large file would be in memory twice."""


@dataclass(frozen=True)
class Rows:
    """Private rows: `x` float64 (n, features) standardised, `y` int64 (n,) indices into the federation's classes.
    identities: uint8 (n, 32), whose each row is, see `of_rows` and `of_patients`."""

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    identities: np.ndarray = field(default_factory=lambda: np.zeros((0, 32), dtype=np.uint8), repr=False)

    def represented(self, schema: Schema, parts: Sequence[np.ndarray]) -> Rows:
        """The same rows as teachers see them: `x` float (n, inputs). Shard by shard (`parts` of row indices, which
        cover all): what a transform gives for a row may depend in its last bits on the rows that it is computed with,
        and a teacher must see nothing of other shards."""
        if schema.representation == "none":
            return self
        images = [represent(schema.representation, self.x[part]) for part in parts if len(part)]
        x = np.empty((len(self.y), images[0].shape[1]), dtype=images[0].dtype)
        for part in parts:
            if len(part):
                x[part] = images.pop(0)
        return replace(self, x=x)


def of_patients(ids: Sequence[str]) -> np.ndarray:
    """Whose rows are where `[patient] column` says it: uint8 (rows, 32), equal where the texts are. All rows of one
    patient are in one shard, which the identity decides."""
    return _joined([hashlib.sha256(b"patient\0" + text.encode()).digest() for text in ids])


def of_rows(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whose rows are where nobody says it: each is its own, uint8 (rows, 32).

    It is a hash of the numbers and of how many equal rows stand before it. So of c equal rows there are the identities
    1 to c, in whichever order they stand, and where one is taken away c alone is gone. Copies are spread over shards
    like any rows: by the numbers alone a table with few different rows had shards of one class.

    x: float64 (rows, features), y: float64 (rows,) of the label, as the party's own mapping reads them from the file,
    before the federation's scale, ranges and means. Not the row as it is trained on: a coordinator that sets the range
    or scale of a column would decide which rows become equal. The label is part of it, as it is of
    what a teacher learns. A missing value (NaN, whatever its bits) is equal to a missing value, and -0 to 0.
    """
    digests, copies = list[bytes](), Counter[bytes]()
    for start in range(0, len(y), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        values = np.column_stack((x[block], y[block])).astype("<f8") + 0.0
        values[np.isnan(values)] = np.nan
        for row in values:
            digest = hashlib.sha256(b"row\0" + row.tobytes())
            copies[same := digest.digest()] += 1
            digest.update(copies[same].to_bytes(8))
            digests.append(digest.digest())
    return _joined(digests)


def _joined(digests: Sequence[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, hashlib.sha256().digest_size)


@dataclass(frozen=True)
class DataReport:
    """What `party rows` shows. Counts of private rows: they are not covered by the guarantee, and are not in `repr`.
    `problems`: why there are no rows to use. `doubts`: what training takes, and mostly is a mistake: values that it
    moves to the schema's range, rows of one class only. `remarks`: what may well be right, and is worth a look: values
    far from the public ones, a category that no public row has. `filled`: missing values by feature that became the
    public mean. `classes`: rows used, by class."""

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


class PrivateRows(ABC):
    """Where a party's rows come from, and how they are read. path: what messages call it. arrays: it has numbers, and
    so features; its label is y."""

    path: Path
    rules: DataRules
    arrays: bool

    @abstractmethod
    def digest(self) -> str:
        """SHA-256, hex, of all that is there; empty where it cannot be read."""

    @abstractmethod
    def _open(self) -> TableFile:
        """Raises BadTable, OSError."""

    def read(self, schema: Schema) -> Rows:
        """All of them, standardised with the schema's public statistics. Columns and classes are matched by name, after
        the party's own mapping, so there may be more, in another order. Values outside the schema's ranges are moved to
        the nearest end and never refused: a coordinator that chooses the range and sees the refusal could ask its way
        to the largest value of every column. Nor are rows refused that all have one class, and one row is enough: who
        takes part must not tell what its labels are. `party rows` shows both. Raises Refused: SCHEMA where the table is
        sound and does not fit, DATA otherwise. What is wrong in detail stays here."""
        rows, report = self.report(schema, remarked=remarks.isEnabledFor(logging.WARNING))
        if rows is None:
            raise report.refusal()
        for problem in (*report.doubts, *report.remarks):
            remarks.warning("taken all the same: %s", problem)
        return rows

    def report(self, schema: Schema, remarked: bool = True) -> tuple[Rows | None, DataReport]:
        """The rows, or None where the report has problems; it has all of them. Never raises for what a table holds.
        remarked: what is only odd is looked for too, which costs as much as reading the rows."""
        try:
            return _Fit(schema, self.rules, self._open(), self.arrays, remarked).rows()
        except BadTable as error:
            problem = Problem(str(error.path), error.fault, error.action)
        except MemoryError:
            action = "Use .parquet or .csv: only mapped columns are read"
            problem = Problem(str(self.path), "does not fit into memory", action)
        except OSError as error:
            action = "Check `data` in party.toml, and its rights"
            problem = Problem(str(self.path), f"cannot be read: {error.strerror}", action)
        return None, DataReport((*lacks(schema, self.rules), problem))


@dataclass(frozen=True)
class FileRows(PrivateRows):
    """Rows in a file. Without `rules` it has the federation's names and no missing value."""

    path: Path
    rules: DataRules = field(default_factory=DataRules)

    @property
    def arrays(self) -> bool:
        return self.path.suffix.lower() == ".npz"

    def digest(self) -> str:
        try:
            with open(self.path, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return ""  # reading it says what is wrong

    def _open(self) -> TableFile:
        if self.path.suffix.lower() not in SUFFIXES:
            raise BadTable(self.path, "is of no format that is known by its name", f"Use {', '.join(SUFFIXES)}")
        return open_arrays(self.path) if self.arrays else open_table(self.path, self.rules.csv)


@dataclass(frozen=True)
class MemoryRows(PrivateRows):
    """Rows in memory. table: arrays of a party's data.npz, see `ArrayTable`."""

    table: Mapping[str, np.ndarray] = field(repr=False)
    rules: DataRules = field(default_factory=DataRules)
    path = Path("rows in memory")
    arrays = True

    def read(self, schema: Schema) -> Rows:
        rows = None if remarks.isEnabledFor(logging.WARNING) else self._plain(schema)
        return super().read(schema) if rows is None else rows

    def _plain(self, schema: Schema) -> Rows | None:
        """The same rows at a fraction of the time, of a table in which nothing is mapped, missing or wrong; else None.
        Of thousands of simulated parties nearly all have one."""
        rules, table = self.rules, self.table
        mapped = rules.columns or rules.lacks or rules.label.classes or rules.patient.column
        if mapped or rules.missing.codes or rules.label.missing_codes or {"x", "y", "features", "classes"} - {*table}:
            return None
        x, labels, known = table["x"], table["y"], {name: place for place, name in enumerate(schema.classes)}
        places = np.array([known.get(str(name), -1) for name in table["classes"]])
        numbers = x.dtype.kind in "fiu" and labels.dtype.kind in "iu" and labels.shape == x.shape[:1] and len(x)
        if not numbers or tuple(table["features"]) != schema.features or not np.isfinite(x).all():
            return None
        if labels.min() < 0 or labels.max() >= len(places) or (y := places[labels]).min() < 0:
            return None
        x = x.astype(np.float64)
        whose = of_rows(x, y)
        _standardise(x, schema, rules.keep_missing)
        return Rows(x, y, whose)

    def digest(self) -> str:
        digest = hashlib.sha256()
        for name, array in sorted(self.table.items()):
            digest.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
        return digest.hexdigest()

    def _open(self) -> TableFile:
        return ArrayTable(self.path, self.table)


class _Fit:
    """A file on its way to rows of the schema, with what is wrong and what is odd about it."""

    def __init__(self, schema: Schema, rules: DataRules, file: TableFile, arrays: bool, remarked: bool) -> None:
        self.schema, self.rules, self.remarked = schema, rules, remarked
        self.ranges = {allowed.feature: allowed for allowed in schema.ranges}
        numbers = [column.column for column in schema.columns if column.kind == "number"]
        self.numbers = set(numbers if schema.columns else schema.features)
        self.label = Wanted("label", "y" if arrays else rules.label.column.strip())
        index = {name: place for place, name in enumerate(schema.classes)}
        named = rules.label.classes or {name: name for name in schema.classes}
        self.classes = {text: index[name] for text, name in named.items() if name in index}
        fields = rules.fields(schema, arrays)
        self.problems = lacks(schema, rules)
        self.problems += mapping_faults(fields, self.label, set(named.values()) - set(index), rules)
        # what the party's mapping leaves out is not even looked for
        self.fields = [item for item in fields if item.nothing or not rules.columns or item.name in rules.columns]
        self.doubts: list[Problem] = []
        self.remarks: list[Problem] = []
        self.filled: dict[str, int] = {}
        self.decimal_comma = file.decimal_comma
        self._read(file)
        self.mask = np.ones(len(self.lines), dtype=bool)

    def _read(self, file: TableFile) -> None:
        """The cells of all columns that are asked for and can be read, and where their rows stand."""
        wanted: list[tuple[Role, Wanted]] = [("[columns]", item) for item in self.fields if not item.nothing]
        wanted.append(("[label]", self.label))
        if self.rules.patient.column is not None:
            wanted.append(("[patient]", Wanted("patient", self.rules.patient.column.strip())))
        places: dict[tuple[Role, str], int] = {}
        for role, column in wanted:
            where = file.places(column.column, role)
            if len(where) != 1:
                self.problems.append(absent_or_double(column, file.names, role))
            elif fault := file.why_unreadable(where[0]):
                self.problems.append(Problem(column.where, fault, file.form))
            else:
                places[role, column.name] = where[0]
        read = file.read(list(places.values()))
        if read.torn is not None:
            self.problems.append(Problem(str(file.path), read.torn.fault, read.torn.action))
        self.lines, self.cells = read.lines, dict(zip(places, read.columns, strict=True))

    def rows(self) -> tuple[Rows | None, DataReport]:
        """All that can be used, or None; and the report."""
        x, raw = self._matrices()
        answers = self._answers()
        patients = self._patients()
        if self.problems or answers is None:
            faults, total = (*self.problems, *self.doubts), len(self.lines)
            return None, DataReport(faults, remarks=tuple(self.remarks), rows=total)
        y = answers[self.mask].astype(np.int64)
        report = self._report(y)
        if report.problems:
            return None, report
        if not self.mask.all():
            x, raw = x[self.mask], None if raw is None else raw[self.mask]
        if patients is None:
            whose = of_rows(x if raw is None else raw, y)
        else:
            whose = of_patients([patients[row] for row in np.flatnonzero(self.mask)])
        _standardise(x, self.schema, self.rules.keep_missing)
        return Rows(x, y, whose), report

    def _answers(self) -> np.ndarray | None:
        """Classes float64 (rows,), NaN where one is missing; None where there is no such column."""
        cells, rule = self.cells.pop(("[label]", "label"), None), self.rules.label
        if cells is None:
            return None
        column = classes_of(cast("pl.Series", cells), self.classes, rule.missing_codes)
        if len(wrong := column.rows(ValueState.UNKNOWN_CODE)):  # not quoted: a label is private
            fault = counted(self.lines, wrong, "have a label that is no class")
            action = "Map the file's values under [label] classes, or name those to leave out in missing_codes"
            self.problems.append(Problem(self.label.where, fault, action, Rule.SCHEMA))
        self._missing(self.label, column, rule.missing, 'missing = "drop-row" in [label]')
        return column.values

    def _patients(self) -> list[str] | None:
        """Whose each row is; None where nobody says it."""
        cells = self.cells.pop(("[patient]", "patient"), None)
        if cells is None:
            return None
        if isinstance(cells, np.ndarray):
            texts = [str(value).strip() for value in cells.tolist()]
        else:
            texts = texts_of(cells).fill_null("").to_list()
        if (nobody := np.isin(texts, ["", *self.rules.missing.codes])).any():
            action = "Complete them, or leave these rows out: they can be in no patient's shard"
            fault = counted(self.lines, np.flatnonzero(nobody), "name no patient")
            self.problems.append(Problem(f"patient (column {self.rules.patient.column!r})", fault, action))
        return texts

    def _matrices(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Features float64 (rows, features), and what identifies rows, (rows, fields): None where nothing is encoded,
        and the features do. Columns are let go of one by one."""
        rows, end = len(self.lines), 0
        x = np.zeros((rows, sum(item.width for item in self.fields)))
        raw = np.zeros((rows, len(self.fields))) if any(item.encoding for item in self.fields) else None
        for index, item in enumerate(self.fields):
            start, end = end, end + item.width
            cells = self.cells.pop(("[columns]", item.name), None)
            if item.nothing:
                column = Column(np.full(rows, np.nan), np.full(rows, ValueState.MISSING, dtype=np.uint8))
            elif cells is None:
                continue
            else:
                column = read_cells(cells, item, self.decimal_comma)
            self._look(item, column)
            encoding = item.encoding
            x[:, start:end] = column.values[:, None] if encoding is None else features_from(column, encoding)
            if raw is not None:
                raw[:, index] = column.values if column.keys is None else column.keys
            if column.states.any():
                self._missing(item, column, item.if_missing, 'rule = "drop-row" or "mean" in [missing]')
        return x, raw

    def _look(self, item: FileField, column: Column) -> None:
        if column.states.any():  # of 5,000 parties with 784 columns each, this is what takes the time
            wrong = cell_faults(column.rows, self.lines)
            self.problems += [Problem(item.where, fault, action) for fault, action in wrong]
        if (allowed := self.ranges.get(item.name)) is not None:
            action = "Look for another unit (factor) or coding, or for a number that means missing (missing_codes)"
            if odd := self._odd(item, outside(column.values, allowed), action):
                self.doubts += odd
                return
        if self.remarked and item.known:
            known, unknown = quoted(item.known, MOST_NAMES), column.rows(ValueState.UNKNOWN_CATEGORY)
            what = "hold a value that no public row has"  # what a party has never keeps it out
            action = f"If they mean one of {known}, say so under values; if they are missing, in missing_codes"
            if len(unknown):
                fault = f"{counted(self.lines, unknown, what)}: it counts as none of the known ones"
                self.remarks.append(Problem(item.where, fault, action))
        elif self.remarked and item.name in self.numbers:  # a value that is encoded already has no unit
            place = self.schema.features.index(item.name)
            action = "Another unit? Set factor (and offset) for it in [columns]. Or a number that means missing"
            far = far_from_public(column.values, self.schema.center[place], self.schema.scale[place])
            self.remarks += self._odd(item, far, action)

    def _odd(self, wanted: Wanted, found: Iterable[tuple[np.ndarray, str]], action: str) -> list[Problem]:
        return [
            Problem(wanted.where, counted(self.lines, rows, fault), action, Rule.SCHEMA)
            for rows, fault in found
            if len(rows)
        ]

    def _missing(self, wanted: Wanted, column: Column, rule: str, how: str) -> None:
        absent = column.states == ValueState.MISSING
        if rule == "drop-row":
            self.mask &= ~absent
        elif rule == "mean":
            self.filled[wanted.name] = int(np.count_nonzero(absent))
        elif absent.any():
            fault = counted(self.lines, np.flatnonzero(absent), "have no value")
            self.problems.append(Problem(wanted.where, fault, f"Fill them, or set {how}"))

    def _report(self, y: np.ndarray) -> DataReport:
        """y: int64 (rows,), of those that are left."""
        classes, total, none = self.schema.classes, len(self.lines), []
        if not total:
            none.append(Problem("rows", "there are none", "Export the data again"))
        elif not len(y):
            action = 'Rows with a missing value are dropped: consider missing = "mean" for the columns that miss most'
            none.append(Problem("rows", f"none is left of {total}", action))
        elif not self.rules.allow_one_class and (y == y[0]).all():
            fault = f"all rows that are left have the same of {len(classes)} classes"
            action = "Correct [label] classes; if the data are so, set allow_one_class = true there"
            self.doubts.append(Problem(self.label.where, fault, action))
        return DataReport(
            (*none, *self.doubts) if none else (),
            tuple(self.doubts),
            tuple(self.remarks),
            rows=total,
            used=len(y),
            filled={name: count for name, count in self.filled.items() if count},
            classes=dict(zip(classes, np.bincount(y, minlength=len(classes)).tolist(), strict=True)),
        )


def _standardise(x: np.ndarray, schema: Schema, keep_missing: bool) -> None:
    """Raw values (n, features), NaN where missing, to what is trained on, in place and row by row for itself. Values
    beyond the schema's ranges move to the nearest end; a missing one becomes 0, the mean of the public rows, unless it
    is kept for the teacher."""
    ranges = {allowed.feature: allowed for allowed in schema.ranges}
    allowed = [ranges.get(feature) for feature in schema.features]
    low = [-np.inf if limits is None else limits.low for limits in allowed]
    high = [np.inf if limits is None else limits.high for limits in allowed]
    np.clip(x, low, high, out=x)
    x += 0.0  # -0 becomes 0: rows that `of_rows` takes for equal are so for teachers
    with np.errstate(over="ignore"):
        x -= np.asarray(schema.center)
        x /= np.asarray(schema.scale)
    np.clip(x, -FURTHEST, FURTHEST, out=x)
    if not keep_missing:
        np.nan_to_num(x, copy=False)
