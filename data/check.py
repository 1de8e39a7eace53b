"""All that stops a table of many owners from being read, at once, and which keys of the reader would mend it.

Besides what is read and gives a wrong result in silence: owners written in two ways, copies, patients at two owners. It
reads every row and quotes cells: what it says is for whoever may see them.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from consilium.data.cells import texts_of
from consilium.data.files import Lines
from consilium.data.loose import SHOWN, Grade, TableFinding
from consilium.data.odd_cells import DATES, LEAST_NUMBERS, MISSING, MOST_UNITS, NUMERIC, CellColumn, OddCell, number_in
from consilium.data.remedy import Remedy, TableCheck
from consilium.data.repeats import at_two_owners, copies
from consilium.protocol.schema import MOST_VALUES

if TYPE_CHECKING:
    import polars as pl

NEARLY_EMPTY = 0.95
"""Share of rows without a value, from which on public rows may well have none."""
MOSTLY = 0.5
"""Share of numbers, or of dates, from which on a column is one of them."""
SURELY = 0.9
"""The same where a column has few different numbers, which may be names of kinds."""
MOST_CODES = 100
"""Texts of one column that are written out as keys."""
LEAST_ROWS = 10
"""Of an owner: with fewer, a teacher learns little, and `Council` gives it no second one."""
MOST_TEACHERS = 25
"""Of one owner, by `Council`."""


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


def plain_name(text: str) -> str:
    """What is left of an owner's name without case, blanks, invisible signs, and zeros before a number; a blank between
    digits stays.

    >>> plain_name("Ward  07\u200b"), plain_name("ward7"), plain_name("1 05"), plain_name("0.05")
    ('ward7', 'ward7', '1 5', '0.05')
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    text = "".join(sign for sign in text if unicodedata.category(sign) not in ("Cf", "Cc"))
    text = re.sub(r"(?<!\d)\s+|\s+(?!\d)", "", text)
    return re.sub(r"(?<![\d.,])0+(?=\d)", "", text)


