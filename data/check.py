"""All that is wrong, or odd, with a table of many owners at once, and which keys of the reader would mend it.

It reads every row: what it says of cells is for whoever may see them. Limits are rough and stand beside their reasons.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from consilium.data.cells import texts_of
from consilium.data.files import Lines
from consilium.data.loose import SHOWN, Grade, TableFinding
from consilium.data.odd_cells import (
    DATES,
    LEAST_NUMBERS,
    MISSING,
    MISSING_AMONG_NUMBERS,
    MOST_UNITS,
    NUMERIC,
    CellColumn,
    OddCell,
    number_in,
    stand_ins,
)
from consilium.data.remedy import Remedy, TableCheck
from consilium.data.repeats import at_two_owners, contradictions, copies
from consilium.data.spelling import slips, spellings
from consilium.data.units import in_two_units, two_groups
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
"""Of an owner: with fewer, a teacher learns little, and `Council` gives it no second one.
Of a class: with fewer, nothing says it by chance."""
MOST_TEACHERS = 25
"""Of one owner, by `Council`."""
SAYS_LABEL = 0.99
"""Area under the curve of one column alone, from which on it is the label, or was written down after it."""
NEARLY_SAYS = 0.98
"""Likewise, from which on somebody must look: some columns that may stay say as much."""
LATER = re.compile(
    r"(^|[^a-z])(outcome|died|dead|death|deceased|mortality|surviv\w*|discharge\w*|readmi\w*|follow[ _-]?up|autopsy"
    r"|length[ _-]of[ _-]stay|los|relapse\w*|recurrence|final|after|post[ _-]?op\w*)([^a-z]|$)"
)
"""Names of columns that are mostly known only after the question."""
IDENTIFIER = re.compile(
    r"(^|[^a-z])(id|ids|mrn|ssn|nhs|uuid|guid|identifier|patient|subject|person|case|record|row|index|name|surname|email"
    r"|phone|pat(ient)?(id|no|nr)|nr|no|num|number|rownames)([^a-z]|$)"
)


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


def check_table(frame: pl.DataFrame, lines: Lines, roles: Roles, quote: bool = True) -> TableCheck:
    """Look at all rows of a table once.

    frame: raw values, null where one is empty. quote: whether values may be shown; names of columns always are.
    """
    return _Checked(frame, lines, roles, quote).all()


def area(values: np.ndarray, y: np.ndarray) -> float:
    """Area under the curve of values float (n,) for y bool (n,), either way round; .5 where a class has none.

    >>> area(np.array([1.0, 2.0, 3.0, 3.0]), np.array([True, True, False, False]))
    1.0
    """
    _, place = np.unique(values, return_inverse=True)
    high, low = np.bincount(place[y], minlength=place.max() + 1), np.bincount(place[~y], minlength=place.max() + 1)
    if not high.sum() or not low.sum():
        return 0.5
    below = np.cumsum(low) - low / 2
    share = float((high * below).sum() / (high.sum() * low.sum()))
    return max(share, 1 - share)


class _Checked:
    def __init__(self, frame: pl.DataFrame, lines: Lines, roles: Roles, quote: bool) -> None:
        self.frame, self.lines, self.roles, self.quote = frame, lines, roles, quote
        self.rows = frame.height
        self.findings: list[TableFinding] = []
        self.remedy = Remedy()
        self.numbers: dict[str, np.ndarray] = {}
        """Columns of numbers as the remedy reads them, NaN where a value is missing."""
        self.categories: dict[str, pl.Series] = {}
        """Columns of categories likewise."""
        self.commas: set[str] = set()

    def note(
        self, code: str, grade: Grade, column: str, fault: str, action: str,
        rows: Sequence[int] | np.ndarray = (), values: Iterable[str] = (), count: int | None = None,
    ) -> None:  # fmt: skip
        places = tuple(self.lines.place(int(row)) for row in rows[:SHOWN])
        shown = tuple(str(value)[:40] for value in list(values)[:SHOWN]) if self.quote else ()
        number = len(rows) if count is None else count
        self.findings.append(TableFinding(code, grade, column, fault, action, number, places, shown))

    def all(self) -> TableCheck:
        features = [name for name in self.frame.columns if name not in {*self.roles.named.values(), *self.roles.drop}]
        columns = {name: CellColumn(self.frame[name]) for name in self.frame.columns if name not in self.roles.drop}
        owners = self._owners(columns[self.roles.owner]) if self.roles.owner in columns else None
        label = self._label(columns[self.roles.label]) if self.roles.label in columns else None
        for name in features:
            self._feature(columns[name], owners)
        self._decimal_commas(columns)
        for role in ("patient", "time"):
            if (name := self.roles.named.get(role)) in columns:
                self._beside(role, columns[name], owners)
        if label is not None:
            self._leaks(columns, label)
        if owners is not None:
            self._sizes(owners, label)
            self._two_units(owners)
            self._twice(features, owners)
        self._copies(columns, label)
        order = {name: place for place, name in enumerate(["", *self.frame.columns])}
        grades = list(Grade)
        self.findings.sort(key=lambda finding: (grades.index(finding.grade), order.get(finding.column, 0)))
        noted = {finding.column for finding in self.findings}
        self.remedy.drop = [name for name in dict.fromkeys(self.remedy.drop) if name in features]
        self.remedy.missing = list(dict.fromkeys(self.remedy.missing))
        self._whole_codes()
        plain = tuple(name for name in features if name not in noted)
        return TableCheck(self.rows, tuple(self.findings), self.remedy, plain, self.numbers, owners, label)

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

    def _feature(self, cells: CellColumn, owners: pl.Series | None) -> None:
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
            self._category(cells, absent, owners)

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
            more = (
                f" ({', '.join(forms)}: not all the same)" if kind == "unit" and len(forms) > 1 and self.quote else ""
            )
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
        if suspects := stand_ins(values):
            shown = [str(int(value)) for value in suspects]
            rows = np.flatnonzero(np.isin(values, suspects))
            action = "Name it under missing_codes of this column, unless it was measured"
            self.note(
                "stand-in",
                Grade.LOOK,
                name,
                "a number stands far from all others, as one for missing",
                action,
                rows,
                shown,
            )
            values[rows] = np.nan
            written += [text for text in cells.counts if text not in cells.odd and float(text) in suspects]
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
        self._plain_number(name, values, many)

    def _for_the_file(self, name: str) -> None:
        """What was noted of the column is no key's to mend."""
        self.findings = [
            replace(finding, grade=Grade.FILE) if (finding.column, finding.grade) == (name, Grade.MEND) else finding
            for finding in self.findings
        ]

    def _plain_number(self, name: str, values: np.ndarray, many: bool) -> None:
        known = values[~np.isnan(values)]
        self.numbers[name] = values
        if not len(known):
            return
        if (known == known[0]).all() and self.rows > 1:
            self._constant(name, str(known[0]))
        elif self._is_identifier(name, known):
            action = "Leave it out; if it says whose a row is, name it as the patient"
            self.note("identifier", Grade.LOOK, name, "looks like an identifier among the features", action)
            self.remedy.drop.append(name)
        elif (np.abs(known) > np.finfo(np.float32).max).any():
            rows = np.flatnonzero(np.abs(values) > np.finfo(np.float32).max)
            self.note("too-large", Grade.FILE, name, "numbers beyond float32", "Correct them, or empty them", rows)

    def _is_identifier(self, name: str, known: np.ndarray) -> bool:
        """Whole numbers, another one in nearly every row, which count the rows or are called like identifiers."""
        if len(known) < 3 * LEAST_ROWS or (known != np.rint(known)).any():
            return False
        different, named = len(np.unique(known)), bool(IDENTIFIER.search(_words(name)))
        if named and different > MOST_VALUES and different >= 0.2 * len(known):
            return True
        return different == len(known) and float(known.max() - known.min()) < 2 * len(known)

    def _constant(self, name: str, value: str) -> None:
        self.note(
            "constant",
            Grade.LOOK,
            name,
            "it has one value only",
            "Leave it out: nothing is learnt from it",
            values=[value],
        )
        self.remedy.drop.append(name)

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

    def _category(self, cells: CellColumn, absent: list[str], owners: pl.Series | None) -> None:
        name = cells.name
        values = [text for text in cells.counts if text not in absent]
        if absent:
            self._missing(cells, absent, Grade.LOOK)
            self.remedy.missing += absent
        if len(values) == 1 and self.rows > 1:
            self._constant(name, values[0])
            return
        merged = self._spellings(cells, values)
        left = len({merged.get(text, text) for text in values})
        if left > MOST_VALUES:
            known = cells.total(values)
            if cells.total(two := cells.of("two")) >= MOSTLY * known:
                action = "Write them into two columns: until then it is left out"
                self.note("two-numbers", Grade.MEND, name, "two numbers in one cell", action, cells.rows(two), two)
                self.remedy.drop.append(name)
                return
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
        if owners is not None:
            self._coded_otherwise(cells, values, merged, owners)
        texts = cells.texts.replace(absent, [None] * len(absent)) if absent else cells.texts
        self.categories[name] = texts.replace(list(merged), list(merged.values())) if merged else texts

    def _spellings(
        self, cells: CellColumn, values: list[str], code: str = "spelling", grade: Grade = Grade.LOOK
    ) -> dict[str, str]:
        """Text -> the one that it is another spelling of. Notes them."""
        merged = spellings({text: cells.counts[text] for text in values})
        if not merged:
            return {}
        forms: defaultdict[str, list[str]] = defaultdict(list)
        for text, chosen in merged.items():
            forms[chosen].append(text)
        groups = "; ".join(
            f"{', '.join(map(repr, texts[:4]))} and {chosen!r}" for chosen, texts in list(forms.items())[:4]
        )
        fault = "one value is spelled in several ways" + (f": {groups}" if self.quote else "")
        action = "Write it in one way, or say so under values of cells"
        self.note(code, grade, cells.name, fault, action, cells.rows(merged))
        self._cells(cells.name)["values"] = merged
        return merged

    def _coded_otherwise(self, cells: CellColumn, values: list[str], merged: dict[str, str], owners: pl.Series) -> None:
        """Owners whose values are none of those that most owners have."""
        texts = cells.texts.replace(list(merged), list(merged.values())) if merged else cells.texts
        by_owner: defaultdict[str, Counter[str]] = defaultdict(Counter)
        chosen = {merged.get(text, text) for text in values}
        for owner, text in zip(owners.to_list(), texts.to_list(), strict=True):
            if text in chosen and owner is not None:
                by_owner[owner][text] += 1
        large = {
            owner: counts for owner, counts in by_owner.items() if counts.total() >= LEAST_ROWS and len(counts) > 1
        }
        sets = Counter(frozenset(counts) for counts in large.values())
        if len(large) < 2 or not sets:
            return
        held = Counter(text for counts in large.values() for text in counts)
        usual = {text for text, count in held.items() if 2 * count > len(large)} or set(sets.most_common(1)[0][0])
        strange = [owner for owner, counts in large.items() if not usual & set(counts)]
        if not strange or 2 * len(strange) > len(large):
            return
        theirs = sorted({text for owner in strange for text in large[owner]})
        fault = f"{_some(strange)} code it otherwise than the others" + (
            f": {', '.join(theirs[:4])} instead of {', '.join(sorted(usual)[:4])}" if self.quote else ""
        )
        rows = np.flatnonzero((owners.is_in(strange) & texts.is_in(theirs)).fill_null(False).to_numpy())
        action = "Find out what the codes mean, and say so under values of cells"
        self.note("coded-otherwise", Grade.LOOK, cells.name, fault, action, rows)

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

    def _label(self, cells: CellColumn) -> pl.Series | None:
        """The label as the remedy reads it, null where it is missing."""
        name, role = cells.name, "label"
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
            return None
        merged = self._spellings(cells, values, "label-spelling", Grade.MEND)
        texts = cells.texts.replace(absent, [None] * len(absent)) if absent else cells.texts
        texts = texts.replace(list(merged), list(merged.values())) if merged else texts
        sizes = Counter(text for text in texts.to_list() if text is not None)
        classes = sorted(sizes, key=_in_order)
        self.remedy.classes = tuple(classes)
        if len(classes) < 2:
            self.note(
                "label-one-class", Grade.FILE, name, "all rows have one label", "Choose another label", values=values
            )
        elif len(classes) > 2:
            action = "If two are meant, say under values of cells which are one"
            self.note(
                f"{role}-many-classes", Grade.LOOK, name, f"{len(classes)} classes", action, values=classes, count=0
            )
        if (unknown := [text for text in classes if text.casefold() in MISSING_AMONG_NUMBERS]) and len(classes) > 2:
            action = 'If so, name it under missing_codes of this column, and set unlabelled = "drop"'
            fault = "a class may mean that the label is not known"
            self.note("label-unknown", Grade.LOOK, name, fault, action, cells.rows(unknown), unknown)
        rare = [text for text in classes if sizes[text] < LEAST_ROWS]
        if rare and len(classes) > 1:
            fault = f"fewer than {LEAST_ROWS} rows have this class"
            self.note(
                "label-rare",
                Grade.LOOK,
                name,
                fault,
                "Is it a slip? Correct it, or join classes",
                cells.rows(rare),
                rare,
            )
        return texts

    def _owners(self, cells: CellColumn) -> pl.Series:
        """The owners as the remedy reads them."""
        name, absent = cells.name, cells.of("missing")
        empty = np.flatnonzero(cells.texts.is_null().to_numpy() | cells.texts.is_in(absent).fill_null(False).to_numpy())
        if len(empty):
            action = "Complete them, or leave these rows out of the file: nobody knows whose they are"
            self.note("owner-missing", Grade.FILE, name, "rows have no owner", action, empty)
            self.remedy.in_file.append(f"leave out the rows without {name!r}")
        values = [text for text in cells.counts if text not in absent]
        merged = self._spellings(cells, values, "owner-spelling", Grade.MEND)
        left = sorted({merged.get(text, text) for text in values})
        nearly = list(slips(left))
        if nearly:
            pairs = [f"{first} / {second}" for first, second in nearly]
            fault = "owners are spelled nearly alike"
            self.note(
                "owner-nearly",
                Grade.LOOK,
                name,
                fault,
                "If they are one, say so under values of cells",
                values=pairs,
                count=len(pairs),
            )
        if len(left) < 3:
            fault = f"{len(left)} owners, and three at least are needed: two that vote, and one that is public"
            self.note("few-owners", Grade.FILE, name, fault, "Is it the right column?", values=left)
        if len(left) > 0.5 * self.rows and self.rows > LEAST_ROWS:
            fault = f"{len(left)} owners of {self.rows} rows"
            self.note("many-owners", Grade.LOOK, name, fault, "Is it the column of owners, or of patients?")
        texts = cells.texts.replace(absent, [None] * len(absent)) if absent else cells.texts
        return texts.replace(list(merged), list(merged.values())) if merged else texts

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

    # Columns beside each other, and owners.

    def _leaks(self, columns: dict[str, CellColumn], label: pl.Series) -> None:
        known = label.is_not_null().to_numpy()
        classes = [text for text, count in Counter(label.drop_nulls().to_list()).items() if count >= LEAST_ROWS]
        if len(classes) < 2:
            return
        binary = len(classes) == 2
        targets = [(label == text).fill_null(False).to_numpy() for text in classes[: 1 if binary else None]]
        for name in (*self.numbers, *self.categories):
            if name in self.remedy.drop and name not in self.numbers:
                continue
            gone = columns[name].texts.is_null().to_numpy()
            areas = [self._says(name, target, known) for target in targets]
            says = min(areas) >= SAYS_LABEL
            by_gaps = binary and gone.any() and area(gone[known].astype(float), targets[0][known]) >= SAYS_LABEL
            if says or by_gaps:
                how = "whether it has a value says" if by_gaps and not says else "its values alone say"
                fault = f"{how} the label: area under the curve {SAYS_LABEL} or more"
                action = "Leave it out, unless it is known before the label is"
                self.note("says-label", Grade.LOOK, name, fault, action)
                self.remedy.drop.append(name)
            elif (binary or name in self.categories) and max(areas) >= NEARLY_SAYS:
                pairs = zip(classes, areas, strict=False)
                near = ", ".join(repr(text) for text, reached in pairs if reached >= NEARLY_SAYS)
                fault = f"its values nearly say whether the label is {near}: area under the curve {max(areas):.2f}"
                self.note("says-label", Grade.LOOK, name, fault, "Leave it out, unless it is known before the label is")
            elif LATER.search(_words(name)):
                fault = "by its name it may be known only after the label"
                self.note("later", Grade.LOOK, name, fault, "Leave it out if that is so")

    def _says(self, name: str, target: np.ndarray, known: np.ndarray) -> float:
        """Area under the curve of one column, of a category by how frequent the class is in each value."""
        if name in self.numbers:
            values = self.numbers[name]
            rows = known & ~np.isnan(values)
            few = min(target[rows].sum(), (~target[rows]).sum()) < LEAST_ROWS
            return 0.5 if few else area(values[rows], target[rows])
        _, codes = np.unique(self.categories[name].fill_null("").to_numpy().astype(str), return_inverse=True)
        counts = np.bincount(codes[known])
        if len(counts) > len(target) / LEAST_ROWS:
            return 0.5  # so few rows of each value say any label
        rates = np.bincount(codes[known], weights=target[known]) / np.maximum(counts, 1)
        return area(rates[codes[known]], target[known])

    def _sizes(self, owners: pl.Series, label: pl.Series | None) -> None:
        names = np.array([name or "" for name in owners.to_list()])
        counts = Counter(name for name in names.tolist() if name)
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
        if label is None:
            return
        classes: defaultdict[str, set[str]] = defaultdict(set)
        for name, text in zip(names.tolist(), label.to_list(), strict=True):
            if name and text is not None:
                classes[name].add(text)
        one = sorted(name for name, texts in classes.items() if len(texts) == 1 and counts[name] >= LEAST_ROWS)
        if one:
            fault = f"{len(one)} of {len(counts)} owners have rows of one class only"
            action = "Is their label coded otherwise? If it is so, they vote for that class always"
            self.note("one-class-owners", Grade.LOOK, self.roles.owner, fault, action, values=one, count=len(one))

    def _two_units(self, owners: pl.Series) -> None:
        """Columns whose owners fall into two groups that a factor parts: a rule that compares each owner with what is
        usual sees nothing where half of them write another unit."""
        names, places = np.unique(np.array([name or "" for name in owners.to_list()]), return_inverse=True)
        for column, values in self.numbers.items():
            if len(np.unique(values[~np.isnan(values)])) < LEAST_NUMBERS or column in self.remedy.drop:
                continue
            inside = {}
            for place, name in enumerate(names):
                mine = values[(places == place) & ~np.isnan(values)]
                if name and len(mine) >= LEAST_ROWS and (mine > 0).mean() > SURELY and len(np.unique(mine)) > 2:
                    inside[str(name)] = np.quantile(mine, (0.1, 0.5, 0.9))
            lower, upper = two_groups(inside)
            if lower:
                fewer, others = sorted((lower, upper), key=len)
                theirs = owners.is_in(fewer).fill_null(False).to_numpy() & ~np.isnan(values)
                usual = owners.is_in(others).fill_null(False).to_numpy() & ~np.isnan(values)
                fault, action = in_two_units(column, values[theirs], values[usual], _some(sorted(fewer)))
                self.note("two-units", Grade.FILE, column, fault, action, np.flatnonzero(theirs))
                self.remedy.in_file.append(f"bring column {column!r} to one unit")

    # Rows beside each other.

    def _twice(self, features: list[str], owners: pl.Series) -> None:
        parts = [name for name in features if name in self.numbers or name in self.categories]
        columns = [texts_of(self.frame[name]) for name in [*parts, *([self.roles.label] if self.roles.label else [])]]
        if len(rows := at_two_owners(columns, owners)):
            fault = "rows stand at a second owner too, value for value"
            action = "Remove the copies: the guarantee covers one copy of a patient. Or name the patients"
            self.note("rows-twice", Grade.LOOK, "", fault, action, rows)

    def _copies(self, columns: Mapping[str, CellColumn], label: pl.Series | None) -> None:
        texts = {name: column.texts for name, column in columns.items()}
        if len(rows := copies(texts, self.roles.owner)):
            unless = "" if self.roles.patient else ", unless two people are alike in all of it"
            fault = "rows are exact copies of another row: the same in every column"
            action = f'Remove them or set duplicates = "drop"{unless}: a copy counts its patient twice'
            self.remedy.duplicates = bool(self.roles.patient)
            grade = Grade.MEND if self.remedy.duplicates else Grade.LOOK
            self.note("rows-copied", grade, "", fault, action, rows)
        if label is None:
            return
        texts.pop(self.roles.label)
        if len(rows := contradictions(texts, label, self.roles.owner)):
            fault = "rows differ from another row in the label alone"
            action = "If they are one patient, find out which label is right, and remove the other row"
            self.note("rows-contradict", Grade.LOOK, self.roles.label, fault, action, rows)


def _words(name: str) -> str:
    """A column's name in small letters, its parts divided: "patientId" -> "patient_id"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def _in_order(text: str) -> tuple[bool, float, str]:
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text
