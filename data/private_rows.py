"""The data file against the federation's schema: rows that fit, or everything that is wrong at once."""

from __future__ import annotations

import hashlib
import logging
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consilium.data import faults
from consilium.data.cells import Column, ValueState, Wanted, from_numbers, read_cells
from consilium.data.faults import DataReport, Problem, Unreadable, absent_or_double, patient_of
from consilium.data.files import BadTable, CsvRule, Lines, TableFile, TornRows, in_file, is_pattern, open_table
from consilium.data.mapping import DataRules, RawField, fields_of, takes_columns
from consilium.protocol.rows.images import represent
from consilium.protocol.rows.schema import Schema

if TYPE_CHECKING:
    import polars as pl

SUFFIXES = (".csv", ".tsv", ".parquet", ".npz")


def data_files(path: Path) -> list[Path]:
    """The file itself, or those of its folder whose name is like a pattern (`*.csv`), sorted.

    Raises
    ------
    Unreadable : none is there, they are of several kinds, or of no known one.
    """
    if path.exists() or not is_pattern(path.name):
        found = [path]
    else:
        found = sorted(each for each in path.parent.glob(path.name) if each.is_file())
    if not found:
        raise Unreadable(Problem(str(path), "there is no file of such a name", "Check `data` in party.toml"))
    kinds = {each.suffix.lower() for each in found}
    if not kinds <= set(SUFFIXES):
        what = "is of no format that is known by its name"
        raise Unreadable(Problem(str(path), what, f"Use {', '.join(SUFFIXES)}"))
    if ".npz" in kinds and len(found) > 1:
        raise Unreadable(
            Problem(str(path), f"are {len(found)} files, and an .npz stands alone", "Use .csv or .parquet")
        )
    return found


def there(path: Path) -> bool:
    """Whether there is a file of this name, or one that is like the pattern."""
    return path.exists() or (is_pattern(path.name) and any(path.parent.glob(path.name)))