class _Checked:
    def __init__(self, frame: pl.DataFrame, lines: Lines, roles: Roles) -> None:
        self.frame, self.lines, self.roles = frame, lines, roles
        self.rows = frame.height
        self.findings: list[TableFinding] = []
        self.remedy = Remedy()
        self.numbers: set[str] = set()
        self.categories: set[str] = set()
        self.commas: set[str] = set()

    def note(
        self, code: str, grade: Grade, column: str, fault: str, action: str,
        rows: Sequence[int] | np.ndarray = (), values: Iterable[str] = (), count: int | None = None,
    ) -> None:  # fmt: skip
        places = tuple(self.lines.place(int(row)) for row in rows[:SHOWN])
        shown = tuple(str(value)[:40] for value in list(values)[:SHOWN])
        number = len(rows) if count is None else count
        self.findings.append(TableFinding(code, grade, column, fault, action, number, places, shown))

    def all(self) -> TableCheck:
        features = [name for name in self.frame.columns if name not in {*self.roles.named.values(), *self.roles.drop}]
        columns = {name: CellColumn(self.frame[name]) for name in self.frame.columns if name not in self.roles.drop}
        owners = self._owners(columns[self.roles.owner]) if self.roles.owner in columns else None
        if self.roles.label in columns:
            self._label(columns[self.roles.label])
        for name in features:
            self._feature(columns[name])
        self._decimal_commas(columns)
        for role in ("patient", "time"):
            if (name := self.roles.named.get(role)) in columns:
                self._beside(role, columns[name], owners)
        if owners is not None:
            self._sizes(owners)
            self._twice(features, owners)
        self._copies(columns)
        order = {name: place for place, name in enumerate(["", *self.frame.columns])}
        grades = list(Grade)
        self.findings.sort(key=lambda finding: (grades.index(finding.grade), order.get(finding.column, 0)))
        noted = {finding.column for finding in self.findings}
        self.remedy.drop = [name for name in dict.fromkeys(self.remedy.drop) if name in features]
        self.remedy.missing = list(dict.fromkeys(self.remedy.missing))
        self._whole_codes()
        plain = tuple(name for name in features if name not in noted)
        return TableCheck(self.rows, tuple(self.findings), self.remedy, plain, owners)

    def _whole_codes(self) -> None:
        """Missing texts of a column stand in place of those of all columns, so these are repeated there."""
        for name, rule in list(self.remedy.cells.items()):
            if name in self.remedy.drop or not any(rule.values()):
                del self.remedy.cells[name]
            elif "missing_codes" in rule:
                rule["missing_codes"] = list(dict.fromkeys([*self.remedy.missing, *rule["missing_codes"]]))

    def _cells(self, name: str) -> dict[str, Any]:
        return self.remedy.cells.setdefault(name, {})

    # One column.

    def _feature(self, cells: CellColumn) -> None:
        name, known = cells.name, sum(cells.counts.values())
        absent = cells.of("missing")
        real = known - cells.total(absent)
        if not real:
            self.note("empty", Grade.MEND, name, "no row has a value", "Leave it out, or declare its values")
            self.remedy.drop.append(name)
            return
        if (self.rows - real) / self.rows >= NEARLY_EMPTY:
            share = f"only {real} of {self.rows} rows have a value"
            self.note(
                "nearly-empty", Grade.LOOK, name, share, "Leave it out: public rows may well have none", count=real
            )
            self.remedy.drop.append(name)
        dates = cells.of("date")
        if cells.total(dates) >= MOSTLY * real:
            self._dates(cells, dates)
        elif self._is_number(cells, real):
            self._number(cells, real)
        else:
            self._category(cells, absent)

    def _dates(self, cells: CellColumn, dates: list[str]) -> None:
        forms = sorted({cells.odd[text].form for text in dates})
        mixed = f", written in {len(forms)} ways" if len(forms) > 1 else ""
        advice = "" if self.roles.time else "; where it orders the rows, name it as the time"
        action = f"Leave it out, or give the days since an event{advice}"
        self.note(
            "dates", Grade.MEND, cells.name, f"dates{mixed}", action, cells.rows(dates), forms if mixed else dates
        )
        self.remedy.drop.append(cells.name)

    def _is_number(self, cells: CellColumn, real: int) -> bool:
        """Whether it is meant as one: most cells are numbers, or have one in them."""
        forms = {cells.odd[text].form for text in cells.of("unit")}
        kinds = ["comma", "thousands", "either", "bound", "infinite", *(["unit"] if len(forms) <= MOST_UNITS else [])]
        written = cells.of(*kinds)
        plain = int(np.count_nonzero(~np.isnan(cells.numbers)))
        numeric = plain + cells.total(written)
        if not plain and cells.of("unit", "bound") == written and len(written) < LEAST_NUMBERS:
            return False  # "10 mg", "20 mg": names of kinds
        known = real - cells.total(cells.of("none"))
        different = len(np.unique(cells.numbers[~np.isnan(cells.numbers)])) + len(written)
        return known > 0 and numeric >= (MOSTLY if different >= LEAST_NUMBERS else SURELY) * known

    def _number(self, cells: CellColumn, real: int) -> None:
        name = cells.name
        values = cells.numbers.copy()
        different = len(np.unique(values[~np.isnan(values)]))
        many = different >= LEAST_NUMBERS
        grade = Grade.MEND if many or not different else Grade.LOOK
        self._settle_commas(cells, values)
        codes: dict[str, float] = {}
        for kind, (code, fault, action) in NUMERIC.items():
            texts = cells.of(kind)
            if not texts:
                continue
            forms = sorted({cells.odd[text].form for text in texts})
            more = f" ({', '.join(forms)}: not all the same)" if kind == "unit" and len(forms) > 1 else ""
            self.note(code, grade, name, fault + more, action, cells.rows(texts), texts)
            if kind == "unit" and len(forms) > 1:
                self.remedy.drop.append(name)
                self.remedy.in_file.append(f"write column {name!r}, which is left out until then, in one unit")
                self._for_the_file(name)
            if kind == "comma":
                self.commas.add(name)
            if kind == "comma" and not any("," in text for text in cells.of("thousands")):
                self._cells(name)["decimal_comma"] = True
                for text in texts:
                    values[cells.rows([text])] = cells.odd[text].number
                continue
            codes |= {text: cells.odd[text].number for text in texts}
        texts = cells.of("text", "date", "infinite")
        absent = cells.of("missing", "none")
        if texts:
            few = len(cells.counts) - len(cells.of("missing")) <= MOST_VALUES
            action = "Correct them, or name them as missing" + (", or declare the column a category" if few else "")
            self.note("text-in-numbers", grade, name, "text in a column of numbers", action, cells.rows(texts), texts)
        if absent:
            grade = Grade.MEND if many else Grade.LOOK
            self._missing(cells, absent, grade)
        written = [*absent, *texts]
        if codes:
            for text, number in codes.items():
                values[cells.rows([text])] = number
            self._cells(name).update(codes=codes, other="number")
        strong = [text for text in written if text in absent and text.casefold() in MISSING]
        self.remedy.missing += strong
        if len(codes) + len(written) - len(strong) > MOST_CODES:
            self.remedy.drop.append(name)
            self.remedy.in_file.append(f"mend column {name!r}, which is left out until then")
            self._for_the_file(name)
        elif len(written) > len(strong):
            self._cells(name)["missing_codes"] = [text for text in written if text not in strong]
        self.numbers.add(name)
        if len(rows := np.flatnonzero(np.abs(values) > np.finfo(np.float32).max)):
            self.note("too-large", Grade.FILE, name, "numbers beyond float32", "Correct them, or empty them", rows)

    def _for_the_file(self, name: str) -> None:
        """What was noted of the column is no key's to mend."""
        self.findings = [
            replace(finding, grade=Grade.FILE) if (finding.column, finding.grade) == (name, Grade.MEND) else finding
            for finding in self.findings
        ]

    def _settle_commas(self, cells: CellColumn, values: np.ndarray) -> None:
        """Whether "1,234" is 1.234 or 1234: by the column's other cells with commas, else by what is nearer in size."""
        unclear = cells.of("either")
        if not unclear:
            return
        thousands, commas = len(cells.of("thousands")), len(cells.of("comma"))
        as_thousands = thousands >= commas
        plain = np.abs(values[~np.isnan(values) & (values != 0)])
        if not thousands and not commas and len(plain):
            typical = float(np.median(np.log(plain)))
            size = float(np.median([math.log(max(abs(cells.odd[text].number), 1e-9)) for text in unclear]))
            as_thousands = abs(size - typical) <= abs(size - math.log(1000) - typical)
        for text in unclear:
            number = cells.odd[text].number
            cells.odd[text] = OddCell("thousands", number) if as_thousands else OddCell("comma", number_in(text))

    def _missing(self, cells: CellColumn, absent: list[str], grade: Grade) -> None:
        ways = f"{len(absent)} texts stand" if len(absent) > 1 else "a text stands"
        action = "Name them under missing, or leave the cells empty"
        self.note("missing-codes", grade, cells.name, f"{ways} for a missing value", action, cells.rows(absent), absent)

    def _category(self, cells: CellColumn, absent: list[str]) -> None:
        name = cells.name
        values = [text for text in cells.counts if text not in absent]
        if absent:
            self._missing(cells, absent, Grade.LOOK)
            self.remedy.missing += absent
        if len(values) > MOST_VALUES:
            known = cells.total(values)
            unique = len(values) >= 0.9 * known
            kind = (
                "another one in nearly each row: an identifier, or free text" if unique else "too many for a category"
            )
            action = "Leave it out" + (
                "; if it says whose a row is, name it as the patient" if unique else ", or group them"
            )
            fault = f"{len(values)} different texts, {kind}"
            self.note("identifier" if unique else "free-text", Grade.MEND, name, fault, action, values=values)
            self.remedy.drop.append(name)
            return
        self.categories.add(name)

    def _decimal_commas(self, columns: dict[str, CellColumn]) -> None:
        """One key for the file where no number in it has a point; else codes for each."""
        if not self.commas:
            return
        points = any(
            (cells.numbers[~np.isnan(cells.numbers)] % 1 != 0).any()
            for name, cells in columns.items()
            if name in self.numbers
        )
        others = any(cells.of("thousands") for cells in columns.values())
        if points or others or any(columns[name].numeric for name in self.numbers):
            return
        self.remedy.decimal_comma = True
        for name in self.commas:
            del self._cells(name)["decimal_comma"]

    # Columns that are no features.

    def _label(self, cells: CellColumn) -> None:
        name = cells.name
        absent = cells.of("missing")
        values = [text for text in cells.counts if text not in absent]
        self.remedy.missing += absent
        empty = np.flatnonzero(cells.texts.is_null().to_numpy() | cells.texts.is_in(absent).fill_null(False).to_numpy())
        if len(empty):
            action = 'Complete them, or set unlabelled = "drop"'
            self.note("label-missing", Grade.MEND, name, "rows have no label", action, empty, absent)
            self.remedy.unlabelled = True
        broken = [text for text in values if text not in cells.odd and float(text) % 1]
        if broken or len(values) > MOST_VALUES:
            fault = f"{len(values)} different labels" + (", with fractions" if broken else "") + ": no classes"
            action = "Choose another label, or write classes into it (above or below a limit)"
            self.note("label-no-classes", Grade.FILE, name, fault, action, cells.rows(broken), broken or values)
            self.remedy.in_file.append(f"write classes into {name!r}")
            return
        classes = sorted(values, key=_in_order)
        self.remedy.classes = tuple(classes)
        if len(classes) < 2:
            self.note(
                "label-one-class", Grade.FILE, name, "all rows have one label", "Choose another label", values=values
            )
        elif len(classes) > 2:
            action = "If two are meant, say under values of cells which are one"
            fault = f"{len(classes)} classes"
            self.note("label-many-classes", Grade.LOOK, name, fault, action, values=classes, count=0)

    def _owners(self, cells: CellColumn) -> pl.Series:
        """The owners as the remedy reads them."""
        name, absent = cells.name, cells.of("missing")
        empty = np.flatnonzero(cells.texts.is_null().to_numpy() | cells.texts.is_in(absent).fill_null(False).to_numpy())
        if len(empty):
            action = "Complete them, or leave these rows out of the file: nobody knows whose they are"
            self.note("owner-missing", Grade.FILE, name, "rows have no owner", action, empty)
            self.remedy.in_file.append(f"leave out the rows without {name!r}")
        values = [text for text in cells.counts if text not in absent]
        merged = self._one_owner(cells, values)
        left = sorted({merged.get(text, text) for text in values})
        if len(left) < 3:
            fault = f"{len(left)} owners, and three at least are needed: two that vote, and one that is public"
            self.note("few-owners", Grade.FILE, name, fault, "Is it the right column?", values=left)
        texts = cells.texts.replace(absent, [None] * len(absent)) if absent else cells.texts
        return texts.replace(list(merged), list(merged.values())) if merged else texts

    def _one_owner(self, cells: CellColumn, values: list[str]) -> dict[str, str]:
        """Text -> the more frequent one that it equals but for case, blanks, invisible signs and zeros before numbers.
        Notes them: an owner in two ways is two parties, and its patients count twice."""
        forms: defaultdict[str, list[str]] = defaultdict(list)
        for text in sorted(values, key=lambda text: -cells.counts[text]):
            forms[plain_name(text)].append(text)
        merged = {text: first for first, *others in forms.values() for text in others}
        if merged:
            groups = "; ".join(f"{text!r} and {first!r}" for text, first in list(merged.items())[:SHOWN])
            fault = f"owners differ in case, blanks, invisible signs or zeros alone: {groups}"
            action = "Write each in one way, or say so under values of cells"
            self.note("owner-spelling", Grade.MEND, cells.name, fault, action, cells.rows(merged))
            self._cells(cells.name)["values"] = merged
        return merged

    def _beside(self, role: str, cells: CellColumn, owners: pl.Series | None) -> None:
        name = cells.name
        if role == "time":
            wrong = [text for text, odd in cells.odd.items() if odd.form != DATES[0][0] and odd.kind != "missing"]
            if wrong:
                action = "Export times as ISO dates (2024-12-31) or as numbers"
                self.note(
                    "time-form", Grade.FILE, name, "times that are no ISO dates", action, cells.rows(wrong), wrong
                )
                self.remedy.in_file.append(f"write ISO dates into {name!r}")
            return
        empty = np.flatnonzero(cells.texts.is_null().to_numpy())
        if len(empty):
            self.note(
                "patient-missing",
                Grade.FILE,
                name,
                "rows have no patient",
                "Complete them, or leave the rows out",
                empty,
            )
            self.remedy.in_file.append(f"leave out the rows without {name!r}")
        if owners is None:
            return
        import polars as pl

        pairs = pl.DataFrame({"patient": cells.texts, "owner": owners}).drop_nulls()
        places = pairs.group_by("patient").agg(pl.col("owner").n_unique())
        shared = places.filter(pl.col("owner") > 1)["patient"]
        if len(shared):
            fault = f"{len(shared)} patients have rows at two owners or more"
            action = "The guarantee covers each part by itself. Where numbers only coincide, put the owner before them"
            self.note(
                "patient-twice",
                Grade.LOOK,
                name,
                fault,
                action,
                cells.rows(shared),
                shared.sort().to_list(),
                len(shared),
            )

    def _sizes(self, owners: pl.Series) -> None:
        counts = Counter(name for name in owners.to_list() if name)
        tiny = sorted(name for name, count in counts.items() if count < LEAST_ROWS)
        if tiny:
            fault = f"{len(tiny)} of {len(counts)} owners have fewer than {LEAST_ROWS} rows"
            least = min(max(int(np.median(list(counts.values()))) // LEAST_ROWS, 1), MOST_TEACHERS)
            action = (
                "An owner with fewer rows than teachers is left out. `Council` gives each about"
                f" {least} here, by public owners' rows, where the unit is a record or patient."
                f" least_rows = {LEAST_ROWS} leaves out all of these"
            )
            self.note("tiny-owners", Grade.LOOK, self.roles.owner, fault, action, values=tiny, count=len(tiny))

    # Rows beside each other.

    def _twice(self, features: list[str], owners: pl.Series) -> None:
        parts = [name for name in features if name in self.numbers or name in self.categories]
        columns = [texts_of(self.frame[name]) for name in [*parts, *([self.roles.label] if self.roles.label else [])]]
        if len(rows := at_two_owners(columns, owners)):
            fault = "rows stand at a second owner too, value for value"
            action = "Remove the copies: the guarantee covers one copy of a patient. Or name the patients"
            self.note("rows-twice", Grade.LOOK, "", fault, action, rows)

    def _copies(self, columns: Mapping[str, CellColumn]) -> None:
        texts = {name: column.texts for name, column in columns.items()}
        if len(rows := copies(texts, self.roles.owner)):
            unless = "" if self.roles.patient else ", unless two people are alike in all of it"
            fault = "rows are exact copies of another row: the same in every column"
            action = f'Remove them or set duplicates = "drop"{unless}: a copy counts its patient twice'
            self.remedy.duplicates = bool(self.roles.patient)
            grade = Grade.MEND if self.remedy.duplicates else Grade.LOOK
            self.note("rows-copied", grade, "", fault, action, rows)


def _in_order(text: str) -> tuple[bool, float, str]:
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text
