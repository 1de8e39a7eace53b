"""`consilium data check`: all that is wrong with a table at once, and the scenario that reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.protocol.errors import ConsiliumError, DataError
from consilium.protocol.output import Format, FormatOption, show
from consilium.report.words import many

if TYPE_CHECKING:
    from consilium.data.check import Roles
    from consilium.data.loose import LooseTable
    from consilium.data.remedy import TableCheck

app = typer.Typer(
    no_args_is_help=True, help="Rows of your own: what is wrong with them.", pretty_exceptions_show_locals=False
)


@app.callback()
def _group() -> None:
    """Rows of your own: what is wrong with them."""


@app.command("check")
def check_command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help='CSV or Parquet, or several by a pattern ("2024-*.csv").')
    ],
    label: Annotated[str, typer.Option(metavar="COLUMN", help="What is voted on.")] = "",
    owner: Annotated[str, typer.Option(metavar="COLUMN", help="Hospital, site or school: whose a row is.")] = "",
    patient: Annotated[str, typer.Option(metavar="COLUMN", help="Of which patient a row is.")] = "",
    moment: Annotated[str, typer.Option("--time", metavar="COLUMN", help="When a row was.")] = "",
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="No feature; repeat.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="New file for the scenario; else it is printed.")
    ] = None,
    output: FormatOption = Format.text,
) -> None:
    """Say all that is wrong with a table at once, and write the scenario that reads it. Exit code 1: mend the file.

    Values are quoted: the rows are yours. A party checks its own with `consilium party dry-run --data-only`.
    """
    from consilium.data.check import Roles
    from consilium.protocol.errors import OutputExists
    from consilium.protocol.files import replace_text, writing

    if out is not None and out.exists():
        raise OutputExists(f"{out} is already there", "Choose another file")
    roles = Roles(label.strip(), owner.strip(), patient.strip(), moment.strip(), tuple(drop or ()))
    checked = check_files(file, roles)
    if out is not None and checked.scenario:
        with writing(out):
            replace_text(out, checked.scenario_text(out.parent))
    show(output, checked.to_json(), checked.lines(out))
    if checked.in_file or checked.refused:
        raise typer.Exit(1)


def check_files(pattern: str, roles: Roles) -> CheckedFiles:
    """All of it.

    Raises
    ------
    PathError : there is no such file. DataError : it is empty, binary or has no such column.
    """
    from consilium.data.check import check_table
    from consilium.data.files import files_of
    from consilium.data.loose import Grade, read_loosely

    paths = files_of(pattern, Path())
    _check_heading(paths[0], {*roles.named.values()})
    table = read_loosely(paths)
    for role, name in (*roles.named.items(), *(("drop", name) for name in roles.drop)):
        if name not in table.frame.columns:
            raise DataError(f"{pattern} has no column {name!r}, which --{role} names", meant(name, table.frame.columns))
    check = check_table(table.frame, table.lines, roles)
    findings = [*table.findings, *check.findings]
    findings.sort(key=lambda finding: list(Grade).index(finding.grade))
    return CheckedFiles(pattern, roles, table, replace(check, findings=tuple(findings)))


_LINES = 50
"""Among which a heading is looked for."""


def _check_heading(path: Path, names: set[str]) -> None:
    """Raise DataError where a later line of a text file has all these names: a title stands before the heading."""
    if not names or path.suffix.casefold() not in (".csv", ".tsv", ".txt"):
        return
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            first = list(islice(file, _LINES))
    except OSError:  # said where the table is read
        return
    for number, line in enumerate(first, 1):
        if names <= {cell.strip(' "\ufeff\r\n') for cell in re.split("[,;\t|]", line)}:
            if number > 1:
                what = f"{path}: the heading is line {number}, and other lines stand before it"
                raise DataError(what, f"Remove lines 1 to {number - 1}")
            return


def meant(name: str, columns: list[str]) -> str:
    """What to do about a column that is not there.

    >>> meant("hopsital", ["age", "hospital"])
    "Did you mean 'hospital'? It has age, hospital"
    """
    small = {column.casefold(): column for column in columns}
    near = [small[text] for text in get_close_matches(name.casefold(), small, 2)]
    more = f" and {len(columns) - 20} more" if len(columns) > 20 else ""
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    return f"{hint}It has {', '.join(columns[:20])}{more}"


_TRAINER = "logistic_regression"
"""Its file holds no rows, as that of `graph` does."""
_REAL_NOISE = """\
# Without these two lines the noise follows a seed, so that a run can be repeated: it protects nobody.
# [simulation]
# noise = "system"
"""


@dataclass(frozen=True)
class CheckedFiles:
    """A table with what was seen of it. scenario: the tables of one that reads it; empty where no label is named."""

    pattern: str
    roles: Roles
    table: LooseTable = field(repr=False)
    check: TableCheck = field(repr=False)
    scenario: dict[str, Any] = field(init=False, repr=False)
    outcome: dict[str, Any] = field(init=False, repr=False)
    """What the scenario makes of the rows: rows, owners, features, classes; or why it is refused."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scenario", self._scenario())
        object.__setattr__(self, "outcome", self._outcome())

    @property
    def refused(self) -> bool:
        """Whether even the scenario does not read it."""
        return bool(self.scenario) and "refused" in self.outcome

    @property
    def in_file(self) -> list[str]:
        """What no key mends."""
        forms = {
            "lines-torn": "mend the torn lines", "lines-separator": "write all lines with one separator",
            "lines-header": "leave out repeated headers", "name-twice": "rename columns that have one name",
            "quotes": "mend the quotes", "files-differ": "export all files in one way",
        }  # fmt: skip
        codes = dict.fromkeys(finding.code for finding in self.check.findings)
        return [*(forms[code] for code in codes if code in forms), *dict.fromkeys(self.check.remedy.in_file)]

    def _data(self) -> dict[str, Any]:
        remedy, roles = self.check.remedy, self.roles
        csv = {**self.table.csv, **({"decimal_comma": True} if remedy.decimal_comma else {})}
        keys = {
            "set": "table", "path": str(self.pattern), "label": roles.label, "owner": roles.owner,
            "patient": roles.patient, "time": roles.time, "classes": list(remedy.classes),
            "unlabelled": "drop" if remedy.unlabelled else "",
            "duplicates": "drop" if remedy.duplicates else "", "drop": [*roles.drop, *remedy.drop],
            "missing": remedy.missing, "csv": csv, "cells": remedy.cells,
        }  # fmt: skip
        if not roles.owner:
            keys |= {"partition": "iid", "parties": 20}
        return {key: value for key, value in keys.items() if value}

    def _scenario(self) -> dict[str, Any]:
        if not self.roles.label:
            return {}
        unit = "patient" if self.roles.patient else "record"
        return {
            "data": self._data(),
            "federation": {
                "name": Path(self.pattern).stem.strip("*-_ ") or "own table",
                "minimum_parties": 2,
                "collection": "plaintext",
                "mechanism": {"name": "gnmax"},
                "query_budget": {"queries": 300, "answers": 300},
                "privacy": {"unit": unit, "neighbouring": "add_or_remove", "delta": 1e-5, "epsilon": 2.0},
            },
            "student": {"trainer": {"name": _TRAINER}},
        }

    def _outcome(self) -> dict[str, Any]:
        import numpy as np

        from consilium.data.files import CsvRule, in_file
        from consilium.data.table import TableRule, ruled
        from consilium.protocol.config_files import validate
        from consilium.simulations.datasets.roles import Piece
        from consilium.simulations.datasets.table import TableSource
        from consilium.simulations.population.specs import DataSpec

        if not self.scenario:
            return {"refused": "no label is named. Name it with --label COLUMN"}
        try:
            spec = validate(self.scenario["data"], DataSpec, "the scenario")
            rule = TableRule(
                csv=CsvRule(decimal_comma=spec.csv.decimal_comma), columns=spec.cells, missing=spec.missing
            )
            frame = ruled(self.table.frame, rule, self.table.lines, in_file("data.csv"))
            needed = [name for name in (self.roles.owner, self.roles.patient) if name]
            mask = np.ones(frame.height, dtype=bool)
            for name in needed:
                mask &= frame[name].is_not_null().to_numpy()
            source = TableSource.of_pieces([Piece(frame.filter(mask), self.table.lines.left(mask))], spec)
            rows = np.arange(len(source.y))
            dataset = source.dataset(rows)
        except ConsiliumError as error:
            return {"refused": str(error)}
        owners = len(np.unique(source.owner)) if self.roles.owner else None
        return {
            "rows": len(rows), "of": self.check.rows, "owners": owners,
            "columns": len(dataset.columns), "features": len(dataset.features), "classes": list(dataset.classes),
        }  # fmt: skip

    def scenario_text(self, folder: Path = Path()) -> str:
        """The scenario as a file in `folder`, to which its path is relative where it is below it."""
        import tomli_w

        table = {**self.scenario, "data": dict(self.scenario["data"])}
        path = Path(self.pattern).absolute()
        inside = path.is_relative_to(folder.absolute())
        table["data"]["path"] = str(path.relative_to(folder.absolute()) if inside else path)
        note = (
            "# privacy.unit: whose data the promise is about, a record, a patient or a whole party. Yours to choose.\n"
            "# student.trainer: a model of numbers alone. Others may hold public rows, of patients of yours.\n"
        )
        return f"{note}{tomli_w.dumps(table)}\n{_REAL_NOISE}"

    def council_text(self) -> str:
        """The same in Python."""
        remedy, roles = self.check.remedy, self.roles
        data = self.scenario["data"]
        options = {key: self.table.csv[key] for key in ("separator", "encoding") if key in self.table.csv}
        read = "".join(f", {name}={value!r}" for name, value in options.items())
        parquet = self.pattern.lower().endswith(".parquet")
        reader = "pl.read_parquet({!r})" if parquet else f"pl.read_csv({{!r}}, infer_schema=False{read})"
        lines = ["import polars as pl\nfrom consilium import Council\n", f"frame = {reader.format(self.pattern)}"]
        if remedy.decimal_comma:
            commas = r'r"^([+-]?\d*),(\d+)$", "${1}.${2}"'
            lines.append(f"frame = frame.with_columns(pl.all().str.replace({commas}))")
        if remedy.duplicates:
            lines.append("frame = frame.unique(maintain_order=True)")
        if remedy.unlabelled:
            absent = f" & ~pl.col({roles.label!r}).str.strip_chars().is_in({['', *remedy.missing]!r})"
            lines.append(f"frame = frame.filter(pl.col({roles.label!r}).is_not_null(){absent})")
        if dropped := [*data.get("drop", ()), *([roles.time] if roles.time else [])]:
            lines.append(f"frame = frame.drop({dropped!r})")
        privacy = self.scenario["federation"]["privacy"]
        parameters = {key: repr(privacy[key]) for key in ("epsilon", "delta", "unit", "neighbouring")}
        parameters["student"] = repr(_TRAINER)
        parameters |= {key: repr(data[key]) for key in ("parties", "classes", "missing") if key in data}
        if "cells" in data:
            inner = "".join(f"\n        {name!r}: {rule!r}," for name, rule in data["cells"].items())
            parameters["cells"] = f"{{{inner}\n    }}"
        text = "".join(f"\n    {key}={value}," for key, value in parameters.items())
        named = (("owners", roles.owner), ("patients", roles.patient))
        others = "".join(f", {name}={value!r}" for name, value in named if value)
        return "\n".join([*lines, f"council = Council({text}\n)", f"council.fit(frame, {roles.label!r}{others})"])

    def lines(self, out: Path | None = None) -> Iterator[str]:
        """For people."""
        from consilium.data.loose import Grade

        findings = self.check.findings
        size = f"{self.pattern}: {many(self.check.rows, 'row')}, {many(self.table.frame.width, 'column')}"
        yield f"{size}, {many(self.check.owners.n_unique(), 'owner')}" if self.check.owners is not None else size
        for grade in Grade:
            some = [finding for finding in findings if finding.grade is grade]
            if some:
                yield f"\n{grade.value.upper()} ({len(some)})"
                yield from (f"  {finding}" for finding in some)
        if self.check.plain:
            yield f"\nFINE ({len(self.check.plain)})\n  {', '.join(self.check.plain)}"
        yield ""
        if self.in_file:
            yield f"In the file first: {'; '.join(self.in_file)}. Then check it again."
        result = self.outcome
        if "refused" in result:
            yield f"It cannot be used yet: {result['refused']}"
        else:
            owners = f" of {many(result['owners'], 'owner')}" if result["owners"] else ""
            rows = f"The scenario reads {result['rows']} of {result['of']} rows{owners}"
            columns, features = many(result["columns"], "column"), many(result["features"], "feature")
            yield f"{rows}, {columns} as {features} (as public rows show them), classes {', '.join(result['classes'])}."
        if not self.scenario:
            return
        if out is not None:
            first = ", once the file is mended" if self.in_file else ""
            yield f"The scenario is in {out}{first}: consilium run {out}"
        else:
            yield f"\nA scenario (--out FILE.toml writes it):\n\n{self.scenario_text().rstrip()}"
        yield f"\nOr in Python:\n\n{self.council_text()}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "file": self.pattern,
            "rows": self.check.rows,
            "columns": self.table.frame.width,
            "must_be_mended": len(self.check.to_mend),
            "findings": [finding.to_json() for finding in self.check.findings],
            "fine": list(self.check.plain),
            "in_file": self.in_file,
            "would_read": self.outcome,
            "scenario": self.scenario_text() if self.scenario else None,
            "python": self.council_text() if self.scenario else None,
        }