def digest_of(path: Path) -> str:
    """SHA-256, hex, of the file, or of the digests of several; empty where one cannot be read."""
    try:
        digests = []
        for each in data_files(path):
            with open(each, "rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    except (OSError, Unreadable):
        return ""  # loading it says what is wrong
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


class FileColumns(NamedTuple):
    """What a reader found: the wanted columns, None where one cannot be read, what is wrong with the file's form,
    whose the rows are, "" where that is missing, if a column for it was asked for and is there, and where they stand.
    """

    columns: list[Column | None]
    problems: list[Problem]
    patients: list[str] | None
    lines: Lines

    def __repr__(self) -> str:
        return "FileColumns(<private>)"


HINTS = in_file("csv")


def names_of(paths: Sequence[Path], rule: CsvRule) -> tuple[str, ...]:
    """Names of the columns of the first file. Raises Unreadable, OSError."""
    return _opened(paths[0], rule).names


def read_tables(
    paths: Sequence[Path], features: Sequence[Wanted], label: Wanted | None, rule: CsvRule, patient: str | None
) -> FileColumns:
    """The columns that are wanted, the label last if there is one, and the texts of column `patient`.

    Raises
    ------
    Unreadable : a file is no table. OSError
    """
    parts = [_read_one(path, features, label, rule, patient) for path in paths]
    if len(parts) == 1:
        return parts[0]
    columns: list[Column | None] = []
    for of_column in zip(*(part.columns for part in parts), strict=True):
        there = [column for column in of_column if column is not None]
        columns.append(Column.joined(there) if len(there) == len(parts) else None)
    whose = [part.patients for part in parts if part.patients is not None]
    return FileColumns(
        columns,
        [
            Problem(f"{path.name}, {problem.where}", problem.what, problem.action, problem.rule)
            for path, part in zip(paths, parts, strict=True)
            for problem in part.problems
        ],
        [name for names in whose for name in names] if len(whose) == len(parts) else None,
        Lines.joined([part.lines for part in parts]),
    )


def _opened(path: Path, rule: CsvRule) -> TableFile:
    try:
        return open_table(path, rule, HINTS)
    except BadTable as error:
        raise _unreadable(error) from None


def _unreadable(error: BadTable) -> Unreadable:
    return Unreadable(Problem(str(error.path), error.fault, error.action))


def _read_one(
    path: Path, features: Sequence[Wanted], label: Wanted | None, rule: CsvRule, patient: str | None
) -> FileColumns:
    import polars as pl

    file = _opened(path, rule)
    whose = None if patient is None else patient_of(patient.strip())
    asked = [(wanted, "[columns]") for wanted in features]
    asked += [(wanted, table) for wanted, table in ((label, "[label]"), (whose, "[patient]")) if wanted is not None]
    problems, found = [], {}
    for index, (wanted, table) in enumerate(asked):
        if file.names.count(wanted.column) != 1:
            problems.append(absent_or_double(wanted, file.names, table))
        elif fault := file.why_unreadable(file.names.index(wanted.column)):
            problems.append(Problem(wanted.where, fault, "Write it as numbers: one value in each row"))
        else:
            found[index] = file.names.index(wanted.column)
    parts: dict[int, list[Column]] = {index: [] for index in found}
    patients: list[str] = []
    order = list(found)

    def take(place: int, cells: pl.Series) -> None:
        wanted = asked[order[place]][0]
        if wanted is whose:
            patients.extend(cells.cast(pl.String).fill_null("").str.strip_chars().to_list())
        else:
            parts[order[place]].append(read_cells(cells, wanted, file.decimal_comma))

    try:
        lines = file.read(list(found.values()), take)
    except TornRows as error:
        problems.append(Problem(str(path), error.fault, error.action))
        lines = error.lines
    except BadTable as error:
        raise _unreadable(error) from None
    columns: list[Column | None] = []
    for index in range(len(asked) - (whose is not None)):
        part = parts.pop(index, [])
        columns.append(Column.joined(part) if part else None)
        part.clear()  # half of the memory, where files are large
    known = whose is not None and len(asked) - 1 in found
    return FileColumns(columns, problems, patients if known else None, lines)


FORM = "An .npz needs x (n, features), y (n,), and features and classes as text; save it without objects"


def read_npz(path: Path, features: Sequence[Wanted], label: Wanted, patient: str | None) -> FileColumns:
    """The columns that are wanted, the label last, and the texts of array `patient`.

    Raises
    ------
    Unreadable : no .npz, or its parts are not what they must be.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            x, y = file["x"], file["y"]
            names = [str(name) for name in file["features"]]
            classes = [str(name) for name in file["classes"]]
            ids = file[patient] if patient is not None and patient in file else None
    except (KeyError, ValueError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        # the text of the error may quote the file
        raise Unreadable(Problem(str(path), f"is not a readable .npz ({type(error).__name__})", FORM)) from None
    if x.ndim != 2 or y.shape != x.shape[:1] or x.shape[1] != len(names):
        what = f"x has shape {x.shape}, y {y.shape}, and there are {len(names)} features"
        raise Unreadable(Problem(str(path), what, FORM))
    if y.dtype.kind not in "iu":
        raise Unreadable(Problem(str(path), f"y is {y.dtype}, it must hold integers: indices into classes", FORM))
    if x.dtype.kind not in "fiu":
        raise Unreadable(Problem(str(path), f"x is {x.dtype}, it must hold numbers", FORM))
    problems: list[Problem] = []
    patients = None
    if patient is not None:
        if ids is None:
            problems.append(absent_or_double(patient_of(patient), [], "[patient]"))
        elif ids.shape != y.shape or ids.dtype.kind not in "iuU":
            what = f"is {ids.dtype} of shape {ids.shape}, it must hold an integer or a text for each row"
            problems.append(Problem(patient_of(patient).where, what, FORM))
        else:
            patients = [str(value).strip() for value in ids.tolist()]
    columns: list[Column | None] = []
    count, place = Counter(names), {name: at for at, name in enumerate(names)}
    for column in features:
        once = count[column.column] == 1
        columns.append(from_numbers(x[:, place[column.column]], column) if once else None)
        if not once:
            problems.append(absent_or_double(column, names, "[columns]"))
    lines = Lines(((path.name, "row", np.arange(1, len(y) + 1)),))
    outside = int(np.count_nonzero((y < 0) | (y >= len(classes))))
    if outside:
        what = f"{outside} of {len(y)} rows have an index outside the file's {len(classes)} classes"
        return FileColumns([*columns, None], [*problems, Problem(label.where, what, FORM)], patients, lines)
    codes = label.codes or {}
    states = [
        ValueState.MISSING if name in label.missing else ValueState.GOOD if name in codes else ValueState.UNKNOWN_CODE
        for name in classes
    ]
    values = [codes.get(name, np.nan) for name in classes]
    answers = Column(np.array(values, dtype=np.float64)[y], np.array(states, dtype=np.uint8)[y])
    return FileColumns([*columns, answers], problems, patients, lines)


ROWS_AT_ONCE = 1024
"""Rows that are copied at once: all of a large file would be in memory twice."""


def of_patients(ids: Sequence[str]) -> np.ndarray:
    """uint8 (rows, 32), equal where the texts are."""
    return _joined([hashlib.sha256(b"patient\0" + text.encode()).digest() for text in ids])


def of_rows(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """uint8 (rows, 32), equal where the numbers are: `x` float64 (rows, features), `y` float64 (rows,) of the label.

    A missing value (NaN, whatever its bits) is equal to a missing value, and -0 to 0.
    """
    digests = []
    for start in range(0, len(y), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        values = np.column_stack((x[block], y[block])).astype("<f8") + 0.0
        values[np.isnan(values)] = np.nan
        digests += [hashlib.sha256(b"row\0" + row.tobytes()).digest() for row in values]
    return _joined(digests)


def _joined(digests: Sequence[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, hashlib.sha256().digest_size)


remarks = logging.getLogger("consilium.party.remarks")
"""What is odd about a party's rows, for whoever looks after them: nobody in a simulation, which switches it off."""

FURTHEST = 1e9
"""Standardised values beyond it are moved there: their squares are still numbers, and an estimator that fails on larger
ones would tell whoever chose the scale how large they are."""


@dataclass(frozen=True)
class Rows:
    """Private rows: `x` float64 (n, features) standardised, `y` int64 (n,) indices into the federation's classes.

    identities: uint8 (n, 32), whose each row is, see `of_rows`.
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
        problems += faults.mapping(fields, label, set(named.values()) - set(index), rules)
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
    return takes_columns(schema, rules, names_of(paths, rules.csv) if not rules.columns else ())


def _read(paths: Sequence[Path], features: Sequence[Wanted], label: Wanted, rules: DataRules) -> FileColumns:
    if paths[0].suffix.lower() == ".npz":
        return read_npz(paths[0], features, label, rules.patient.column)
    return read_tables(paths, features, label, rules.csv, rules.patient.column)


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
        problems += faults.faults(wanted, column, lines)
        allowed = ranges.get(wanted.name)
        outside = [] if allowed is None else faults.outside(wanted, column, lines, allowed)
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
                problems.append(faults.missing(wanted, column, lines, 'missing = "drop-row" or "mean"'))
    if answers is not None:
        problems += faults.label_faults(label, answers, lines)
        absent = answers.states == ValueState.MISSING
        if rules.label.missing == "drop-row":
            keep &= ~absent
        elif absent.any():
            problems.append(faults.missing(label, answers, lines, 'missing = "drop-row" in [label]'))
    nobody = np.isin(table.patients or [], ["", *rules.missing.codes])
    if nobody.any():
        problems.append(faults.no_patient(rules.patient.column or "", np.flatnonzero(nobody), lines))
    if problems or answers is None:
        return None, DataReport((*problems, *doubts), remarks=tuple(remarks), rows=total)
    if not keep.all():
        x, raw = x[keep], None if raw is x else raw[keep]
    elif raw is x:
        raw = None
    y = answers.values[keep].astype(np.int64)
    if not len(y):
        problems.append(faults.no_rows(total))
    elif not rules.allow_one_class and (y == y[0]).all():
        doubts.append(faults.one_class(label, len(schema.classes)))
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
        whose = of_rows(x if raw is None else raw, y)
    else:
        whose = of_patients([table.patients[index] for index in np.flatnonzero(keep)])
    _standardise(x, schema, rules.keep_missing)
    return Rows(x, y, whose), report


def _remarks(item: RawField, column: Column, lines: Lines, schema: Schema) -> list[Problem]:
    wanted = item.wanted
    if wanted.known:
        return [*faults.unknown_names(wanted), *faults.unknown_category(wanted, column, lines)]
    if schema.columns and wanted.name not in {column.column for column in schema.columns if column.kind == "number"}:
        return []  # a value that is encoded already has no unit
    place = schema.features.index(wanted.name)
    return faults.another_unit(wanted, column, schema.center[place], schema.scale[place])


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
