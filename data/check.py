"""All that stops a table of many owners from being read, at once, and which keys of the reader would mend it.

Besides what is read and gives a wrong result in silence: owners and labels written in two ways, copies, patients at two
owners. It reads every row and quotes cells: what it says is for whoever may see them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from consilium.data.cells import codes_among, in_order, written
from consilium.data.files import Lines
from consilium.data.remedy import SHOWN, Grade, Remedy, TableCheck, TableFinding
from consilium.data.repeats import at_two_owners, copies, spelled_twice
from consilium.protocol.schema import MOST_VALUES

if TYPE_CHECKING:
    import polars as pl

MISSING = frozenset(("na", "n/a", "n.a.", "nan", "null", "?", "-", "--", ".", "<na>", "#n/a", "#nv"))
"""Texts that mean "missing" in any column; beside numbers every text may."""
MANY = 10
"""Different numbers from which on a column is a measurement, as for `encoding.infer`."""
MOSTLY, SURELY = 0.5, 0.9
"""Shares of numbers, or of dates, from which on a column is one of them; where it has fewer different ones, surely."""
NEARLY_EMPTY = 0.95
"""Share of rows without a value, from which on public rows may well have none."""
MOST_CODES = 100
"""Texts of one column that are written out as keys."""
_DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ].*)?|\d{1,2}([./-])\d{1,2}\2(\d{4}|\d{2})( .*)?")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?")
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}([,.' ’\u00a0\u202f])\d{3}(\1\d{3})*([.,]\d+)?")
_INSIDE = re.compile(r"(?:[<>≤≥~]=?|=<|=>|[^\w\s+-])?\s*([+-]?\d+(?:[.,]\d+)?)\s*([^\d\s]\D{0,9})?")
"""A number in a bound or beside a unit: "> 89", "12 mg", "€ 5", "90+"."""


@dataclass(frozen=True)
class Roles:
    """Names of the columns that are no features; empty where there is none. drop: columns that are left out."""

    label: str = ""
    owner: str = ""
    patient: str = ""
    time: str = ""
    drop: tuple[str, ...] = ()

    @property
    def named(self) -> dict[str, str]:
        """By what they are."""
        roles = {"label": self.label, "owner": self.owner, "patient": self.patient, "time": self.time}
        return {role: name for role, name in roles.items() if name}


def check_table(frame: pl.DataFrame, lines: Lines, roles: Roles) -> TableCheck:
    """Look at all rows of a table once. frame: raw values, null where one is empty."""
    return _Checked(frame, lines, roles).all()


class _Cells:
    """A column: texts as they are written, null where empty; numbers float64 (rows,), NaN where it is none; odd: of
    each text that is none its kind, the number in it, and its unit."""

    def __init__(self, series: pl.Series) -> None:
        import polars as pl

        self.name, self.texts = series.name, written(series)
        numbers = self.texts.cast(pl.Float64, strict=False).fill_null(math.nan).to_numpy(writable=True)
        numbers[~np.isfinite(numbers)] = np.nan
        self.numbers = numbers
        self.declared = isinstance(series.dtype, pl.Categorical | pl.Enum)
        self.counts: dict[str, int] = dict(Counter(self.texts.drop_nulls().to_list()))
        strange = self.texts.filter(pl.Series(np.isnan(numbers))).drop_nulls().unique(maintain_order=True)
        self.odd = {text: _odd(text) for text in strange}

    def of(self, *kinds: str) -> list[str]:
        return [text for text, (kind, _, _) in self.odd.items() if kind in kinds]

    def rows(self, texts: Iterable[str]) -> np.ndarray:
        return np.flatnonzero(self.texts.is_in(list(texts)).fill_null(False).to_numpy())

    def total(self, texts: Iterable[str]) -> int:
        return sum(self.counts[text] for text in texts)

    def empty(self) -> np.ndarray:
        """Rows without a value, or with a text that means it."""
        return np.flatnonzero((self.texts.is_null() | self.texts.is_in(self.of("missing"))).fill_null(True).to_numpy())


def _odd(text: str) -> tuple[str, float, str]:
    if text.casefold() in MISSING:
        return "missing", math.nan, ""
    if _DATE.fullmatch(text):
        return "date", math.nan, ""
    if _THOUSANDS.fullmatch(text):
        return "thousands", math.nan, ""
    if _COMMA.fullmatch(text):
        return "comma", float(text.replace(",", ".")), ""
    if match := _INSIDE.fullmatch(text):
        return "inside", float(match[1].replace(",", ".")), (match[2] or "").strip().casefold()
    return "text", math.nan, ""


class _Checked:
    def __init__(self, frame: pl.DataFrame, lines: Lines, roles: Roles) -> None:
        self.frame, self.lines, self.roles = frame, lines, roles
        self.findings: list[TableFinding] = []
        self.remedy = Remedy()
        self.numbers: list[str] = []
        self.kinds: list[str] = []

    def note(
        self, code: str, grade: Grade, column: str, fault: str, action: str,
        rows: Sequence[int] | np.ndarray = (), values: Iterable[str] = (), count: int | None = None,
    ) -> None:  # fmt: skip
        places = tuple(self.lines.place(int(row)) for row in rows[:SHOWN])
        shown = tuple(str(value)[:40] for value in list(values)[:SHOWN])
        number = len(rows) if count is None else count
        self.findings.append(TableFinding(code, grade, column, fault, action, number, places, shown))

    def in_file(self, name: str, what: str) -> None:
        """Leave a column out that only its file can mend."""
        self.remedy.drop.append(name)
        self.remedy.in_file.append(f"{what} column {name!r}, which is left out until then")

    def all(self) -> TableCheck:
        named, frame = self.roles.named, self.frame
        features = [name for name in frame.columns if name not in {*named.values(), *self.roles.drop}]
        columns = {name: _Cells(frame[name]) for name in frame.columns if name not in self.roles.drop}
        owners = self._owners(columns[named["owner"]]) if named.get("owner") in columns else None
        if named.get("label") in columns:
            self._label(columns[named["label"]])
        for name in features:
            self._feature(columns[name])
        if named.get("time") in columns:
            self._time(columns[named["time"]])
        if named.get("patient") in columns:
            self._patient(columns[named["patient"]], owners)
        self._twice(columns, owners)
        order, grades = {name: place for place, name in enumerate(["", *frame.columns])}, list(Grade)
        self.findings.sort(key=lambda finding: (grades.index(finding.grade), order.get(finding.column, 0)))
        remedy, noted = self.remedy, {finding.column for finding in self.findings}
        remedy.drop = [name for name in dict.fromkeys(remedy.drop) if name in features]
        remedy.missing = list(dict.fromkeys(remedy.missing))
        remedy.cells = {name: rule for name, rule in remedy.cells.items() if rule and name not in remedy.drop}
        for rule in remedy.cells.values():
            if "missing_codes" in rule:  # they stand in place of those of all columns
                rule["missing_codes"] = list(dict.fromkeys([*remedy.missing, *rule["missing_codes"]]))
        plain = tuple(name for name in features if name not in noted)
        return TableCheck(frame.height, tuple(self.findings), remedy, plain, owners)

    def _cells(self, name: str) -> dict[str, Any]:
        return self.remedy.cells.setdefault(name, {})

    # One column.

    def _feature(self, cells: _Cells) -> None:
        name, rows = cells.name, self.frame.height
        real = rows - len(cells.empty())
        if not real:
            self.note("empty", Grade.MEND, name, "no row has a value", "Leave it out, or declare its values")
            self.remedy.drop.append(name)
            return
        if (rows - real) / rows >= NEARLY_EMPTY:
            fault, action = f"only {real} of {rows} rows have a value", "Leave it out: public rows may well have none"
            self.note("nearly-empty", Grade.LOOK, name, fault, action, count=real)
            self.remedy.drop.append(name)
        dates, codes = cells.of("date"), codes_among(cells.texts)
        if cells.total(dates) >= MOSTLY * real and not cells.declared:
            self.note("dates", Grade.MEND, name, "dates", _NO_DATES, cells.rows(dates), dates)
            self.remedy.drop.append(name)
        elif codes and not cells.declared and not cells.of("text"):
            self._codes(cells, codes)
        elif not cells.declared and self._is_number(cells, real):
            self._number(cells)
        else:
            self._category(cells)

    def _codes(self, cells: _Cells, codes: list[str]) -> None:
        """Numbers that are names by their form, see `codes_among`."""
        many = len(cells.counts) > MOST_VALUES or (len(cells.counts) >= MANY and all("." in text for text in codes))
        fault = "numbers that are read as names: some have zeros before them, or are written in two ways"
        action = 'Nothing, where they are codes; of a measurement, declare columns the "number"'
        grade = Grade.MEND if many else Grade.LOOK
        self.note("codes", grade, cells.name, fault, action, cells.rows(codes), codes)
        if many:
            self.remedy.columns[cells.name] = "number"
        self.kinds.append(cells.name)

    def _is_number(self, cells: _Cells, real: int) -> bool:
        """Whether it is meant as one: most cells are numbers, or have one in them."""
        inside, plain = cells.of("comma", "thousands", "inside"), int(np.count_nonzero(~np.isnan(cells.numbers)))
        if not plain and cells.of("inside") == inside and len(inside) < MANY:
            return False  # "10 mg", "20 mg": names of kinds
        different = len(np.unique(cells.numbers[~np.isnan(cells.numbers)])) + len(inside)
        return plain + cells.total(inside) >= (MOSTLY if different >= MANY else SURELY) * real

    def _number(self, cells: _Cells) -> None:
        name, values = cells.name, cells.numbers.copy()
        different = len(np.unique(values[~np.isnan(values)]))
        grade = Grade.MEND if different >= MANY or not different else Grade.LOOK
        commas, inside, marked = cells.of("comma"), cells.of("inside"), cells.of("thousands")
        if commas and all(re.fullmatch(_COMMA, text) for text in marked):
            commas, marked = [*commas, *marked], []  # "1,234" beside "0,5"
        if commas:
            action = "Export with a decimal point, or set decimal_comma under its cells"
            self.note("decimal-comma", grade, name, "numbers with a decimal comma", action, cells.rows(commas), commas)
            self._cells(name)["decimal_comma"] = True
        if marked:
            fault = "numbers with a mark between thousands, or a decimal comma before three digits"
            self.note("thousands", Grade.FILE, name, fault, "Write them without it", cells.rows(marked), marked)
            self.in_file(name, "write without marks of thousands")
        if inside:
            units = sorted({unit for text in inside if (unit := cells.odd[text][2])})
            fault = "a unit or a bound beside the number" + (f": {', '.join(units)}" if len(units) > 1 else "")
            action = "Write the number alone, or say under codes of its cells which number each means"
            one = len(units) < 2 and len(inside) <= MOST_CODES
            code = "number-in-text"
            self.note(code, grade if one else Grade.FILE, name, fault, action, cells.rows(inside), inside)
            if one:
                self._cells(name).update(codes={text: cells.odd[text][1] for text in inside}, other="number")
            else:
                self.in_file(name, "write in one unit")
        absent, texts = cells.of("missing"), cells.of("text", "date")
        self.remedy.missing += absent
        if written_out := [*absent, *texts]:
            action = "Correct them, or name them as missing" + (
                ", or declare the column a category" if len(cells.counts) <= MOST_VALUES else ""
            )
            fault, rows = "text in a column of numbers", cells.rows(written_out)
            self.note("text-in-numbers", grade, name, fault, action, rows, written_out)
        if len(texts) > MOST_CODES:
            self.in_file(name, "mend")
        elif texts:
            self._cells(name)["missing_codes"] = texts
        self.numbers.append(name)
        if len(rows := np.flatnonzero(np.abs(values) > np.finfo(np.float32).max)):
            self.note("too-large", Grade.FILE, name, "numbers beyond float32", "Correct them, or empty them", rows)

    def _category(self, cells: _Cells) -> None:
        name, absent = cells.name, cells.of("missing")
        values = [text for text in cells.counts if text not in absent]
        if absent:
            action = "Name them under missing, or leave the cells empty"
            self.note(
                "missing-codes", Grade.LOOK, name, "texts for a missing value", action, cells.rows(absent), absent
            )
            self.remedy.missing += absent
        if len(values) > MOST_VALUES:
            fault = f"{len(values)} different texts in {cells.total(values)} rows: an identifier, or free text"
            action = "Leave it out, or group them; if it says whose a row is, name it as the patient"
            self.note("identifier", Grade.MEND, name, fault, action, values=values)
            self.remedy.drop.append(name)
        else:
            self.kinds.append(name)

    # Columns that are no features.

    def _label(self, cells: _Cells) -> None:
        name, absent = cells.name, cells.of("missing")
        self.remedy.missing += absent
        if len(empty := cells.empty()):
            action = 'Complete them, or set unlabelled = "drop"'
            self.note("label-missing", Grade.MEND, name, "rows have no label", action, empty, absent)
            self.remedy.unlabelled = True
        values = [text for text in cells.counts if text not in absent]
        broken = [text for text in values if text not in cells.odd and float(text) % 1]
        if broken or len(values) > MOST_VALUES:
            fault = f"{len(values)} different labels{', with fractions' if broken else ''}: no classes"
            action = "Choose another label, or write classes into it (above or below a limit)"
            self.note("label-no-classes", Grade.FILE, name, fault, action, cells.rows(broken), broken or values)
            self.remedy.in_file.append(f"write classes into {name!r}")
            return
        merged = self._spelled("label", cells, values)
        classes = sorted({merged.get(text, text) for text in values}, key=in_order)
        self.remedy.classes = tuple(classes)
        if len(classes) < 2:
            fault, action = "all rows have one label", "Choose another label"
            self.note("label-one-class", Grade.FILE, name, fault, action, values=values)
        elif len(classes) > 2:
            action = "If two are meant, say under values of cells which are one"
            self.note(
                "label-many-classes", Grade.LOOK, name, f"{len(classes)} classes", action, values=classes, count=0
            )

    def _owners(self, cells: _Cells) -> pl.Series:
        """The owners as the remedy reads them."""
        name, absent = cells.name, cells.of("missing")
        self._nobody("owner", cells)
        values = [text for text in cells.counts if text not in absent]
        merged = self._spelled("owner", cells, values)
        if len(left := sorted({merged.get(text, text) for text in values})) < 3:
            fault = f"{len(left)} owners, and three at least are needed: two that vote, and one that is public"
            self.note("few-owners", Grade.FILE, name, fault, "Is it the right column?", values=left)
        return cells.texts.replace(dict.fromkeys(absent) | merged)

    def _nobody(self, role: str, cells: _Cells) -> None:
        if len(empty := cells.empty()):
            action = "Complete them, or leave these rows out of the file: nobody knows whose they are"
            self.note(f"{role}-missing", Grade.FILE, cells.name, f"rows have no {role}", action, empty)
            self.remedy.in_file.append(f"leave out the rows without {cells.name!r}")

    def _spelled(self, role: str, cells: _Cells, values: list[str]) -> dict[str, str]:
        """Text -> the more frequent one that it equals but for case, blanks, invisible signs and zeros before numbers.
        Notes them: an owner in two ways is two parties, and its patients count twice."""
        merged = spelled_twice(sorted(values, key=lambda text: -cells.counts[text]))
        if merged:
            groups = "; ".join(f"{text!r} and {first!r}" for text, first in list(merged.items())[:SHOWN])
            fault = f"{role}s differ in case, blanks, invisible signs or zeros alone: {groups}"
            action = "Write each in one way, or say so under values of cells"
            self.note("spelled-twice", Grade.MEND, cells.name, fault, action, cells.rows(merged))
            self._cells(cells.name)["values"] = merged
        return merged

    def _time(self, cells: _Cells) -> None:
        if wrong := [text for text in cells.odd if not _ISO.fullmatch(text) and text not in cells.of("missing")]:
            fault, action = "times that are no ISO dates", "Export times as ISO dates (2024-12-31) or as numbers"
            self.note("time-form", Grade.FILE, cells.name, fault, action, cells.rows(wrong), wrong)
            self.remedy.in_file.append(f"write ISO dates into {cells.name!r}")

    def _patient(self, cells: _Cells, owners: pl.Series | None) -> None:
        import polars as pl

        self._nobody("patient", cells)
        if owners is None:
            return
        pairs = pl.DataFrame({"patient": cells.texts, "owner": owners}).drop_nulls()
        places = pairs.group_by("patient").agg(pl.col("owner").n_unique())
        shared = places.filter(pl.col("owner") > 1)["patient"].sort()
        if len(shared):
            fault = f"{len(shared)} patients have rows at two owners or more"
            action = "The guarantee covers each part by itself. Where numbers only coincide, put the owner before them"
            rows = cells.rows(shared)
            self.note("patient-twice", Grade.LOOK, cells.name, fault, action, rows, shared.to_list(), len(shared))

    # Rows beside each other.

    def _twice(self, columns: dict[str, _Cells], owners: pl.Series | None) -> None:
        label = [self.roles.label] if self.roles.label else []
        alike = [columns[name].texts for name in [*self.numbers, *self.kinds, *label]]
        if owners is not None and len(rows := at_two_owners(alike, owners)):
            fault = "rows stand at a second owner too, value for value"
            action = "Remove the copies: the guarantee covers one copy of a patient. Or name the patients"
            self.note("rows-twice", Grade.LOOK, "", fault, action, rows)
        if len(rows := copies({name: cells.texts for name, cells in columns.items()}, self.roles.owner)):
            unless = "" if self.roles.patient else ", unless two people are alike in all of it"
            fault = "rows are exact copies of another row: the same in every column"
            action = f'Remove them or set duplicates = "drop"{unless}: a copy counts its patient twice'
            self.remedy.duplicates = bool(self.roles.patient)
            self.note("rows-copied", Grade.MEND if self.roles.patient else Grade.LOOK, "", fault, action, rows)


_NO_DATES = "Leave it out, or give the days since an event; where it orders the rows, name it as the time"
